"""Opening the logs of a broker: what was there is served, and what is missing is said."""

import asyncio
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from ottla.broker.broker_server import BrokerServer
from ottla.broker.logs import child, log_loader
from ottla.broker.logs.log_loader import LogLoader
from ottla.broker.metadata.topics import delete_topic
from ottla.log.storage.folder import CLEAN_SHUTDOWN, HIGH_WATERMARKS, DataFolder
from ottla.metadata.controller import change_assignment, change_partition
from ottla.metadata.documents import PartitionState
from ottla.metadata.elections import NO_LEADER
from ottla.wire.errors import ErrorCode, KafkaError
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import killed, new_node, running, topic, write

SEGMENT = f"{0:020d}.log"


async def filled(folder: Path, *names: str, partitions: int = 1, records: int = 10) -> None:
    """Topics with some records, after a clean stop."""
    async with running(folder) as node:
        for name in names:
            await topic(node, name, partitions)
            for partition in node.partitions.of_topic(name):
                write(partition, records)


def error_of(node: BrokerServer, name: str, index: int = 0) -> ErrorCode | None:
    """What a client gets that asks for a partition."""
    try:
        node.partitions.find(name, index)
    except KafkaError as problem:
        return problem.code
    return None


def end_offsets(node: BrokerServer, name: str) -> list[int]:
    return [partition.log.end_offset for partition in node.partitions.of_topic(name)]


def test_after_a_clean_stop_everything_is_there_and_the_mark_is_not(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path, "a", partitions=30))
    assert (tmp_path / CLEAN_SHUTDOWN).exists()

    async def live() -> None:
        async with running(tmp_path) as node:
            assert end_offsets(node, "a") == [10] * 30
            assert not (tmp_path / CLEAN_SHUTDOWN).exists()

    asyncio.run(live())


def test_after_a_kill_a_torn_tail_is_cut_and_told(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    async def first() -> Path:
        async with running(folder) as node:
            write(await topic(node, "a"), 10)
            return killed(folder, tmp_path / "killed")

    async def second(left: Path) -> None:
        with (left / "a-0" / SEGMENT).open("ab") as file:
            file.write(b"torn")
        with capture_logs() as said:
            async with running(left) as node:
                assert end_offsets(node, "a") == [10]
        (told,) = [
            line
            for line in said
            if line["event"] == "log has a corrupt or incomplete tail; truncated"
        ]
        assert (told["partition"], told["bytes"]) == ("a-0", 4)

    asyncio.run(second(asyncio.run(first())))


def test_a_log_that_could_not_be_looked_at_after_a_kill_is_scanned_all_the_same(
    tmp_path: Path,
) -> None:
    """Opened as after a clean stop, it would pass for flushed, and a torn tail for damage."""
    folder = tmp_path / "data"

    async def first() -> Path:
        async with running(folder) as node:
            write(await topic(node, "a"), 10)
            return killed(folder, tmp_path / "killed")

    async def second(left: Path) -> None:
        node = new_node(left)
        really_stat, refused = node.files.stat, False

        def stat(path: str) -> os.stat_result:
            nonlocal refused
            if path.endswith(SEGMENT) and not refused:
                refused = True
                raise OSError(errno.EMFILE, "Too many open files")
            return really_stat(path)

        node.files.stat = stat
        await node.open()
        await node.start({"PLAINTEXT": 1})
        log = node.partitions.find("a", 0).log
        assert (log.recovery_point, log.end_offset) == (0, 10)
        await node.close()

    asyncio.run(second(asyncio.run(first())))


def test_what_was_scanned_after_a_kill_is_flushed_without_another_write(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    async def first() -> Path:
        async with running(folder) as node:
            write(await topic(node, "a", flush_ms="1"), 10)
            return killed(folder, tmp_path / "killed")

    async def second(left: Path) -> None:
        async with running(left) as node:
            await until(lambda: node.partitions.find("a", 0).log.recovery_point == 10)

    asyncio.run(second(asyncio.run(first())))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("size", [0, 500])
def test_records_that_are_gone_take_their_partition_offline(
    tmp_path: Path, clean: bool, size: int
) -> None:
    asyncio.run(filled(tmp_path, "a", "b"))
    os.truncate(tmp_path / "a-0" / SEGMENT, size)
    if not clean:
        (tmp_path / CLEAN_SHUTDOWN).unlink()

    async def live() -> None:
        async with running(tmp_path) as node:
            assert error_of(node, "a") == ErrorCode.KAFKA_STORAGE_ERROR
            assert end_offsets(node, "b") == [10]

    asyncio.run(live())
    assert (tmp_path / "a-0" / SEGMENT).stat().st_size == size
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


def test_a_folder_that_is_gone_is_reported_and_offsets_continue(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path, "a"))
    shutil.rmtree(tmp_path / "a-0")

    async def live() -> None:
        with capture_logs() as said:
            async with running(tmp_path) as node:
                log = node.partitions.find("a", 0).log
                assert (log.start_offset, log.end_offset) == (10, 10)
        assert [line["next_offset"] for line in said if line["log_level"] == "error"] == [10]

    asyncio.run(live())


def test_a_file_in_the_place_of_a_folder_is_one_partitions_problem(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path, "a", "b"))
    shutil.rmtree(tmp_path / "a-0")
    (tmp_path / "a-0").write_text("hello")

    async def live() -> None:
        async with running(tmp_path) as node:
            assert error_of(node, "a") == ErrorCode.KAFKA_STORAGE_ERROR
            assert error_of(node, "b") is None

    asyncio.run(live())


