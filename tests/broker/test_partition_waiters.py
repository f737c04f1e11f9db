"""Who waits on a partition: readers, followers, and callers that wait for a commit or a flush."""

import asyncio
import errno
from pathlib import Path

import pytest

from ottla.broker.broker_server import BrokerServer
from ottla.broker.replicas.partition import Partition
from ottla.metadata.image import PartitionImage
from ottla.replication.follower import Following
from ottla.replication.replicas import Leadership
from testkit.batches import now_ms, values
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running, topic, write

LEADER, FOLLOWER, EPOCH = 1, 2, 3


class Reader:
    """Counts its calls."""

    def __init__(self) -> None:
        self.woken = 0
        self.news = 0

    def wake(self) -> None:
        self.woken += 1

    def has_news(self) -> None:
        self.news += 1


def with_a_follower(partition: Partition) -> Leadership:
    """Let it lead two replicas; nothing is committed before the other one has it."""
    image = PartitionImage(
        partition.topic, 0, partition.topic_id, LEADER, EPOCH, [LEADER, FOLLOWER], 0, 0, [11, 12]
    )
    leadership = Leadership(
        LEADER,
        image,
        (LEADER, FOLLOWER),
        log_end=partition.log.end_offset,
        high_watermark=partition.log.end_offset,
        min_isr=1,
        lag=1000.0,
        now=0.0,
    )
    partition.lead(EPOCH, leadership)
    return leadership


def copied(partition: Partition, leadership: Leadership) -> None:
    """The follower has asked for what comes after everything that is there."""
    assert leadership.fetched(FOLLOWER, 12, partition.log.end_offset, 0, 1.0)
    partition.high_watermark_grew()


class FullDisk:
    """Refuses the first new files: a flush replaces small files beside the log."""

    def __init__(self, node: BrokerServer, refusals: int) -> None:
        self._open = node.files.open
        self._refusals = refusals
        self.refused = 0
        node.files.open = self._refuse_first

    def _refuse_first(self, path: str, flags: int, mode: int) -> int:
        if path.endswith(".tmp") and self.refused < self._refusals:
            self.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._open(path, flags, mode)


def test_an_append_wakes_followers_and_the_high_watermark_readers(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            leadership = with_a_follower(partition)
            reader, follower, parked = Reader(), Reader(), Reader()
            partition.add_reader(reader)
            partition.add_reader(follower, is_follower=True)
            write(partition)
            assert (reader.woken, follower.woken) == (0, 1)
            write(partition)
            assert follower.woken == 1  # once for each registration
            partition.add_reader(parked, is_follower=True)
            copied(partition, leadership)
            assert (reader.woken, parked.woken, parked.news) == (1, 0, 1)

    asyncio.run(live())


def test_a_follower_wakes_its_readers_when_the_high_watermark_moves(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            write(partition, 3)
            partition.follow(EPOCH, Following(9, EPOCH))
            partition.mark(1, 0)
            reader = Reader()
            partition.add_reader(reader)
            partition.mark(1, 0)
            assert reader.woken == 0
            partition.mark(2, 1)
            assert reader.woken == 1
            assert (partition.high_watermark, partition.log.start_offset) == (2, 1)

    asyncio.run(live())


def test_a_partition_that_leaves_wakes_everyone(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            reader, follower, gone = Reader(), Reader(), Reader()
            for one, follows in ((reader, False), (follower, True), (gone, False)):
                partition.add_reader(one, follows)
            partition.remove_reader(gone)
            partition.retire()
            assert (reader.woken, follower.woken, gone.woken) == (1, 1, 0)

    asyncio.run(live())


def test_a_caller_that_gave_up_is_not_called(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            leadership = with_a_follower(partition)
            write(partition)
            done: list[str] = []
            end = partition.log.end_offset
            first = partition.when_committed(end, lambda: done.append("first"))
            partition.when_committed(end, lambda: done.append("second"))
            partition.give_up(first)
            assert partition.waiting == 1
            assert not done
            copied(partition, leadership)
            assert done == ["second"]
            partition.when_committed(end, lambda: done.append("third"))
            assert done == ["second", "third"]

    asyncio.run(live())


def test_a_caller_at_a_partition_that_does_not_lead_is_refused_at_once(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            with_a_follower(partition)
            write(partition)
            lost: list[str] = []
            end = partition.log.end_offset
            partition.when_committed(end, lambda: lost.append("no"), lambda: lost.append("first"))
            partition.stand_by()
            assert not lost
            partition.fail_waiters()
            partition.when_committed(end, lambda: lost.append("no"), lambda: lost.append("second"))
            assert lost == ["first", "second"]

    asyncio.run(live())


def test_an_owed_flush_that_found_no_room_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing counts as safe before it is on disk, and it does not wait for the next append."""
    monkeypatch.setattr("ottla.broker.replicas.partition.OWED_AGAIN_SECONDS", 0.01)

    async def live() -> None:
        async with running(tmp_path, {"log.flush.interval.messages": "1"}) as node:
            partition = await topic(node, "t")
            disk = FullDisk(node, refusals=2)
            done: list[str] = []
            partition.append_own(memoryview(bytearray(values(b"x"))), now_ms())
            assert partition.safe_offset == 0
            partition.when_committed(1, lambda: done.append("safe"))
            await until(lambda: done)
            assert disk.refused == 2
            assert partition.safe_offset == partition.log.recovery_point == 1
            assert not partition.log.offline

    asyncio.run(live())
