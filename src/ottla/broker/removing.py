"""What becomes of the partitions of this broker whose topic was deleted, or that moved away.

Rules kept here:
1. A partition has no role and serves nobody before its files go.
2. A topic of thousands of partitions is removed in several turns of the loop; a stop in between
   does not leave half of it behind.
3. A replica that a later change has given back keeps its log: its leader may count it as in sync
   before the change that took it away is carried out here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.checkpoints import PARTITIONS_IN_ONE_TURN
from ottla.broker.opening import LogOpener
from ottla.broker.partition import Partition
from ottla.cluster.image import TopicImage

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def give_up_replicas(node: Node, opener: LogOpener, topic: TopicImage) -> None:
    """Remove the replicas that a reassignment has taken away."""
    kept = _assigned(node, topic)
    latest = node.image.topics.get(topic.name)
    if latest is not None and latest.id == topic.id:
        kept |= _assigned(node, latest)
    for partition in node.partitions.of_topic(topic.name):
        if partition.index not in kept and partition.topic_id == topic.id:
            node.partitions.remove(partition)
            _remove(node, partition)
    await opener.delete_unopened(topic, kept)


async def delete_topic(node: Node, opener: LogOpener, topic: TopicImage) -> None:
    """Remove all partitions of a topic."""
    node.topic_metrics.pop(topic.name, None)
    left = node.partitions.remove_topic(topic.name)
    try:
        await opener.delete_unopened(topic)
        while left:
            for partition in left[-PARTITIONS_IN_ONE_TURN:]:
                _remove(node, partition)
            del left[-PARTITIONS_IN_ONE_TURN:]
            await asyncio.sleep(0)
    finally:
        for partition in left:
            _remove(node, partition)


def _assigned(node: Node, topic: TopicImage) -> set[int]:
    return {index for index, replicas in enumerate(topic.assignment) if node.id in replicas}


def _remove(node: Node, partition: Partition) -> None:
    node.roles.give_up(partition)
    partition.retire()
    node.cleaner.forget(partition)
    node.maintenance.delete_log(partition)