def test_the_folder_of_another_topic_is_set_aside(tmp_path: Path) -> None:
    name = "a" * 249
    asyncio.run(filled(tmp_path, name))
    DataFolder(tmp_path).write_topic_id(tmp_path / f"{name}-0", uuid4())

    async def live() -> None:
        async with running(tmp_path) as node:
            assert end_offsets(node, name) == [0]

    asyncio.run(live())
    (stray,) = tmp_path.glob("*-stray")
    assert (stray / SEGMENT).stat().st_size > 0


def test_folders_that_belong_to_no_topic_are_left_alone(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path, "a"))
    (tmp_path / "stranger-0").mkdir()
    (tmp_path / "stranger-0" / "file").write_text("mine")

    async def live() -> None:
        with capture_logs() as said:
            async with running(tmp_path) as node:
                assert error_of(node, "stranger") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "stranger-0" in [line.get("folders") for line in said]

    asyncio.run(live())
    assert (tmp_path / "stranger-0" / "file").read_text() == "mine"


def test_a_deletion_that_a_stop_interrupted_is_finished(tmp_path: Path) -> None:
    async def delete() -> None:
        async with running(tmp_path) as node:
            await topic(node, "a", partitions=3)
            await delete_topic(node.metadata, "a")

    async def live() -> None:
        async with running(tmp_path):
            await until(lambda: not list(tmp_path.glob("*-delete")))

    asyncio.run(delete())
    assert len(list(tmp_path.glob("*-delete"))) == 3
    asyncio.run(live())


