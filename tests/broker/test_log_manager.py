"""Background work: failures are logged and retried, and do not affect the others."""

import asyncio
import errno
import gc
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla.broker.broker_server import BrokerServer
from ottla.broker.logs import log_manager
from ottla.broker.logs.log_manager import LATEST_FLUSH_OF_LITTLE_MS, LITTLE
from ottla.broker.metadata.topics import delete_topic
from ottla.broker.replicas import partition as partition_module
from ottla.broker.replicas.partition import Partition
from ottla.broker.scheduling import flusher
from ottla.log.flush import Flush, run_together
from ottla.log.log import Log
from ottla.log.storage.folder import DataFolder
from ottla.records import Record, encode_batch
from ottla.wire.errors import ErrorCode, KafkaError
from testkit.batches import now_ms, values
from testkit.waiting import stretched
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running, topic, write

FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "a-0: No space left on device")


def fill_disk(patched: pytest.MonkeyPatch) -> list[Log]:
    """From now on no flush can begin; returns the logs that tried."""
    refused: list[Log] = []

    def begin_flush(log: Log) -> None:
        refused.append(log)
        raise FULL

    patched.setattr(Log, "begin_flush", begin_flush)
    return refused


def test_what_is_written_is_flushed_in_its_time(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a", flush_ms="1")
            for records in (1, 2, 3):
                write(partition)
                await until(lambda: partition.log.recovery_point == records)  # noqa: B023 (awaited here)
            await until(lambda: not partition.has_unflushed)

    asyncio.run(live())


def test_what_no_client_sent_is_flushed_too_when_it_is_enough(tmp_path: Path) -> None:
    """Power may fail where a follower, or a coordinator, has been told everything."""

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a", flush_messages="2")
            batch = memoryview(bytearray(values(b"x")))
            partition.append_own(batch, now_ms())
            assert partition._flushing is None, "one is not enough"
            partition.append_own(memoryview(bytearray(values(b"x"))), now_ms())
            await until(lambda: partition.log.recovery_point == 2)
            for offset in (2, 3):
                copied = encode_batch([Record(offset, now_ms(), b"k", b"v")], base_offset=offset)
                partition.copy(memoryview(copied), now_ms(), 0)
            await until(lambda: partition.log.recovery_point == 4)

    asyncio.run(live())


def flush_times(
    node: BrokerServer, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[float], list[Partition]]:
    """When a partition is looked at, in milliseconds, until it is flushed; and whether it was."""
    times: list[float] = []
    flushed: list[Partition] = []

    async def flush(_: Partition) -> None:
        flushed.append(partition)

    def call(delay_ms: float, _: Partition, waited_ms: float = 0.0) -> None:
        times.append(waited_ms + delay_ms)
        node.log_manager._flush_due(partition, waited_ms + delay_ms)

    monkeypatch.setattr(node.log_manager, "_flush_in", call)
    monkeypatch.setattr(node.log_manager, "_flush", flush)
    node.log_manager.flush_later(partition)
    return times, flushed


def test_much_is_flushed_within_a_minute_and_little_within_ten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a")
            write(partition)
            times, flushed = flush_times(node, partition, monkeypatch)
            assert times[-1] == LATEST_FLUSH_OF_LITTLE_MS
            assert all(30_000 <= after - before <= 60_000 for before, after in pairwise(times[:-1]))
            await until(lambda: flushed == [partition])
            for _ in range(LITTLE // 70):
                write(partition)
            assert partition.log.unflushed_bytes > LITTLE
            (once,), flushed = flush_times(node, partition, monkeypatch)
            assert once <= 60_000
            await until(lambda: flushed == [partition])

    asyncio.run(live())


def test_a_flush_interval_of_the_users_counts_however_little_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a", flush_ms="70000")
            times, flushed = flush_times(node, partition, monkeypatch)
            assert times[-1] == 70_000
            await until(lambda: flushed == [partition])

    asyncio.run(live())


def test_partitions_written_to_at_once_are_not_flushed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a")
            first = [flush_times(node, partition, monkeypatch)[0][0] for _ in range(100)]
            assert max(first) - min(first) > 15_000

    asyncio.run(live())


def test_partitions_whose_time_comes_within_a_moment_are_flushed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "LITTLE", 0)
    count = log_manager.FLUSHED_TOGETHER + 1
    groups: list[int] = []

    def run(flushes: Sequence[Flush]) -> None:
        # Another test's broker may live in this process, and flush.
        if flushes[0].pinned[0].path.startswith(str(tmp_path)):
            groups.append(len(flushes))
        run_together(flushes)

    monkeypatch.setattr(flusher, "run_together", run)

    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, "a", partitions=count)
            written = [node.partitions.find("a", index) for index in range(count)]
            for partition in written:
                write(partition)
                node.log_manager._flush_due(partition, 60_000.0)
            await until(lambda: all(partition.log.recovery_point == 1 for partition in written))
            assert groups == [log_manager.FLUSHED_TOGETHER, 1]

    asyncio.run(live())


