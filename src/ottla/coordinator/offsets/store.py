"""Committed offsets, and those that wait for the end of a transaction.

Rules kept here:
1. Only `replay_commit`, `replay_tombstone` and `end_transaction` change anything.
2. An offset committed in a transaction counts when the transaction's marker says so; of a
   transactional and a plain commit, the one that was written later wins, whenever the marker comes.
3. Deleting an offset also deletes what is pending for it.
"""

from collections.abc import Iterator, Mapping
from uuid import UUID

from msgspec import Struct

from ottla.coordinator.offsets.records import NO_TIMESTAMP, OffsetCommitValue
from ottla.wire.message import NO_UUID

NO_PRODUCER_ID = -1

PartitionKey = tuple[str, int]


class OffsetAndMetadata(Struct, frozen=True, gc=False):
    """A group's position in a partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = NO_TIMESTAMP
    """When it expires, where the client said so."""
    topic_id: UUID = NO_UUID
    order: int = 0
    """Its place among all commits of the shard, by when they were written."""


def commit_time(offset: OffsetAndMetadata) -> int:
    """When an offset was committed."""
    return offset.commit_timestamp


class OffsetStore:
    """The offsets of all groups of a shard."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[PartitionKey, OffsetAndMetadata]] = {}
        self._pending: dict[int, dict[tuple[str, PartitionKey], OffsetAndMetadata]] = {}
        self._open: dict[str, dict[PartitionKey, set[int]]] = {}
        """The producers with a pending offset, by group and partition."""
        self._written = 0

    def of_group(self, group_id: str) -> Mapping[PartitionKey, OffsetAndMetadata]:
        """All committed offsets of a group."""
        return self._committed.get(group_id, {})

    def get(self, group_id: str, partition: PartitionKey) -> OffsetAndMetadata | None:
        """A group's committed offset."""
        return self._committed.get(group_id, {}).get(partition)

    def pending_partitions(self, group_id: str) -> Mapping[PartitionKey, object]:
        """The partitions for which a group has offsets in open transactions."""
        return self._open.get(group_id, {})

    def of_topic(self, topic: str, topic_id: UUID) -> Iterator[tuple[str, PartitionKey]]:
        """Each group and partition with an offset, committed or pending, in a topic of an id.

        Offsets that do not know their topic's id count too.
        """
        for group_id, offsets in self._committed.items():
            for partition, committed in offsets.items():
                if partition[0] == topic and committed.topic_id in (NO_UUID, topic_id):
                    yield group_id, partition
        for pending in self._pending.values():
            for (group_id, partition), committed in pending.items():
                if partition[0] == topic and committed.topic_id in (NO_UUID, topic_id):
                    yield group_id, partition

    def replay_commit(
        self,
        group_id: str,
        partition: PartitionKey,
        value: OffsetCommitValue,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """An offset was committed, in a producer's transaction if an id is given."""
        self._written += 1
        committed = OffsetAndMetadata(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            self._written,
        )
        if producer_id == NO_PRODUCER_ID:
            self._committed.setdefault(group_id, {})[partition] = committed
            return
        self._pending.setdefault(producer_id, {})[group_id, partition] = committed
        self._open.setdefault(group_id, {}).setdefault(partition, set()).add(producer_id)

    def replay_tombstone(self, group_id: str, partition: PartitionKey) -> None:
        """An offset was deleted."""
        offsets = self._committed.get(group_id)
        if offsets is not None:
            offsets.pop(partition, None)
            if not offsets:
                del self._committed[group_id]
        for producer_id in self._open.get(group_id, {}).get(partition, set()).copy():
            del self._pending[producer_id][group_id, partition]
            self._close(group_id, partition, producer_id)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A producer's transaction ended: its pending offsets count now, or never."""
        for (group_id, partition), offset in self._pending.pop(producer_id, {}).items():
            self._close(group_id, partition, producer_id)
            if commit:
                existing = self.get(group_id, partition)
                if existing is None or existing.order < offset.order:
                    self._committed.setdefault(group_id, {})[partition] = offset

    def _close(self, group_id: str, partition: PartitionKey, producer_id: int) -> None:
        partitions = self._open[group_id]
        producers = partitions[partition]
        producers.discard(producer_id)
        if not producers:
            del partitions[partition]
            if not partitions:
                del self._open[group_id]
