"""What a leader makes of a follower of which it has heard nothing."""

import asyncio
from pathlib import Path

import pytest

from ottla.broker.replication.follower_fetches import Follower, check_heard, note_positions
from ottla.cluster.replicas import Leadership
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch import FetchPartition, FetchRequest
from tests.broker.nodes import running, topic, write


def test_a_follower_that_its_leader_knows_nothing_of_has_to_name_the_partition(
    tmp_path: Path,
) -> None:
    """A session remembers what was asked, but where a log ends counts only when it is said."""

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            write(partition)
            partition.get_replicas(
                Leadership(
                    node.id,
                    node.image.partitions["t", 0],
                    [node.id, node.id + 1],
                    log_end=1,
                    high_watermark=1,
                    min_isr=1,
                    lag=10,
                    now=0,
                )
            )
            follower = Follower(node.id + 1, 7)
            ask = FetchPartition(0, partition.leader_epoch, 0, -1, 0, 1000)
            with pytest.raises(KafkaError) as refused:
                check_heard(partition, follower, ask)
            assert refused.value.code == ErrorCode.UNKNOWN_LEADER_EPOCH
            named = FetchRequest(
                follower.broker,
                follower.broker_epoch,
                *(0, 1, 1000, 0, 0, 0),
                topics=[("t", [ask])],
                forgotten=[],
                rack_id="",
                cluster_id=None,
            )
            note_positions(node, follower, named)
            check_heard(partition, follower, ask)

    asyncio.run(live())
