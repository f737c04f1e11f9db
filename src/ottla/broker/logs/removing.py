"""What becomes of the partitions of this broker whose topic was deleted, or that moved away.

Rules kept here:
1. A partition has no role and serves nobody before its files go.
2. A topic of thousands of partitions is removed in several turns of the loop; a stop in between
   does not leave half of it behind.
3. A replica that a later change has given back keeps its log: its leader may count it as in sync
   before the change that took it away is carried out here.
4. A log is deleted only where the store has a record that its topic was. A topic that is missing
   without one may be so because the metadata are an older copy: its folders are set aside, as
   `strays` does it, and named in the log.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from ottla.broker.logs.checkpoints import PARTITIONS_IN_ONE_TURN
from ottla.broker.logs.opening import LogOpener
from ottla.broker.replicas.partition import Partition
from ottla.broker.scheduling.turns import Turns
from ottla.log.storage.folder import uuid_to_text
from ottla.metadata.image import TopicImage

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = structlog.get_logger()

NAMED: Final = 10
"""This many folders are named in one line of the log."""


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


async def set_topic_aside(node: Node, opener: LogOpener, topic: TopicImage) -> None:
    """Serve a topic no more that the metadata lack, and keep its records."""
    gone = _end_topic(node, topic)
    turns = Turns()
    for partition in gone:
        _end(node, partition)
        await turns.give_way()
    keys = [(topic.name, index) for index in range(len(topic.assignment))]
    names = [f"{topic.name}-{index}" for index in range(len(topic.assignment))]
    try:
        # First, or they would count for a topic that is created later.
        await node.maintenance.checkpoints.forget(keys)
        names = [partition.log.delete(keep=True).name for partition in gone]
        names += await opener.set_unopened_aside(topic)
    except OSError as problem:
        log.error("failed to rename folders", topic=topic.name, reason=str(problem))
    log.error(
        "topic is missing from the metadata, with no record of its deletion; keeping its "
        "folders. If the metadata was restored from an older backup, restore the newer one",
        topic=topic.name,
        topic_id=uuid_to_text(topic.id),
        count=len(names),
        folders=", ".join(names[:NAMED]),
    )


async def delete_topic(node: Node, opener: LogOpener, topic: TopicImage) -> None:
    """Remove all partitions of a topic."""
    left = _end_topic(node, topic)
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


def _end_topic(node: Node, topic: TopicImage) -> list[Partition]:
    node.topic_metrics.pop(topic.name, None)
    return node.partitions.remove_topic(topic.name)


def _remove(node: Node, partition: Partition) -> None:
    _end(node, partition)
    node.maintenance.delete_log(partition)


def _end(node: Node, partition: Partition) -> None:
    node.roles.give_up(partition)
    partition.retire()
    node.cleaner.forget(partition)
