"""What a follower asks its leader for, and when it asks for nothing."""

import asyncio
from pathlib import Path

from compat.waiting import until_on_loop as until
from ottla.broker.replication.fetcher import ReplicaFetcher
from ottla.broker.topics import create_topic
from ottla.cluster.follower import Following
from ottla.cluster.topics import NewTopic
from tests.broker.others import OTHER, beside_another


def test_a_leader_of_nothing_but_broken_logs_is_not_asked(tmp_path: Path) -> None:
    """It would answer at once that there is nothing, and would be asked again at once."""

    async def live() -> None:
        async with beside_another(tmp_path) as (node, leader):
            await create_topic(node, NewTopic("t", assignment={0: [node.id]}))
            partition = node.partitions.find("t", 0)
            partition.follow(0, Following(OTHER, 0))
            partition.log.fail(OSError("Input/output error"))
            fetcher = ReplicaFetcher(node, OTHER)
            fetcher.add(partition)
            try:
                await until(lambda: leader.connections == 1)
                for _ in range(100):
                    await asyncio.sleep(0)
                assert leader.asked == 0
            finally:
                await fetcher.stop()

    asyncio.run(live())
