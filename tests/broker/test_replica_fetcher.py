"""What a follower asks its leader for, and when it asks for nothing."""

import asyncio
from pathlib import Path

from ottla.broker.metadata.topics import create_topic
from ottla.broker.replication.replica_fetcher import ReplicaFetcher
from ottla.broker.replication.throttles import follower_throttle
from ottla.metadata.controller import change_partition
from ottla.metadata.elections import changed
from ottla.metadata.topics import NewTopic
from ottla.replication.follower import Following
from testkit.waiting import until_on_loop as until
from tests.broker.others import OTHER, beside_another


def test_a_leader_of_nothing_but_broken_logs_is_not_asked(tmp_path: Path) -> None:
    """It would answer at once that there is nothing, and would be asked again at once."""

    async def live() -> None:
        async with beside_another(tmp_path) as (node, leader):
            await create_topic(node.metadata, NewTopic("t", assignment={0: [node.id]}))
            partition = node.partitions.find("t", 0)
            partition.follow(0, Following(OTHER, 0))
            partition.log.fail(OSError("Input/output error"))
            fetcher = ReplicaFetcher(
                OTHER,
                node.state,
                node.dynamic_config,
                node.image,
                node.replica_manager.fetched_data,
                node.peers.security,
                follower_throttle(node.context),
            )
            fetcher.add(partition)
            try:
                await until(lambda: leader.connections == 1)
                for _ in range(100):
                    await asyncio.sleep(0)
                assert leader.asked == 0
            finally:
                await fetcher.stop()

    asyncio.run(live())


def test_a_replica_that_is_given_back_is_named_again(tmp_path: Path) -> None:
    """Its removal began another leader epoch, in which the leader knows no position of it."""

    async def live() -> None:
        async with beside_another(tmp_path) as (node, leader):
            await create_topic(node.metadata, NewTopic("t", assignment={0: [OTHER, node.id]}))
            await until(lambda: leader.asked == 1)
            (fetcher,) = node.replica_manager.fetchers._fetchers.values()
            fetcher._session = (1, 1)  # a session that is under way, in which nothing is new
            assert fetcher._request().topics == []
            state = node.image.partitions["t", 0]
            given_back = changed(
                state,
                state.leader,
                state.isr,
                state.isr_epochs,
                node.image.brokers,
                removes_replica=True,
            )
            assert given_back is not None
            await node.metadata.store.commit([change_partition(state, given_back)])
            await node.metadata.caught_up()
            (topic,) = fetcher._request().topics
            assert [(each.partition, each.current_leader_epoch) for each in topic.partitions] == [
                (0, state.leader_epoch + 1)
            ]

    asyncio.run(live())
