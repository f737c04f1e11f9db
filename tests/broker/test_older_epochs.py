"""A store that was put back from a backup gives out leader epochs a second time."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

from structlog.testing import capture_logs

from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.reassigning import alter_reassignments
from ottla.broker.metadata.topics import create_topic
from ottla.broker.replicas.partition import Partition
from ottla.metadata.topics import NewTopic
from testkit.batches import now_ms, values
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running, topic, write
from tests.broker.others import OTHER, beside_another

LOG_EPOCH = 5


def metadata(folder: Path, target: Path) -> None:
    for file in folder.glob("metadata.sqlite*"):
        shutil.copy(file, target)


def test_the_only_replica_raises_the_epoch_and_continues(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    backup.mkdir()

    async def live() -> int:
        async with running(data) as node:
            partition = node.partitions.get("t", 0)
            assert partition is not None
            await until(lambda: partition.leads)
            write(partition, 10)
            return partition.leader_epoch

    async def first() -> None:
        async with running(data) as node:
            await topic(node, "t")

    asyncio.run(first())
    metadata(data, backup)
    epochs = [asyncio.run(live()) for _ in range(3)]
    assert epochs == sorted(set(epochs))
    metadata(backup, data)
    assert asyncio.run(live()) > epochs[-1]

    async def last() -> None:
        async with running(data) as node:
            log = node.partitions.find("t", 0).log
            assert log.end_offset == 40
            assert log.epochs.epochs == sorted(set(log.epochs.epochs))
            assert len(log.epochs.epochs) == 4

    asyncio.run(last())


async def with_newer_log(node: BrokerServer, replicas: list[int]) -> Partition:
    """A replica whose log has batches of later epochs than the store."""
    await create_topic(node.metadata, NewTopic("t", assignment={0: replicas}))
    partition = node.partitions.get("t", 0)
    assert partition is not None
    records = memoryview(bytearray(values(b"x")))
    partition.log.append(records, now=now_ms(), leader_epoch=LOG_EPOCH, api_version=12)
    return partition


def refusals(folder: Path, replicas: Callable[[int], list[int]]) -> list[dict[str, object]]:
    async def live() -> None:
        async with beside_another(folder) as (node, _):
            partition = await with_newer_log(node, replicas(node.id))
            for _ in range(2):
                node.replica_manager.take_all()
            # It leads already, or follows: what counts is the next term.
            partition.stand_by()
            partition.follow(0, None)
            node.replica_manager.take_all()
            node.replica_manager.take_all()
            assert not partition.leads
            assert partition.following is None
            assert partition.log.end_offset == 1
            assert partition.log.epochs.latest == LOG_EPOCH
            await node.metadata.caught_up()
            assert node.image.partitions["t", 0].leader_epoch == 0

    with capture_logs() as said:
        asyncio.run(live())
    return [dict(line) for line in said if "newer leader epoch than the metadata" in line["event"]]


def test_a_leader_among_several_replicas_refuses_and_says_so_once(tmp_path: Path) -> None:
    (told,) = refusals(tmp_path, lambda me: [me, OTHER])
    assert (told["leader_epoch"], told["log_epoch"]) == (0, LOG_EPOCH)


def test_a_follower_refuses_and_says_so_once(tmp_path: Path) -> None:
    (told,) = refusals(tmp_path, lambda me: [OTHER, me])
    assert (told["partition"], told["end_offset"]) == ("t-0", 1)


def test_the_replica_that_a_partition_is_reassigned_to_is_served(tmp_path: Path) -> None:
    async def live() -> None:
        async with beside_another(tmp_path) as (node, _):
            partition = await with_newer_log(node, [node.id, OTHER])
            partition.follow(0, None)
            node.replica_manager.take_all()
            assert not partition.leads
            assert await alter_reassignments(node.metadata, {("t", 0): [node.id]}) == {
                ("t", 0): None
            }
            await until(lambda: partition.leads)
            assert partition.leader_epoch == LOG_EPOCH + 1
            write(partition, 1)
            assert partition.log.end_offset == 2

    asyncio.run(live())
