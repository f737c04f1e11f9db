"""Leader epochs that are not newer than what a log already has: the metadata are an older copy.

Within one history a term's leader epoch is higher than that of every batch written before it. A
store that was put back from a backup gives out epochs a second time: batches of two terms with one
epoch look the same, and a follower would not see that its log diverges, or would truncate what was
acknowledged.

Rules kept here:
1. A replica does not follow in a lower epoch than its log has, and does not begin to lead in one
   that is not higher. It has no role, keeps its log as it is, and says so.
2. Where it is the only replica, its log is all there is: it raises the epoch and leads.
"""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

import structlog

from ottla.broker.context.broker_state import BrokerState
from ottla.broker.context.metadata_writer import MetadataWriter
from ottla.broker.replicas.partition import Partition
from ottla.broker.scheduling.background import Background
from ottla.metadata.controller import raise_leader_epoch
from ottla.metadata.image import Image, PartitionImage
from ottla.metadata.store import StoreError

log = structlog.get_logger()

AGAIN_SECONDS: Final = 1.0

_Replica = tuple[UUID, int]


class OlderEpochs:
    """Looks at the roles of one broker's replicas before they are taken."""

    def __init__(
        self, broker: BrokerState, image: Image, metadata: MetadataWriter, background: Background
    ) -> None:
        self._broker = broker
        self._image = image
        self._metadata = metadata
        self._background = background
        self._told: dict[_Replica, int] = {}
        self._raising: set[_Replica] = set()

    def refuses(self, partition: Partition, state: PartitionImage, *, leads: bool) -> bool:
        """Whether a role in this epoch is not to be taken."""
        key, latest = (partition.topic_id, partition.index), partition.log.epochs.latest
        if leads and partition.leads and partition.leader_epoch == state.leader_epoch:
            return False  # it continues
        if state.leader_epoch > latest or (state.leader_epoch == latest and not leads):
            self._told.pop(key, None)
            return False
        if leads and self._image.topics[partition.topic].assignment[partition.index] == [
            self._broker.id
        ]:
            self._raise(partition)
        elif self._told.get(key) != state.leader_epoch:
            self._told[key] = state.leader_epoch
            log.error(
                "log has a newer leader epoch than the metadata, which may be an older backup; "
                "replica is offline. Restore the newer metadata, or reassign the partition to "
                "the one replica whose log you want to keep",
                partition=str(partition),
                leader_epoch=state.leader_epoch,
                log_epoch=latest,
                end_offset=partition.log.end_offset,
            )
        return True

    def _raise(self, partition: Partition) -> None:
        replica = (partition.topic_id, partition.index)
        if replica not in self._raising:
            self._raising.add(replica)
            self._background.run(self._raise_now(partition))

    async def _raise_now(self, partition: Partition) -> None:
        key = (partition.topic, partition.index)
        epoch = partition.log.epochs.latest + 1
        log.warning(
            "log has a newer leader epoch than the metadata, which may be an older backup; "
            "raising the leader epoch",
            partition=str(partition),
            leader_epoch=epoch,
        )
        try:
            while self._broker.running and not partition.deleted:
                try:
                    await self._metadata.change(
                        lambda image: (
                            None,
                            raise_leader_epoch(image, key, partition.topic_id, epoch),
                        )
                    )
                    return
                except StoreError as problem:
                    log.error(
                        "failed to raise the leader epoch",
                        partition=str(partition),
                        reason=str(problem),
                    )
                    await asyncio.sleep(AGAIN_SECONDS)
        finally:
            self._raising.discard((partition.topic_id, partition.index))
