"""`flush.messages`: what coordinators and markers answer waits for the fsync, as a produce does."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

from ottla.broker.broker_server import BrokerServer
from ottla.broker.coordinators.txn_markers import write_marker
from ottla.broker.replicas.partition import Partition
from ottla.broker.scheduling.waiting import settled
from ottla.coordinator.shard import RequestContext
from ottla.coordinator.transactions.effects import TxnMarkers
from ottla.coordinator.transactions.state import TransactionPartition
from ottla.later import Later
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from testkit.waiting import stretched
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running, topic, write

WHERE = TransactionPartition("t", 0)


class SlowDisk:
    """An fsync returns when it is let, or fails."""

    def __init__(self, node: BrokerServer) -> None:
        self._sync = node.files.fdatasync
        self._may_go = Event()
        self._fails = False
        self.is_asked = Event()
        node.files.fdatasync = self._wait

    def _wait(self, fd: int) -> None:
        self.is_asked.set()
        self._may_go.wait(stretched(10))
        if self._fails:
            raise OSError(errno.EIO, "Input/output error")
        self._sync(fd)

    def go(self) -> None:
        self._may_go.set()

    def fail(self) -> None:
        self._fails = True
        self._may_go.set()


@asynccontextmanager
async def slow(folder: Path, flush_messages: str) -> AsyncIterator[tuple[BrokerServer, SlowDisk]]:
    settings = {
        "offsets.topic.num.partitions": "1",
        "log.flush.interval.messages": flush_messages,
    }
    async with running(folder, settings) as node:
        await topic(node, "t")
        await node.groups.ensure_topic()
        (runner,) = node.groups
        await until(lambda: runner._shard is not None)
        disk = SlowDisk(node)
        try:
            yield node, disk
        finally:
            disk.go()


def commit(node: BrokerServer, offset: int) -> OffsetCommitResponse | Later[OffsetCommitResponse]:
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[place])],
    )
    return node.groups.ask_lingering(
        "g",
        lambda shard, now: shard.handle_offset_commit(request, RequestContext(9), now),
        lambda code, _: OffsetCommitResponse(throttle_time_ms=code),
        1,
    )


def offsets_partition(node: BrokerServer) -> Partition:
    return node.partitions.find("__consumer_offsets", 0)


def test_a_commit_is_answered_when_it_is_on_disk(tmp_path: Path) -> None:
    async def live() -> None:
        async with slow(tmp_path, "1") as (node, disk):
            first = commit(node, 7)
            await until(disk.is_asked.is_set)
            second = commit(node, 8)  # the flush that is under way does not cover it
            assert isinstance(first, Later)
            assert isinstance(second, Later)
            assert not first.done
            disk.go()
            assert (await settled(first)).throttle_time_ms == ErrorCode.NONE
            assert (await settled(second)).throttle_time_ms == ErrorCode.NONE
            assert offsets_partition(node).log.recovery_point == 2

    asyncio.run(live())


def test_a_commit_that_does_not_reach_the_number_waits_for_nothing(tmp_path: Path) -> None:
    async def live() -> None:
        async with slow(tmp_path, "2") as (node, disk):
            assert isinstance(commit(node, 7), OffsetCommitResponse)
            second = commit(node, 8)
            assert isinstance(second, Later)
            disk.go()
            await settled(second)
            assert offsets_partition(node).log.recovery_point == 2

    asyncio.run(live())


def test_a_marker_is_told_when_it_is_on_disk(tmp_path: Path) -> None:
    async def live() -> None:
        async with slow(tmp_path, "1") as (node, disk):
            told: list[ErrorCode] = []
            markers = TxnMarkers("id", 1, 5, 0, 0, True, 2, (WHERE,))
            assert write_marker(node.coordinators, WHERE, markers, told.append) is None
            await until(disk.is_asked.is_set)
            assert not told
            disk.go()
            await until(lambda: told)
            assert told == [ErrorCode.NONE]
            assert node.partitions.find("t", 0).log.recovery_point == 1

    asyncio.run(live())


def test_a_marker_whose_disk_fails_is_not_said_to_be_written(tmp_path: Path) -> None:
    """It would never be tried again."""

    async def live() -> None:
        async with slow(tmp_path, "1") as (node, disk):
            told: list[ErrorCode] = []
            markers = TxnMarkers("id", 1, 5, 0, 0, True, 2, (WHERE,))
            write_marker(node.coordinators, WHERE, markers, told.append)
            disk.fail()
            await until(lambda: told)
            assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    asyncio.run(live())


def test_what_was_cut_off_is_not_waited_for(tmp_path: Path) -> None:
    async def live() -> None:
        async with slow(tmp_path, "1") as (node, disk):
            partition = node.partitions.find("t", 0)
            write(partition, 3)
            partition._flush_if_due()
            assert partition.safe_offset == 0
            partition.log.truncate_to(1)
            disk.go()
            partition.was_truncated()
            await until(lambda: partition.safe_offset == 1)
            await until(lambda: partition._flushing is None)

    asyncio.run(live())