def test_where_very_many_are_due_rests_between_groups_get_shorter(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a")
            its = node.log_manager
            its._due.append(partition)
            assert its._rest() == log_manager.MOMENT_SECONDS
            its._due.extend([partition] * 100_000)
            groups = len(its._due) / log_manager.FLUSHED_TOGETHER
            assert its._rest() * groups == pytest.approx(log_manager.ALL_FLUSHED_IN_SECONDS)
            its._due.clear()

    asyncio.run(live())


def test_what_has_a_short_interval_of_its_own_waits_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "MOMENT_SECONDS", 3600)

    async def live() -> None:
        async with running(tmp_path) as node:
            others = await topic(node, "a")
            write(others, count=LITTLE // 100)
            node.log_manager._flush_due(others, 60_000.0)
            hasty = await topic(node, "b", flush_ms="1")
            write(hasty)
            await until(lambda: hasty.log.recovery_point == 1)
            assert others.log.recovery_point == 0
            assert node.log_manager._flushing.running
            await node.log_manager._flushing.stop()

    asyncio.run(live())


def test_a_flush_that_fails_in_an_unknown_way_is_reported_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "FLUSH_AGAIN_MS", 1)

    def begin_flush(_: Log) -> None:
        raise ValueError("a mistake of ours")

    async def live() -> None:
        async with running(tmp_path) as node:
            first = await topic(node, "a", partitions=2, flush_ms="1")
            second = node.partitions.find("a", 1)
            with monkeypatch.context() as patched, capture_logs() as said:
                patched.setattr(Log, "begin_flush", begin_flush)
                write(first)
                write(second)
                await until(lambda: {"a-0", "a-1"} == {line.get("partition") for line in said})
            await until(lambda: first.log.recovery_point == second.log.recovery_point == 1)

    asyncio.run(live())


def test_a_flush_that_a_full_disk_refused_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "FLUSH_AGAIN_MS", 1)

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a", flush_ms="1")
            with monkeypatch.context() as patched:
                refused = fill_disk(patched)
                write(partition)
                await until(lambda: len(refused) >= 2)
            await until(lambda: partition.log.recovery_point == 1)
            assert not partition.log.offline

    asyncio.run(live())


def test_a_log_whose_index_cannot_be_read_is_flushed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Log) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a")
            write(partition)
            monkeypatch.setattr(Log, "unflushed_bytes", property(refuse))
            node.log_manager._flush_due(partition, 1.0)
            await until(lambda: partition.log.recovery_point == 1)

    asyncio.run(live())


def test_a_look_that_fails_is_no_matter_for_those_due_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "LATEST_FLUSH_MS", 20)
    monkeypatch.setattr(log_manager, "LITTLE", 0)
    monkeypatch.setattr(log_manager, "FLUSH_AGAIN_MS", 1)
    looks = log_manager.LogManager._flush_due
    failed: list[str] = []

    def look(self: log_manager.LogManager, partition: Partition, waited_ms: float) -> None:
        if not failed:
            failed.append(str(partition))
            raise ZeroDivisionError
        looks(self, partition, waited_ms)

    monkeypatch.setattr(log_manager.LogManager, "_flush_due", look)

    async def live() -> None:
        async with running(tmp_path) as node:
            partitions = [await topic(node, name) for name in "abc"]
            with capture_logs() as said:
                for partition in partitions:
                    write(partition)
                await until(lambda: all(each.log.recovery_point == 1 for each in partitions))
            assert [line["partition"] for line in said if line["log_level"] == "error"] == failed

    asyncio.run(live())


