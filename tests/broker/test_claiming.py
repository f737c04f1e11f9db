"""What is logged of partitions that nobody may lead, and of elections that may lose records."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.topics import create_topic
from ottla.metadata import documents
from ottla.metadata.documents import PartitionState
from ottla.metadata.store import Delete, Update
from ottla.metadata.topics import NewTopic
from testkit.waiting import until_on_loop as until
from tests.broker.others import OTHER, beside_another

NO_LEADER_LINE = "partition has no leader"
UNCLEAN_LINE = "unclean leader election; committed records may be lost"


async def only_the_other_in_sync(node: BrokerServer, name: str) -> None:
    """Make a topic whose ISR is the other broker."""
    await create_topic(node.metadata, NewTopic(name, assignment={0: [OTHER, node.id]}))
    now = node.image.partitions[name, 0]
    state = PartitionState(
        now.topic_id,
        leader=OTHER,
        leader_epoch=now.leader_epoch,
        isr=[OTHER],
        partition_epoch=now.partition_epoch + 1,
        isr_epochs=[node.image.brokers[OTHER].epoch],
    )
    key = documents.partition_key(name, 0)
    await node.metadata.store.commit([Update(key, documents.encode(state), now.version)])
    await node.metadata.caught_up()


async def other_dies(node: BrokerServer) -> None:
    await node.metadata.store.commit([Delete(documents.broker_key(OTHER))])
    await node.metadata.caught_up()


def lines(logged: list[Any], start: str) -> list[Mapping[str, Any]]:
    return [line for line in logged if line["event"].startswith(start)]


def named(logged: list[Any]) -> list[str]:
    found = lines(logged, NO_LEADER_LINE)
    return [name for line in found for name in line["partitions"].split(", ")]


def test_a_partition_that_nobody_may_lead_is_named_once(tmp_path: Path) -> None:
    async def live() -> None:
        with capture_logs() as logged:
            async with beside_another(tmp_path) as (node, _):
                for name in ("a", "b"):
                    await only_the_other_in_sync(node, name)
                assert not lines(logged, NO_LEADER_LINE)
                await other_dies(node)
                await until(lambda: len(named(logged)) == 2)
                node.replica_manager.claims.look_at_all()
                await until(lambda: not node.replica_manager.claims._work.running)
                assert sorted(named(logged)) == ["a-0", "b-0"]
                for name in ("a", "b"):
                    assert node.image.partitions[name, 0].isr == [OTHER]
        (first, *_) = lines(logged, NO_LEADER_LINE)
        assert first["waits_for"] == [OTHER]
        assert not lines(logged, UNCLEAN_LINE)

    asyncio.run(live())


def test_an_unclean_election_is_logged(tmp_path: Path) -> None:
    settings = {"unclean.leader.election.enable": "true"}

    async def live() -> None:
        with capture_logs() as logged:
            async with beside_another(tmp_path, settings) as (node, _):
                await only_the_other_in_sync(node, "a")
                await other_dies(node)
                await until(lambda: node.image.partitions["a", 0].leader == node.id)
                await until(lambda: not node.replica_manager.claims._work.running)
        (line,) = lines(logged, UNCLEAN_LINE)
        assert (line["count"], str(line["partitions"])) == (1, "a-0")
        assert not lines(logged, NO_LEADER_LINE)

    asyncio.run(live())
