"""What stays of a batch in a compaction: the decision, batch by batch. Pure: `now` is passed in.

Rules kept here (Kafka's Cleaner, KIP-280, KIP-534):
1. Of each key the record with the latest offset that the map knows stays; what the map does not
   reach stays as it is. A record without a key goes: nothing could ever replace it.
2. A tombstone stays until its batch's delete horizon, which is set, `delete.retention.ms` ahead, by
   the first pass that has removed what the tombstone deletes. A marker whose transaction is gone is
   treated the same way.
3. Batches of aborted transactions go.
4. The last batch of a live producer stays, without records if need be: it has the last sequence.
   Where that is a marker, which has the epoch, it stays whole: readers of a log ignore empty ones.
   The last batch of the range stays too: it says how far the range went.
5. A batch that cannot be read stays as it is, and from there on so do tombstones: what they delete
   may be in it.
"""

from typing import NamedTuple

from ottla.log.compaction.offset_map import OffsetMap
from ottla.log.compaction.records import batch_of, delete_horizon, emptied, read_records
from ottla.log.compaction.transactions import CleanedTransactions
from ottla.log.storage.files import Bytes
from ottla.records.layout import RawRecord
from ottla.wire.batch import CONTROL, BatchHeader
from ottla.wire.errors import KafkaError


class Kept(NamedTuple):
    """What a batch has become."""

    batch: Bytes
    max_timestamp: int
    records: int


class Filter:
    """One pass's view of a log's batches, which it must be shown in their order."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        producers: dict[int, tuple[int, int]],
        *,
        end: int,
        now: int,
        delete_retention_ms: int,
    ) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self._end = end
        self._now = now
        self._new_horizon = now + delete_retention_ms
        self.unread = 0
        """Batches that could not be read."""

    def apply(self, header: BatchHeader, batch: memoryview) -> Kept | None:
        """What stays of a batch, None for nothing."""
        if header.attributes & CONTROL:
            kept = self._marker(header, batch)
        elif self._transactions.meet_batch(header):
            kept = None
        else:
            kept = self._records(header, batch)
        if kept is not None:
            return kept
        if header.next_offset != self._end and not self._is_last_of_producer(header):
            return None
        empty: Bytes = batch if header.record_count == 0 else emptied(header)
        return Kept(empty, header.max_timestamp, 0)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        last_offset, epoch = last
        if last_offset >= 0:
            return header.last_offset == last_offset
        return bool(header.attributes & CONTROL) and header.producer_epoch == epoch

    def _marker(self, header: BatchHeader, batch: memoryview) -> Kept | None:
        may_go = self._transactions.meet_marker(header, batch)
        if header.record_count == 0:
            return None
        horizon = delete_horizon(header)
        if (
            not may_go
            or (horizon is not None and self._now < horizon)
            or self._is_last_of_producer(header)
        ):
            return Kept(batch, header.max_timestamp, 1)
        if horizon is not None:
            return None
        body, records = read_records(header, batch)
        return Kept(*batch_of(header, body, records, self._new_horizon), len(records))

    def _records(self, header: BatchHeader, batch: memoryview) -> Kept | None:
        if header.record_count == 0:
            return None
        try:
            body, records = read_records(header, batch)
        except KafkaError:
            self.unread += 1
            return Kept(batch, header.max_timestamp, header.record_count)
        horizon = delete_horizon(header)
        keep_tombstones = horizon is None or self._now < horizon or self.unread > 0
        base_offset, last_offset = header.base_offset, header.last_offset
        latest, latest_of = self._offsets.latest, self._offsets.get
        kept: list[RawRecord] = []
        has_tombstones = False
        for record in records:
            _, _, _, _, offset_delta, key, has_value = record
            offset = base_offset + offset_delta
            if offset > last_offset:  # a producer may have written any delta
                offset = last_offset
            if offset <= latest:
                if key is None or offset < latest_of(key):
                    continue
                if not has_value:
                    if not keep_tombstones:
                        continue
                    has_tombstones = True
            kept.append(record)
        if not kept:
            return None
        new_horizon: int | None = None
        # Where the map ends inside the batch, what its tombstones delete may still be there.
        if has_tombstones and horizon is None and last_offset <= latest:
            new_horizon = self._new_horizon
        if new_horizon is None and len(kept) == header.record_count:
            return Kept(batch, header.max_timestamp, len(kept))
        return Kept(*batch_of(header, body, kept, new_horizon), len(kept))