def test_a_stop_before_everything_is_open_is_not_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not open may need a scan, and the mark would say that it does not."""
    asyncio.run(filled(tmp_path, "a"))
    (tmp_path / CLEAN_SHUTDOWN).unlink()

    async def interrupted(_: LogLoader) -> None:
        raise asyncio.CancelledError

    async def live() -> None:
        node = new_node(tmp_path)
        await node.open()
        with monkeypatch.context() as patched:
            patched.setattr(LogLoader, "open_all", interrupted)
            with pytest.raises(asyncio.CancelledError):
                await node.start({"PLAINTEXT": 1})
        await node.close()

    asyncio.run(live())
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


def test_a_partition_that_a_full_disk_refused_is_opened_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_loader, "TRY_AGAIN_SECONDS", 0.01)

    def full(_: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def live() -> None:
        async with running(tmp_path) as node:
            mkdir, node.files.mkdir = node.files.mkdir, full
            with pytest.raises(KafkaError):
                await topic(node, "a")
            assert error_of(node, "a") == ErrorCode.KAFKA_STORAGE_ERROR
            node.files.mkdir = mkdir
            await until(lambda: error_of(node, "a") is None)
            write(node.partitions.find("a", 0))

    asyncio.run(live())
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


class Unclean:
    """Three topics after a kill; every scan of theirs goes to the child process."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log_loader, "SCANNED_IN_PLACE", -1)
        self.folder = tmp_path / "killed"

        async def make() -> None:
            async with running(tmp_path / "data") as node:
                for name in ("a", "b", "c"):
                    write(await topic(node, name), 10)
                killed(tmp_path / "data", self.folder)

        asyncio.run(make())


@pytest.fixture
def unclean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unclean:
    return Unclean(tmp_path, monkeypatch)


def test_large_recoveries_continue_while_the_broker_runs(unclean: Unclean) -> None:
    async def live() -> None:
        async with running(unclean.folder) as node:
            assert error_of(node, "a") == ErrorCode.NOT_LEADER_OR_FOLLOWER
            new = await topic(node, "new")
            write(new)
            await until(lambda: not any(error_of(node, name) for name in "abc"))
            assert [end_offsets(node, name) for name in "abc"] == [[10]] * 3

    asyncio.run(live())
    assert (unclean.folder / CLEAN_SHUTDOWN).exists()


def test_a_stop_in_the_middle_of_a_recovery_is_not_clean(unclean: Unclean) -> None:
    async def stop_at_once() -> None:
        async with running(unclean.folder):
            pass

    asyncio.run(stop_at_once())
    assert not (unclean.folder / CLEAN_SHUTDOWN).exists()


def test_a_log_that_cannot_be_recovered_is_not_the_others_problem(unclean: Unclean) -> None:
    (unclean.folder / "b-0" / "leader-epoch-checkpoint").write_bytes(b"\xff\xfe")

    async def live() -> None:
        async with running(unclean.folder) as node:
            await until(lambda: not error_of(node, "a") and not error_of(node, "c"))
            assert error_of(node, "b") == ErrorCode.KAFKA_STORAGE_ERROR

    asyncio.run(live())


def test_a_topic_deleted_and_made_again_during_its_recovery_is_the_new_one(
    unclean: Unclean,
) -> None:
    async def live() -> None:
        async with running(unclean.folder) as node:
            for name in ("a", "b"):
                assert error_of(node, name) == ErrorCode.NOT_LEADER_OR_FOLLOWER
                await delete_topic(node.metadata, name)
            write(await topic(node, "b"))
            await until(lambda: error_of(node, "c") is None)
            assert error_of(node, "a") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert end_offsets(node, "b") == [1]

    asyncio.run(live())


ENDLESS = """
import os, signal, sys
sys.stdin.readline()
print(os.getpid(), file=open(sys.argv[1], "a"), flush=True)
signal.pause()
"""


