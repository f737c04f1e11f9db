"""Checkpoint files: no partition's offsets are lost, and none outlive their topic."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from ottla.broker.logs.checkpoints import OffsetCheckpoints, Offsets
from ottla.broker.logs.log_loader import LogLoader
from ottla.broker.metadata.topics import delete_topic
from ottla.log.storage.folder import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    DataFolder,
)
from ottla.metadata.controller import change_assignment
from ottla.wire.errors import ErrorCode, KafkaError
from testkit.waiting import stretched
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import killed, running, topic, write

SEGMENT = f"{0:020d}.log"


def checkpoint(folder: Path, name: str = RECOVERY_POINTS) -> dict[tuple[str, int], int]:
    return DataFolder(folder).read_checkpoint(name)


async def two_topics(folder: Path) -> None:
    """`a` and `b` with ten records each; those of `a` below 3 are deleted."""
    async with running(folder) as node:
        for name in ("a", "b"):
            write(await topic(node, name), 10)
        node.partitions.find("a", 0).log.raise_start_offset(3)


def test_a_stop_notes_how_far_every_log_is(tmp_path: Path) -> None:
    asyncio.run(two_topics(tmp_path))
    assert checkpoint(tmp_path) == {("a", 0): 10, ("b", 0): 10}
    assert checkpoint(tmp_path, HIGH_WATERMARKS) == {("a", 0): 10, ("b", 0): 10}
    assert checkpoint(tmp_path, START_OFFSETS) == {("a", 0): 3}


def test_a_partition_that_is_offline_keeps_its_offsets(tmp_path: Path) -> None:
    """Else the next start takes lost records for a torn tail, and cuts off what is left."""
    asyncio.run(two_topics(tmp_path))
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    damaged = tmp_path / "a-0" / SEGMENT
    os.truncate(damaged, 500)

    async def live() -> None:
        async with running(tmp_path) as node:
            with pytest.raises(KafkaError) as refused:
                node.partitions.find("a", 0)
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            write(node.partitions.find("b", 0))
            await node.log_manager.checkpoint()

    for life in range(3):
        asyncio.run(live())
        assert checkpoint(tmp_path) == {("a", 0): 10, ("b", 0): 11 + life}
        assert checkpoint(tmp_path, START_OFFSETS) == {("a", 0): 3}
        assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    assert damaged.stat().st_size == 500


def test_a_topic_made_again_begins_at_the_beginning(tmp_path: Path) -> None:
    asyncio.run(two_topics(tmp_path))

    async def live() -> None:
        async with running(tmp_path) as node:
            await delete_topic(node.metadata, "a")
            made = await topic(node, "a", partitions=2)
            assert (made.log.start_offset, made.log.end_offset) == (0, 0)
            assert checkpoint(tmp_path) == {("b", 0): 10}
            assert checkpoint(tmp_path, START_OFFSETS) == {}

    asyncio.run(live())


def test_a_topic_made_again_survives_a_kill(tmp_path: Path) -> None:
    """Its few records must not be measured by the recovery point of the topic before it."""
    folder = tmp_path / "data"
    asyncio.run(two_topics(folder))

    async def live() -> Path:
        async with running(folder) as node:
            await delete_topic(node.metadata, "a")
            write(await topic(node, "a"))
            return killed(folder, tmp_path / "killed")

    async def again(left: Path) -> None:
        async with running(left) as node:
            assert node.partitions.find("a", 0).log.end_offset == 1

    asyncio.run(again(asyncio.run(live())))


@pytest.mark.parametrize("name", ["a", "a" * 249])
def test_a_topic_made_again_begins_at_the_beginning_also_after_a_kill_before_its_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The store has the new topic; the checkpoints still have the old one's offsets."""
    folder = tmp_path / "data"

    async def live() -> Path:
        async with running(folder) as node:
            old = await topic(node, name)
            write(old, 10)
            await old.flush()
            old.log.raise_start_offset(3)
            await node.log_manager.checkpoint()
            await delete_topic(node.metadata, name)
            with monkeypatch.context() as patched:
                patched.setattr(LogLoader, "open_new_partitions", nothing)
                with pytest.raises(KafkaError):
                    await topic(node, name)
            left = killed(folder, tmp_path / "killed")
        assert checkpoint(left) == {(name, 0): 10}
        return left

    async def nothing(*_: object) -> None:
        pass

    async def again(left: Path) -> None:
        async with running(left) as node:
            made = node.partitions.find(name, 0)
            assert (made.log.start_offset, made.log.end_offset) == (0, 0)
            write(made)
        async with running(left) as node:
            assert node.partitions.find(name, 0).log.end_offset == 1

    asyncio.run(again(asyncio.run(live())))


