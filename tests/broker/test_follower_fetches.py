"""What a leader makes of a follower's fetch, and of changes of the ISR that come of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.topics import create_topic
from ottla.broker.replicas.follower_fetches import FollowerEpoch, check, note_positions
from ottla.broker.replicas.partition import Partition
from ottla.broker.replication import alter_partition
from ottla.metadata.image import PartitionImage
from ottla.metadata.store import Conflict, Op, StoreError, UnknownOutcome
from ottla.metadata.topics import NewTopic
from ottla.replication.replicas import Leadership
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch import FetchPartition, FetchRequest
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import write
from tests.broker.others import OTHER, beside_another

WRITTEN = 10
DELETED = 4


@asynccontextmanager
async def led(folder: Path) -> AsyncIterator[tuple[BrokerServer, Partition, Leadership]]:
    """A partition with another replica, which is not in sync and has asked for nothing."""
    async with beside_another(folder) as (node, _):
        await create_topic(node.metadata, NewTopic("t", assignment={0: [node.id]}))
        partition = node.partitions.find("t", 0)
        write(partition, WRITTEN)
        now = node.image.partitions["t", 0]
        state = PartitionImage(
            "t",
            0,
            now.topic_id,
            node.id,
            now.leader_epoch,
            [node.id],
            now.partition_epoch,
            now.version,
            [node.state.epoch],
        )
        leadership = Leadership(
            node.id,
            state,
            [node.id, OTHER],
            log_end=WRITTEN,
            high_watermark=WRITTEN,
            min_isr=1,
            lag=1000.0,
            now=node.replica_manager.now(),
        )
        partition.get_replicas(leadership)
        yield node, partition, leadership


def _is_committing(node: BrokerServer) -> bool:
    return node.replica_manager.alter_partition._committing.running


def other(node: BrokerServer) -> FollowerEpoch:
    return FollowerEpoch(OTHER, node.image.brokers[OTHER].epoch)


def ask(partition: Partition, offset: int, *, own_start: int = 0) -> FetchPartition:
    return FetchPartition(0, partition.leader_epoch, offset, -1, own_start, 1 << 20)


def fetch(
    node: BrokerServer,
    partition: Partition,
    offset: int,
    *,
    own_start: int = 0,
    sender: FollowerEpoch | None = None,
) -> None:
    """What the other one's fetch of the partition does here."""
    sender = sender or other(node)
    asks = [ask(partition, offset, own_start=own_start)]
    request = FetchRequest(
        OTHER, sender.broker_epoch, 0, 0, 1 << 20, 0, 0, -1, [("t", asks)], [], "", None
    )
    note_positions(node.fetches, sender, request.topics)


# Who claims to be another broker -------------------------------------------------------------


@pytest.mark.parametrize("is_registered", [True, False])
def test_a_broker_epoch_that_is_not_registered_yet_is_asked_again_and_noted_nowhere(
    tmp_path: Path, is_registered: bool
) -> None:
    """One forged request would push the real broker out of the ISR permanently."""

    async def live() -> None:
        async with led(tmp_path) as (node, partition, leadership):
            real = other(node)
            forged = FollowerEpoch(OTHER, 1 << 40)
            brokers = node.image.brokers if is_registered else {}
            with pytest.raises(KafkaError) as refusal:
                check(partition, forged, ask(partition, WRITTEN), brokers)
            assert refusal.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            fetch(node, partition, WRITTEN, sender=forged)
            # The real one is answered, and joins.
            assert check(partition, real, ask(partition, WRITTEN), node.image.brokers) is None
            fetch(node, partition, WRITTEN)
            assert leadership.may_join(OTHER, node.image.brokers, node.replica_manager.now())

    asyncio.run(live())


# Where a follower's log ends before the leader's begins --------------------------------------


@pytest.mark.parametrize(
    ("offset", "own_start"),
    [(DELETED - 1, 0), (0, 0), (DELETED, 0), (DELETED, DELETED - 1)],
)
def test_a_follower_that_ends_before_the_logs_start_is_out_of_range(
    tmp_path: Path, offset: int, own_start: int
) -> None:
    """Records that were never committed would stay at the beginning of its log."""

    async def live() -> None:
        async with led(tmp_path) as (node, partition, leadership):
            partition.log.raise_start_offset(DELETED)
            with pytest.raises(KafkaError) as refusal:
                check(
                    partition,
                    other(node),
                    ask(partition, offset, own_start=own_start),
                    node.image.brokers,
                )
            assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
            fetch(node, partition, offset, own_start=own_start)
            assert leadership.low_watermark(DELETED, node.image.brokers) < DELETED

    asyncio.run(live())


@pytest.mark.parametrize(("offset", "own_start"), [(DELETED, DELETED), (DELETED + 1, 0)])
def test_a_follower_that_begins_at_the_logs_start_or_ends_behind_it_is_answered(
    tmp_path: Path, offset: int, own_start: int
) -> None:
    async def live() -> None:
        async with led(tmp_path) as (node, partition, _):
            partition.log.raise_start_offset(DELETED)
            asked = ask(partition, offset, own_start=own_start)
            assert check(partition, other(node), asked, node.image.brokers) is None

    asyncio.run(live())


# What became of a change of the ISR -----------------------------------------------------------


@pytest.mark.parametrize("problem", [UnknownOutcome("no answer"), StoreError("no answer")])
def test_a_follower_that_may_have_joined_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: StoreError
) -> None:
    """Where its place in the ISR is not known, a commit without it could be lost."""
    monkeypatch.setattr(alter_partition, "AGAIN_SECONDS", 0.0)
    tried: list[object] = []

    async def live() -> None:
        async with led(tmp_path) as (node, partition, leadership):

            async def lose(ops: list[Op]) -> None:
                tried.append(ops)
                raise problem

            monkeypatch.setattr(node.metadata.store, "commit", lose)
            fetch(node, partition, WRITTEN)
            await until(lambda: tried and not _is_committing(node))
            write(partition)
            assert partition.high_watermark == WRITTEN
            assert leadership.undecided
            fetch(node, partition, WRITTEN + 1)
            assert partition.high_watermark == WRITTEN + 1
            monkeypatch.undo()

    asyncio.run(live())


def test_a_follower_that_was_refused_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []

    async def live() -> None:
        async with led(tmp_path) as (node, partition, leadership):

            async def refuse(ops: list[Op]) -> None:
                tried.append(ops)
                raise Conflict("partitions/t/0")

            monkeypatch.setattr(node.metadata.store, "commit", refuse)
            fetch(node, partition, WRITTEN)
            await until(lambda: tried and not _is_committing(node))
            write(partition)
            assert partition.high_watermark == WRITTEN + 1
            assert not leadership.undecided
            monkeypatch.undo()

    asyncio.run(live())


def test_a_follower_that_asks_for_nothing_leaves_the_isr(tmp_path: Path) -> None:
    """Nothing else happens to the partition: it is looked at from time to time."""
    settings = {"replica.lag.time.max.ms": "500"}

    async def live() -> None:
        async with beside_another(tmp_path, settings) as (node, _):
            await create_topic(node.metadata, NewTopic("t", assignment={0: [node.id, OTHER]}))
            assert node.image.partitions["t", 0].isr == [node.id, OTHER]
            await until(lambda: node.image.partitions["t", 0].isr == [node.id])

    asyncio.run(live())
