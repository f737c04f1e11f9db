"""Changes of metadata are carried out in order; one that fails does not stop those behind it."""

import asyncio
from pathlib import Path

import pytest

from ottla.broker.logs.log_loader import LogLoader
from ottla.broker.metadata.topics import create_topic, delete_topic
from ottla.metadata.controller import change_assignment
from ottla.metadata.documents import PartitionState
from ottla.metadata.image import TopicImage
from ottla.metadata.isr_proposal import Proposal
from ottla.metadata.topics import NewTopic
from tests.broker.nodes import running
from tests.broker.others import OTHER, beside_another


def test_a_topic_behind_one_that_cannot_be_made_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_new_partitions = LogLoader.open_new_partitions

    async def live() -> None:
        async with running(tmp_path) as node:
            good_is_known = asyncio.Event()

            async def fail_for_bad(opener: LogLoader, topic: TopicImage) -> None:
                if topic.name == "bad":
                    await good_is_known.wait()
                    raise RuntimeError("nobody thought of this")
                await open_new_partitions(opener, topic)

            monkeypatch.setattr(LogLoader, "open_new_partitions", fail_for_bad)
            creating = [
                asyncio.get_running_loop().create_task(create_topic(node.metadata, NewTopic(name)))
                for name in ("bad", "good")
            ]
            while len(node.image.topics) < 2:  # noqa: ASYNC110 (nobody sets an event)
                await asyncio.sleep(0)
            good_is_known.set()
            await asyncio.wait(creating)
            assert node.partitions.find("good", 0).leads

    asyncio.run(live())


def test_a_replica_that_was_taken_away_and_given_back_meanwhile_keeps_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both changes are known before the first one is carried out, so nothing need be copied again.

    While the latest image has no such replica here, no fetch is sent for it.
    """
    open_new_partitions = LogLoader.open_new_partitions

    async def live() -> None:
        async with beside_another(tmp_path) as (node, _):
            await create_topic(node.metadata, NewTopic("moved", assignment={0: [OTHER, node.id]}))
            replica = node.partitions.get("moved", 0)
            assert replica is not None
            assert not replica.leads
            all_is_known = asyncio.Event()

            async def wait(opener: LogLoader, topic: TopicImage) -> None:
                if topic.name == "large":
                    await all_is_known.wait()
                await open_new_partitions(opener, topic)

            monkeypatch.setattr(LogLoader, "open_new_partitions", wait)
            creating = asyncio.get_running_loop().create_task(
                create_topic(node.metadata, NewTopic("large"))
            )
            while "large" not in node.image.topics:  # noqa: ASYNC110 (nobody sets an event)
                await asyncio.sleep(0)
            for replicas in ([OTHER], [OTHER, node.id]):
                moved = change_assignment(node.image.topics["moved"], {0: replicas})
                await node.metadata.store.commit([moved])
                await asyncio.sleep(0)
                node.replica_manager.take_all()
                assert (replica.following is not None) == (node.id in replicas)
            all_is_known.set()
            await creating
            await node.metadata.caught_up()
            assert node.partitions.get("moved", 0) is replica
            assert not replica.deleted

            moved = change_assignment(node.image.topics["moved"], {0: [OTHER]})
            await node.metadata.store.commit([moved])
            await node.metadata.caught_up()
            assert node.partitions.get("moved", 0) is None

    asyncio.run(live())


def test_a_queued_change_of_the_isr_does_not_reach_a_topic_created_since(tmp_path: Path) -> None:
    async def live() -> None:
        async with beside_another(tmp_path) as (node, _):
            replicated = NewTopic("again", assignment={0: [node.id, OTHER]})
            await create_topic(node.metadata, replicated)
            partition = node.partitions.find("again", 0)
            leadership, old = partition.leadership, node.image.partitions["again", 0]
            assert leadership is not None
            epochs = {node.id: old.isr_epoch(node.id)}
            state = PartitionState(old.topic_id, node.id, 0, [node.id], 1, [*epochs.values()])
            await delete_topic(node.metadata, "again")
            await create_topic(node.metadata, replicated)
            before = node.image.partitions["again", 0]
            await node.replica_manager.alter_partition._commit(
                [(partition, leadership, Proposal(epochs, state, old.version))]
            )
            await node.metadata.caught_up()
            assert node.image.partitions["again", 0] == before
            assert node.partitions.find("again", 0).leads

    asyncio.run(live())