def test_the_folder_of_a_deleted_partition_goes_after_its_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By it a start after a kill knows whose they are."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def live() -> None:
        async with running(tmp_path) as node:
            for name in ("a", "b"):
                old = await topic(node, name, file_delete_delay_ms="0")
                write(old)
                await old.flush()
            await node.log_manager.checkpoint()
            with monkeypatch.context() as patched:
                patched.setattr(DataFolder, "write_checkpoint", full)
                await delete_topic(node.metadata, "a")
                await until(lambda: [list(each.iterdir()) for each in deleted()] == [[]])
                await until(lambda: not len(node.background))
            assert len(deleted()) == 1
            await delete_topic(node.metadata, "b")
            await until(lambda: len(deleted()) == 1)
            assert checkpoint(tmp_path) == {}
        async with running(tmp_path):
            await until(lambda: not deleted())

    def deleted() -> list[Path]:
        return list(tmp_path.glob("*-delete"))

    asyncio.run(live())


def test_the_offsets_of_many_replicas_that_move_away_go_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0
    really_write = DataFolder.write_checkpoint

    def count(folder: DataFolder, name: str, offsets: dict[tuple[str, int], int]) -> None:
        nonlocal written
        written += 1
        really_write(folder, name, offsets)

    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, "a", partitions=100, file_delete_delay_ms="0")
            for partition in node.partitions:
                write(partition)
                await partition.flush()
            await node.log_manager.checkpoint()
            assert len(checkpoint(tmp_path)) == 100
            monkeypatch.setattr(DataFolder, "write_checkpoint", count)
            elsewhere = {index: [node.id + 1] for index in range(100)}
            await node.metadata.store.commit([change_assignment(node.image.topics["a"], elsewhere)])
            await until(lambda: not [*tmp_path.glob("a-*")])
            assert checkpoint(tmp_path) == checkpoint(tmp_path, HIGH_WATERMARKS) == {}

    asyncio.run(live())
    assert written < 100


def test_a_topic_made_again_while_the_offsets_of_the_old_one_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write would end after the new one was made, and a kill would take it for damaged."""
    begun = threading.Event()
    may_end = threading.Event()
    really_write = DataFolder.write_checkpoint

    def write_slowly(folder: DataFolder, name: str, offsets: dict[tuple[str, int], int]) -> None:
        begun.set()
        may_end.wait(stretched(10))
        really_write(folder, name, offsets)

    async def live() -> None:
        async with running(tmp_path) as node:
            old = await topic(node, "a")
            write(old, 10)
            await old.flush()
            monkeypatch.setattr(DataFolder, "write_checkpoint", write_slowly)
            loop = asyncio.get_running_loop()
            writing = loop.create_task(node.log_manager.checkpoints.write_recovery_points())
            await loop.run_in_executor(None, begun.wait, 10)
            await delete_topic(node.metadata, "a")
            loop.call_later(0.05, may_end.set)
            await topic(node, "a")
            await writing
            assert checkpoint(tmp_path) == {}

    asyncio.run(live())


def test_the_offsets_of_a_deleted_topic_go(tmp_path: Path) -> None:
    asyncio.run(two_topics(tmp_path))

    async def live() -> None:
        async with running(tmp_path) as node:
            await delete_topic(node.metadata, "a")

    asyncio.run(live())
    assert checkpoint(tmp_path) == {("b", 0): 10}


def test_what_has_not_changed_is_not_written(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            write(await topic(node, "a"))
            await node.log_manager.checkpoint()
            written = (tmp_path / HIGH_WATERMARKS).stat().st_mtime_ns
            await node.log_manager.checkpoint()
            assert (tmp_path / HIGH_WATERMARKS).stat().st_mtime_ns == written

    asyncio.run(live())


def test_a_write_that_was_given_up_ends_before_the_next_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work = 0
    most_at_work = 0
    begun = threading.Event()
    may_end = threading.Event()
    really_write = DataFolder.write_checkpoint

    def write_slowly(folder: DataFolder, name: str, offsets: dict[tuple[str, int], int]) -> None:
        nonlocal at_work, most_at_work
        at_work += 1
        most_at_work = max(most_at_work, at_work)
        begun.set()
        may_end.wait(stretched(10))
        really_write(folder, name, offsets)
        at_work -= 1

    async def live() -> None:
        async with running(tmp_path) as node:
            write(await topic(node, "a"))
            monkeypatch.setattr(DataFolder, "write_checkpoint", write_slowly)
            loop = asyncio.get_running_loop()
            first = loop.create_task(node.log_manager.checkpoint())
            await loop.run_in_executor(None, begun.wait, 10)
            first.cancel()
            second = loop.create_task(node.log_manager.checkpoint())
            await asyncio.sleep(0)
            loop.call_soon(may_end.set)
            await second
            assert first.cancelled()

    asyncio.run(live())
    assert most_at_work == 1


def test_a_write_that_was_given_up_or_failed_at_its_end_does_not_outlive_what_it_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is replaced, and then the folder's fsync fails, or the caller stopped waiting."""
    really_write = DataFolder.write_checkpoint
    begun, may_end = threading.Event(), threading.Event()

    def fail_at_the_end(folder: DataFolder, name: str, offsets: Offsets) -> None:
        really_write(folder, name, offsets)
        raise OSError(errno.EIO, "the folder is not on disk")

    def write_slowly(folder: DataFolder, name: str, offsets: Offsets) -> None:
        begun.set()
        may_end.wait(stretched(10))
        really_write(folder, name, offsets)

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a")
            checkpoints: OffsetCheckpoints = node.log_manager.checkpoints
            for each in (fail_at_the_end, write_slowly):
                write(partition, 10)
                await partition.flush()
                with monkeypatch.context() as patched:
                    patched.setattr(DataFolder, "write_checkpoint", each)
                    writing = asyncio.create_task(checkpoints.write_recovery_points())
                    if each is write_slowly:
                        await asyncio.get_running_loop().run_in_executor(None, begun.wait, 10)
                        writing.cancel()
                        may_end.set()
                    await asyncio.wait((writing,))
                assert checkpoint(tmp_path) == {("a", 0): 10}
                partition.log.lower_recovery_point(0)
                await checkpoints.write_recovery_points()
                assert checkpoint(tmp_path) == {}
                partition.log.truncate_to(0)

    asyncio.run(live())


