"""A follower's log starts where its leader's does, if that is explained.

Two brokers in one process: the log start of one is moved as no client could.
"""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla.broker.metadata.topics import create_topic
from ottla.broker.replicas.partition import Partition
from ottla.metadata.deleted_records import record_deletions
from ottla.metadata.topics import NewTopic
from ottla.server.run import RunningBroker
from testkit.batches import Batch, now_ms
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import PRODUCE_VERSION, write

from .test_failed_disk import TOPIC, two_brokers

PRODUCER = 7
KEY = (TOPIC, 0)


@asynccontextmanager
async def replicas(
    folder: Path, **configs: str
) -> AsyncIterator[tuple[RunningBroker, Partition, Partition]]:
    """The leader's broker, and both replicas of a topic."""
    async with two_brokers(folder) as brokers:
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        new = NewTopic(TOPIC, assignment={0: [1, 2]}, configs=settings)
        await create_topic(brokers[0].node.metadata, new)
        await until(lambda: brokers[1].node.partitions.get(*KEY) is not None)
        follower = brokers[1].node.partitions.get(*KEY)
        assert follower is not None
        yield brokers[0], brokers[0].node.partitions.find(*KEY), follower


async def delete_below(broker: RunningBroker, leader: Partition, offset: int) -> None:
    """DeleteRecords, as its handler does it."""
    node = broker.node
    await node.metadata.change(
        lambda image: (None, record_deletions(image, {KEY: offset}, node.id, node.state.epoch))
    )
    move_start(leader, offset)


def move_start(leader: Partition, offset: int) -> None:
    leader.log.raise_start_offset(offset)
    leader.wake_all()


def test_a_follower_keeps_its_producers_when_all_records_are_deleted(tmp_path: Path) -> None:
    """Otherwise a retried batch is appended again once it leads."""

    async def live() -> None:
        async with replicas(tmp_path) as (broker, leader, follower):
            batch = Batch(producer_id=PRODUCER, producer_epoch=0, base_sequence=0).build()
            leader.append(memoryview(bytearray(batch)), now_ms(), PRODUCE_VERSION)
            await until(lambda: follower.high_watermark == leader.log.end_offset)
            await delete_below(broker, leader, leader.log.end_offset)
            await until(lambda: follower.log.start_offset == leader.log.end_offset)
            assert PRODUCER in follower.log.producers.by_id
            write(leader)
            await until(lambda: follower.high_watermark == leader.log.end_offset)
            assert PRODUCER in follower.log.producers.by_id

    asyncio.run(live())


def test_a_log_start_that_nothing_explains_is_not_followed(tmp_path: Path) -> None:
    async def live() -> None:
        async with replicas(tmp_path) as (broker, leader, follower):
            write(leader, 10)
            await until(lambda: follower.high_watermark == 10)
            with capture_logs() as said:
                move_start(leader, 6)
                write(leader)
                await until(lambda: follower.log.end_offset == 11)
                write(leader)
                await until(lambda: follower.high_watermark == 12)
            assert follower.log.start_offset == 0
            assert [
                line["log_level"] for line in said if "log start offset is higher" in line["event"]
            ] == ["error"]
            await delete_below(broker, leader, 7)
            await until(lambda: follower.log.start_offset == 7)

    asyncio.run(live())


def test_a_log_below_its_leaders_is_kept_beside_where_nothing_explains_that_it_lags(
    tmp_path: Path,
) -> None:
    """Retention had other settings, or an older version has deleted the records: it continues."""

    async def live() -> None:
        async with replicas(tmp_path, retention_ms="-1") as (broker, leader, follower):
            write(leader, 10)
            await until(lambda: follower.high_watermark == 10)
            folder = follower.log.directory
            records = b"".join(path.read_bytes() for path in folder.glob("*.log"))
            leader.log.truncate_fully_and_start_at(20)
            assert leader.leadership is not None
            leader.leadership.log_end = 20
            with capture_logs() as said:
                write(leader)
                await until(lambda: follower.log.end_offset == 21)
            assert follower.log.start_offset == 20
            await until(lambda: broker.node.image.partitions[KEY].isr == [1, 2])
            assert follower.halts == 0
            (line,) = [line for line in said if "log starts above" in line["event"]]
            kept = folder.with_name(line["folder"])
            assert kept.name.endswith("-stray")
            assert b"".join(path.read_bytes() for path in sorted(kept.glob("*.log"))) == records

    asyncio.run(live())


def test_a_follower_halts_where_its_files_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        async with replicas(tmp_path, retention_ms="-1") as (broker, leader, follower):
            write(leader, 10)
            await until(lambda: follower.high_watermark == 10)

            def refuse(_: str, __: str) -> None:
                raise OSError(errno.EPERM, "Operation not permitted")

            monkeypatch.setattr(follower.log.files, "link", refuse)
            leader.log.truncate_fully_and_start_at(20)
            assert leader.leadership is not None
            leader.leadership.log_end = 20
            with capture_logs() as said:
                write(leader)
                await until(lambda: follower.halts > 3)
            assert (follower.log.start_offset, follower.log.end_offset) == (0, 10)
            assert len([line for line in said if "log starts above" in line["event"]]) == 1
            assert not list(follower.log.directory.parent.glob("*-stray"))
            await until(lambda: broker.node.image.partitions[KEY].isr == [1])

    asyncio.run(live())


def test_retention_explains_where_a_leaders_log_starts(tmp_path: Path) -> None:
    async def live() -> None:
        async with replicas(tmp_path, retention_bytes="100") as (_, leader, follower):
            write(leader, 10)
            await until(lambda: follower.high_watermark == 10)
            move_start(leader, 6)
            await until(lambda: follower.log.start_offset == 6)

    asyncio.run(live())
