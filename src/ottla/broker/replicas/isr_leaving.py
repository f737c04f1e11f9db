"""Replicas of this broker that leave the ISR by themselves, because they cannot be served here.

Rules kept here:
1. A replica whose disk has failed or is full, or that cannot be opened, leaves the ISR, if another
   member is online: a leader hands over, and a follower is not waited for until
   `replica.lag.time.max.ms` is over. So does a follower whose leader lacks committed records.
2. Where no other member is online, only a replica whose log is lost leaves: a disk that is full may
   still be read.
3. One attempt is under way for each replica.
"""

from __future__ import annotations

from uuid import UUID

import structlog

from ottla.broker.context.metadata_writer import MetadataWriter
from ottla.broker.replicas.partition import Partition
from ottla.broker.scheduling.background import Background
from ottla.metadata.claims import withdraw
from ottla.metadata.controller import hand_over
from ottla.metadata.image import PartitionKey
from ottla.metadata.store import StoreError
from ottla.wire.errors import ErrorCode

log = structlog.get_logger()


class IsrLeaving:
    """Takes this broker's replicas out of ISRs."""

    def __init__(self, broker_id: int, metadata: MetadataWriter, background: Background) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._background = background
        self._under_way: set[tuple[PartitionKey, UUID]] = set()

    def append_failed(self, partition: Partition, code: int) -> None:
        """An append was refused: if the disk is the reason, let the other replicas go on."""
        if partition.log.offline or code == ErrorCode.KAFKA_STORAGE_ERROR:
            self.disk_failed(partition)

    def disk_failed(self, partition: Partition) -> None:
        """A log cannot be written: let the other replicas go on without it."""
        if partition.leadership is not None or partition.following is not None:
            self.leave((partition.topic, partition.index), partition.topic_id)

    def leave(self, key: PartitionKey, topic_id: UUID, *, is_lost: bool = False) -> None:
        """A replica cannot be served here: let the others continue without it, if there are any."""
        if (key, topic_id) not in self._under_way:
            self._under_way.add((key, topic_id))
            self._background.run(self._leave(key, topic_id, is_lost))

    async def _leave(self, key: PartitionKey, topic_id: UUID, is_lost: bool) -> None:
        me, change = self._broker_id, self._metadata.change
        try:
            await change(lambda image: (None, hand_over(image, key, topic_id, me)))
            if is_lost:
                await change(lambda image: (None, withdraw(image, key, topic_id, me)))
        except StoreError as problem:
            log.error(
                "failed to resign leadership of an offline log", partition=key, reason=str(problem)
            )
        finally:
            self._under_way.discard((key, topic_id))