def test_a_flush_that_a_full_disk_refused_comes_again_soon_however_little_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "LATEST_FLUSH_MS", 20)
    monkeypatch.setattr(log_manager, "FLUSH_AGAIN_MS", 1)

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a")
            write(partition)
            with monkeypatch.context() as patched:
                refused = fill_disk(patched)
                node.log_manager._flush_due(partition, 600_000.0)
                await until(lambda: bool(refused))
            await until(lambda: partition.log.recovery_point == 1)

    asyncio.run(live())


def test_a_flush_that_someone_waits_for_comes_again_after_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_module, "OWED_AGAIN_SECONDS", 0.01)

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a", flush_messages="1")
            answered = asyncio.Event()
            with monkeypatch.context() as patched:
                refused = fill_disk(patched)
                partition.append_own(memoryview(bytearray(values(b"x"))), now_ms())
                partition.when_committed(1, answered.set)
                await until(lambda: bool(refused))
            assert not answered.is_set()
            await asyncio.wait_for(answered.wait(), stretched(10))

    asyncio.run(live())


def test_a_flush_that_nobody_waits_for_leaves_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a produce with acks=0 where `flush.messages` is reached."""
    unseen: list[object] = []

    async def live() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: unseen.append(told))
        async with running(tmp_path) as node:
            partition = await topic(node, "a")
            write(partition)
            with monkeypatch.context() as patched, capture_logs() as said:
                fill_disk(patched)
                node.background.run(partition.flush())
                await until(lambda: not node.background)
                node.background.run(divide(0))
                await until(lambda: not node.background)
            assert [line["event"] for line in said] == ["background task failed"]
        gc.collect()

    async def divide(by: int) -> None:
        assert 1 / by

    asyncio.run(live())
    assert unseen == []


def test_a_checkpoint_that_cannot_be_written_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    def full(*_: object) -> None:
        nonlocal attempts
        attempts += 1
        raise OSError(errno.ENOSPC, "No space left on device")

    settings = {"log.flush.offset.checkpoint.interval.ms": "1"}

    async def live() -> None:
        async with running(tmp_path, settings) as node:
            partition = await topic(node, "a")
            with capture_logs() as said, monkeypatch.context() as patched:
                patched.setattr(DataFolder, "write_checkpoint", full)
                write(partition)
                await until(lambda: attempts > 3)
            assert [line["event"] for line in said] == ["background task failed"]
            assert "exc_info" not in said[0]

    asyncio.run(live())


def test_one_log_that_fails_does_not_keep_the_others_from_retention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintained: list[str] = []

    def maintain(log: Log, _: int) -> bool:
        maintained.append(log.topic)
        if log.topic == "a":
            raise ZeroDivisionError
        return False

    async def live() -> None:
        async with running(tmp_path) as node:
            for name in ("a", "b"):
                await topic(node, name)
            with capture_logs() as said, monkeypatch.context() as patched:
                patched.setattr(Log, "maintain", maintain)
                await node.log_manager.maintain_logs()
            assert maintained == ["a", "b"]
            assert [line["partition"] for line in said] == ["a-0"]

    asyncio.run(live())


def test_a_topic_whose_folder_is_gone_can_be_deleted_and_made_again(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, "a", partitions=3)
            shutil.rmtree(tmp_path / "a-1")
            with capture_logs() as said:
                await delete_topic(node.metadata, "a")
            assert [line["event"] for line in said] == [
                "failed to delete the folder of a deleted partition; retrying at the next start"
            ]
            assert not list(tmp_path.glob("a-?"))  # noqa: ASYNC240 - a test may wait
            await topic(node, "a", partitions=3)
            write(node.partitions.find("a", 1))

    asyncio.run(live())


def test_deleted_files_go_after_their_delay(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(
                node, "a", segment_bytes="1048576", retention_bytes="1", file_delete_delay_ms="1"
            )
            write(partition, 4, size=600_000)
            await node.log_manager.maintain_logs()
            assert partition.log.start_offset > 0
            await until(lambda: not list((tmp_path / "a-0").glob("*.deleted")))

    asyncio.run(live())
