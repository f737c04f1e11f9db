"""A leader whose disk fails hands over to a replica that is in sync.

Two brokers in one process, so that the disk of one can be made to fail.
"""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.broker.metadata.topics import create_topic
from ottla.config import BrokerConfig
from ottla.metadata.topics import NewTopic
from ottla.server.run import RunningBroker
from ottla.wire.errors import ErrorCode, KafkaError
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import write

TOPIC = "kept"


@asynccontextmanager
async def two_brokers(folder: Path) -> AsyncIterator[list[RunningBroker]]:
    brokers: list[RunningBroker] = []
    try:
        for number in (1, 2):
            settings = {
                "node.id": str(number),
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "log.dirs": str(folder / str(number)),
                "ottla.store": f"sqlite:{folder}/cluster.sqlite",
                "replica.lag.time.max.ms": "2000",
                "replica.fetch.backoff.ms": "100",
                "auto.leader.rebalance.enable": "false",
            }
            broker = RunningBroker(BrokerConfig.from_static(settings))
            await broker.start()
            brokers.append(broker)
        await until(lambda: all(len(one.node.image.brokers) == 2 for one in brokers))
        yield brokers
    finally:
        for broker in reversed(brokers):
            await broker.stop()


def let_the_disk_fail(broker: RunningBroker) -> None:
    """From now on nothing that is written comes to this broker's disk."""

    def fails(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    broker.node.files.fsync = fails
    broker.node.files.fdatasync = fails


def _is_of_the_disk(problem: KafkaError) -> bool:
    return problem.code == ErrorCode.KAFKA_STORAGE_ERROR


def leader(broker: RunningBroker) -> int:
    return broker.node.leaders.of(TOPIC, 0).id


def leads(broker: RunningBroker) -> bool:
    """The image may say so a moment earlier."""
    replica = broker.node.partitions.get(TOPIC, 0)
    return replica is not None and replica.leads


def test_a_leader_whose_disk_fails_hands_over(tmp_path: Path) -> None:
    async def live() -> None:
        async with two_brokers(tmp_path) as brokers:
            first = brokers[0].node
            await create_topic(first.metadata, NewTopic(TOPIC, assignment={0: [1, 2]}))
            await until(lambda: leader(brokers[1]) == 1)
            partition = first.partitions.find(TOPIC, 0)
            write(partition, 5)
            await until(lambda: partition.high_watermark == 5)
            epoch = partition.leader_epoch
            let_the_disk_fail(brokers[0])
            with pytest.raises(KafkaError, check=_is_of_the_disk):
                await partition.flush()
            await until(lambda: leads(brokers[1]))
            other = brokers[1].node.partitions.find(TOPIC, 0)
            assert other.leader_epoch > epoch
            assert other.log.end_offset == 5
            write(other, 1)
            # The failed replica falls out of the in-sync set, and what is written is committed.
            await until(lambda: other.high_watermark == 6)
            assert brokers[1].node.leaders.of(TOPIC, 0).isr == [2]

    asyncio.run(live())


def test_a_leader_that_cannot_make_its_log_hands_over(tmp_path: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def live() -> None:
        async with two_brokers(tmp_path) as brokers:
            first = brokers[0].node
            first.files.mkdir = full
            await create_topic(first.metadata, NewTopic(TOPIC, assignment={0: [1, 2]}))
            await until(lambda: leads(brokers[1]))
            other = brokers[1].node.partitions.find(TOPIC, 0)
            write(other, 1)
            await until(lambda: other.high_watermark == 1)

    asyncio.run(live())


def test_a_leader_that_is_alone_keeps_what_it_has(tmp_path: Path) -> None:
    """No other replica is in sync: handing over would lose what only the failed disk has."""

    async def live() -> None:
        async with two_brokers(tmp_path) as brokers:
            first = brokers[0].node
            await create_topic(first.metadata, NewTopic(TOPIC, assignment={0: [1, 2]}))
            await until(lambda: leader(brokers[1]) == 1)
            second = brokers.pop()
            await second.stop()
            await until(lambda: first.image.partitions[TOPIC, 0].isr == [1])
            partition = first.partitions.find(TOPIC, 0)
            write(partition, 1)
            let_the_disk_fail(brokers[0])
            with pytest.raises(KafkaError, check=_is_of_the_disk):
                await partition.flush()
            before = first.image.partitions[TOPIC, 0]
            first.isr_leaving.disk_failed(partition)
            await first.metadata.caught_up()
            await asyncio.gather(*first.background)
            assert first.image.partitions[TOPIC, 0] == before

    asyncio.run(live())
