"""A follower's log is cut while something else is done to it: neither is spoilt."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.logs.checkpoints import OffsetCheckpoints
from ottla.broker.replicas.partition import Partition
from ottla.records import Record, encode_batch
from ottla.replication.follower import FollowerFetch, Following
from ottla.wire.errors import ErrorCode
from ottla.wire.fetch_answer import PartitionAnswer
from testkit.batches import now_ms
from testkit.waiting import stretched
from tests.broker.nodes import killed, running, topic, write

LEADER = 99
EPOCH = 0
WRITTEN = 10
KEPT = 3


def parting(offset: int) -> PartitionAnswer:
    """The leader's log parts from ours at an offset."""
    return PartitionAnswer(0, 0, -1, 0, (EPOCH, offset), memoryview(b""))


def follow(partition: Partition) -> FollowerFetch:
    """Let a partition follow a leader of an unclean election; what it asks."""
    following = Following(LEADER, EPOCH, may_lose=True)
    partition.follow(EPOCH, following)
    log = partition.log
    return following.fetch(log.end_offset, log.epochs, log.start_offset)


def test_batches_of_a_newer_epoch_are_not_copied(tmp_path: Path) -> None:
    """They are of another leader's log; the partition rests, for a new term is at hand."""

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            write(partition, KEPT)
            asked = follow(partition)
            for epoch, taken in ((EPOCH + 1, False), (EPOCH, True)):
                record = Record(KEPT, now_ms(), None, b"x")
                batch = encode_batch([record], base_offset=KEPT, leader_epoch=epoch)
                answer = PartitionAnswer(0, 0, KEPT, 0, None, memoryview(batch))
                assert (
                    await node.replica_manager.fetched_data.take(partition, asked, answer) is taken
                )
                assert partition.log.end_offset == KEPT + taken

    asyncio.run(live())


def test_a_flush_ends_though_the_log_is_cut_meanwhile(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            write(partition, WRITTEN)
            flush = asyncio.get_running_loop().create_task(partition.flush())
            while not partition.log.flushing:  # noqa: ASYNC110 (nobody sets an event)
                await asyncio.sleep(0)
            partition.log.truncate_to(KEPT)
            async with asyncio.timeout(stretched(10)):
                await flush
            assert partition.log.recovery_point == KEPT

    asyncio.run(live())


def test_a_log_that_is_flushed_while_it_is_being_cut_is_not_taken_for_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flush covers what is about to go, and the checkpoint may not promise that."""

    async def live() -> None:
        async with running(tmp_path / "alive") as node:
            partition = await topic(node, "t")
            write(partition, WRITTEN)
            asked = follow(partition)
            write_recovery_points = OffsetCheckpoints.write_recovery_points

            async def flush_first(checkpoints: OffsetCheckpoints) -> None:
                monkeypatch.undo()
                await partition.flush()
                await write_recovery_points(checkpoints)

            monkeypatch.setattr(OffsetCheckpoints, "write_recovery_points", flush_first)
            assert await node.replica_manager.fetched_data.take(partition, asked, parting(KEPT))
            assert partition.log.end_offset == KEPT
            killed(tmp_path / "alive", tmp_path / "dead")
        async with running(tmp_path / "dead") as node:
            assert node.partitions.find("t", 0).log.end_offset == KEPT

    asyncio.run(live())


def test_what_is_copied_below_an_earlier_start_offset_survives_a_kill(tmp_path: Path) -> None:
    """A leader chosen from outside of the ISR may have less than was deleted here."""

    async def live() -> None:
        async with running(tmp_path / "alive") as node:
            partition = await topic(node, "t")
            write(partition, WRITTEN)
            partition.log.raise_start_offset(WRITTEN - 1)
            await node.log_manager.checkpoint_start_offsets()
            asked = follow(partition)
            assert await node.replica_manager.fetched_data.take(partition, asked, parting(KEPT))
            partition.lead(EPOCH, None)
            write(partition, 2)
            killed(tmp_path / "alive", tmp_path / "dead")
        async with running(tmp_path / "dead") as node:
            log = node.partitions.find("t", 0).log
            assert (log.start_offset, log.end_offset) == (KEPT, KEPT + 2)

    asyncio.run(live())


def leads_again(partition: Partition) -> None:
    partition.lead(EPOCH + 1, None)


def follows_another(partition: Partition) -> None:
    partition.follow(EPOCH + 1, Following(LEADER + 1, EPOCH + 1))


def is_deleted(partition: Partition) -> None:
    partition.deleted = True


@pytest.mark.parametrize("changes", [leads_again, follows_another, is_deleted])
@pytest.mark.parametrize(
    "answer",
    [
        parting(KEPT),
        PartitionAnswer(
            0, ErrorCode.OFFSET_OUT_OF_RANGE, WRITTEN, WRITTEN + 5, None, memoryview(b"")
        ),
    ],
    ids=["cut", "begun again"],
)
def test_a_log_is_not_cut_in_another_term_than_the_one_that_asked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: Callable[[Partition], None],
    answer: PartitionAnswer,
) -> None:
    """The term may change while the checkpoint is written: then others count on these records."""

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            write(partition, WRITTEN)
            asked = follow(partition)
            partition.mark(KEPT, 0)
            write_recovery_points = OffsetCheckpoints.write_recovery_points

            async def change_first(checkpoints: OffsetCheckpoints) -> None:
                await write_recovery_points(checkpoints)
                changes(partition)

            with monkeypatch.context() as patched:
                patched.setattr(OffsetCheckpoints, "write_recovery_points", change_first)
                await node.replica_manager.fetched_data.take(partition, asked, answer)
            assert (partition.log.start_offset, partition.log.end_offset) == (0, WRITTEN)

    asyncio.run(live())