def test_nobody_works_in_the_folder_of_a_topic_made_again_during_its_recovery(
    unclean: Unclean, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child knows the log by its path, which is the new topic's a moment later."""
    started = tmp_path / "started"
    instead_of_the_child(monkeypatch, ENDLESS, started)

    async def live() -> None:
        async with running(unclean.folder) as node:
            await until(lambda: started.exists() and started.read_text().endswith("\n"))
            for name in "abc":
                await delete_topic(node.metadata, name)
                await topic(node, name)
            for process in map(int, started.read_text().split()):
                with pytest.raises(ProcessLookupError):
                    os.kill(process, 0)

    asyncio.run(live())


def instead_of_the_child(monkeypatch: pytest.MonkeyPatch, script: str, argument: Path) -> None:
    def spawn(_: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", script, str(argument)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    monkeypatch.setattr(child, "_spawn", spawn)


SHORT_OF_FILES_AT_FIRST = """
import errno, json, pathlib, sys
from ottla.log.recovery.child import main
for line in sys.stdin:
    told = pathlib.Path(sys.argv[1])
    if told.exists():
        main([line], sys.stdout)
    else:
        told.touch()
        reply = {"directory": "", "error": "Too many open files", "errno": errno.EMFILE}
        print(json.dumps(reply), flush=True)
"""


def test_a_recovery_that_found_too_many_files_open_is_done_later(
    unclean: Unclean, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_loader, "TRY_AGAIN_SECONDS", 0.3)
    instead_of_the_child(monkeypatch, SHORT_OF_FILES_AT_FIRST, tmp_path / "told")

    async def live() -> None:
        async with running(unclean.folder) as node:
            await until(lambda: ErrorCode.KAFKA_STORAGE_ERROR in codes(node))
            await until(lambda: codes(node) == [None] * 3)
            assert [end_offsets(node, name) for name in "abc"] == [[10]] * 3

    def codes(node: BrokerServer) -> list[ErrorCode | None]:
        return [error_of(node, name) for name in "abc"]

    asyncio.run(live())
    assert (unclean.folder / CLEAN_SHUTDOWN).exists()


def test_a_topic_made_again_while_the_broker_was_down_survives_a_kill(tmp_path: Path) -> None:
    """The offsets in the checkpoints are of the folder that is set aside."""
    folder = tmp_path / "data"
    asyncio.run(filled(folder, "a"))
    DataFolder(folder).write_topic_id(folder / "a-0", uuid4())

    async def live() -> Path:
        async with running(folder) as node:
            assert end_offsets(node, "a") == [0]
            write(node.partitions.find("a", 0))
            return killed(folder, tmp_path / "killed")

    async def again(left: Path) -> None:
        async with running(left) as node:
            assert end_offsets(node, "a") == [1]

    asyncio.run(again(asyncio.run(live())))


def test_folders_of_a_deleted_topic_go_also_where_they_were_not_open(unclean: Unclean) -> None:
    async def live() -> None:
        async with running(unclean.folder) as node:
            a = node.image.topics["a"]
            assert node._log_loader is not None
            await node._log_loader.delete_unopened(a)
            assert not (unclean.folder / "a-0").exists()
            await until(lambda: not list(unclean.folder.glob("*-delete")))
            assert (unclean.folder / "b-0").exists()

    asyncio.run(live())


def test_a_replica_that_nobody_leads_compacts_only_what_is_known_as_committed(
    tmp_path: Path,
) -> None:
    """What it has beyond that may be cut off again, and would have hidden older values."""
    known = 4

    async def lose_the_leader() -> None:
        async with running(tmp_path) as node:
            write(await topic(node, "t"), 10)
            now = node.image.partitions["t", 0]
            elsewhere = node.id + 1
            state = PartitionState(
                now.topic_id,
                leader=NO_LEADER,
                leader_epoch=now.leader_epoch + 1,
                isr=[elsewhere],
                partition_epoch=now.partition_epoch + 1,
                isr_epochs=[1],
            )
            replicas = change_assignment(node.image.topics["t"], {0: [node.id, elsewhere]})
            await node.metadata.change(
                lambda image: (
                    None,
                    []
                    if image.partitions["t", 0].leader == NO_LEADER
                    else [change_partition(image.partitions["t", 0], state), replicas],
                )
            )

    async def live_again() -> None:
        async with running(tmp_path) as node:
            partition = node.partitions.get("t", 0)
            assert partition is not None
            assert not partition.leads
            assert partition.log.end_offset == 10
            assert partition.log.last_stable_offset == known

    asyncio.run(lose_the_leader())
    DataFolder(tmp_path).write_checkpoint(HIGH_WATERMARKS, {("t", 0): known})
    asyncio.run(live_again())