def test_a_deleted_topic_is_forgotten_where_the_write_that_named_it_failed_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_write = DataFolder.write_checkpoint

    def fail_at_the_end(folder: DataFolder, name: str, offsets: Offsets) -> None:
        really_write(folder, name, offsets)
        raise OSError(errno.EIO, "the folder is not on disk")

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a")
            write(partition, 10)
            await partition.flush()
            with monkeypatch.context() as patched:
                patched.setattr(DataFolder, "write_checkpoint", fail_at_the_end)
                with pytest.raises(OSError, match="not on disk"):
                    await node.log_manager.checkpoints.write()
            assert checkpoint(tmp_path) == {("a", 0): 10}
            await delete_topic(node.metadata, "a")
            await node.log_manager.checkpoints.forget_deleted(("a", 0))
            assert checkpoint(tmp_path) == {}

    asyncio.run(live())


def test_a_full_disk_leaves_the_old_checkpoint_and_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a")
            write(partition)
            checkpoints: OffsetCheckpoints = node.log_manager.checkpoints
            await checkpoints.write()
            write(partition)
            with monkeypatch.context() as patched:
                patched.setattr(DataFolder, "write_checkpoint", full)
                with pytest.raises(OSError, match="No space"):
                    await checkpoints.write()
            assert checkpoint(tmp_path, HIGH_WATERMARKS) == {("a", 0): 1}
            await checkpoints.write()
            assert checkpoint(tmp_path, HIGH_WATERMARKS) == {("a", 0): 2}

    asyncio.run(live())


def test_a_partition_that_is_opened_while_a_file_is_made_keeps_its_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(two_topics(tmp_path))

    async def live() -> None:
        async with running(tmp_path) as node:
            all_of_them = list(node.partitions)
            opened = node.partitions.find("a", 0)
            # As if its recovery had ended after the walk over all partitions had begun.
            others = [each for each in all_of_them if each is not opened]
            opened.log.raise_start_offset(4)
            monkeypatch.setattr(type(node.partitions), "__iter__", lambda _: iter(others))
            await node.log_manager.checkpoint()
        assert checkpoint(tmp_path, START_OFFSETS)["a", 0] == 4
        assert checkpoint(tmp_path)["a", 0] == 10

    asyncio.run(live())
