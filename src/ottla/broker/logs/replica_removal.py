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
from collections.abc import Callable
from typing import Final

import structlog

from ottla.broker.logs.log_cleaner import LogCleaner
from ottla.broker.logs.log_loader import LogLoader
from ottla.broker.logs.log_manager import LogManager
from ottla.broker.metrics.counters import TopicMetrics
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.scheduling.turns import ELEMENTS_IN_ONE_TURN, Turns
from ottla.log.storage.folder import uuid_to_text
from ottla.metadata.image import Image, TopicImage

log = structlog.get_logger()

NAMED: Final = 10
"""This many folders are named in one line of the log."""


class ReplicaRemoval:
    """Ends and removes replicas of one broker."""

    def __init__(
        self,
        broker_id: int,
        *,
        image: Image,
        partitions: Partitions,
        topic_metrics: dict[str, TopicMetrics],
        log_manager: LogManager,
        log_cleaner: LogCleaner,
        give_up: Callable[[Partition], None],
    ) -> None:
        """`give_up` takes the role of a replica away."""
        self._broker_id = broker_id
        self._image = image
        self._partitions = partitions
        self._topic_metrics = topic_metrics
        self._log_manager = log_manager
        self._log_cleaner = log_cleaner
        self._give_up = give_up

    async def give_up_replicas(self, log_loader: LogLoader, topic: TopicImage) -> None:
        """Remove the replicas that a reassignment has taken away."""
        kept = self._assigned(topic)
        latest = self._image.topics.get(topic.name)
        if latest is not None and latest.id == topic.id:
            kept |= self._assigned(latest)
        for partition in self._partitions.of_topic(topic.name):
            if partition.index not in kept and partition.topic_id == topic.id:
                self._partitions.remove(partition)
                self._remove(partition)
        await log_loader.delete_unopened(topic, kept)

    async def set_topic_aside(self, log_loader: LogLoader, topic: TopicImage) -> None:
        """Stop serving a topic that is missing from the metadata, and keep its records."""
        gone = self._end_topic(topic)
        turns = Turns()
        for partition in gone:
            self._end(partition)
            await turns.give_way()
        keys = [(topic.name, index) for index in range(len(topic.assignment))]
        names = [f"{topic.name}-{index}" for index in range(len(topic.assignment))]
        try:
            # First, or they would count for a topic that is created later.
            await self._log_manager.checkpoints.forget(keys)
            names = [partition.log.delete(keep=True).name for partition in gone]
            names += await log_loader.set_unopened_aside(topic)
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

    async def delete_topic(self, log_loader: LogLoader, topic: TopicImage) -> None:
        """Remove all partitions of a topic."""
        left = self._end_topic(topic)
        try:
            await log_loader.delete_unopened(topic)
            while left:
                for partition in left[-ELEMENTS_IN_ONE_TURN:]:
                    self._remove(partition)
                del left[-ELEMENTS_IN_ONE_TURN:]
                await asyncio.sleep(0)
        finally:
            for partition in left:
                self._remove(partition)

    def _assigned(self, topic: TopicImage) -> set[int]:
        return {
            index for index, replicas in enumerate(topic.assignment) if self._broker_id in replicas
        }

    def _end_topic(self, topic: TopicImage) -> list[Partition]:
        self._topic_metrics.pop(topic.name, None)
        return self._partitions.remove_topic(topic.name)

    def _remove(self, partition: Partition) -> None:
        self._end(partition)
        self._log_manager.delete_log(partition)

    def _end(self, partition: Partition) -> None:
        self._give_up(partition)
        partition.retire()
        self._log_cleaner.forget(partition)
