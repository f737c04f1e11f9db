"""What a log remembers of the producers that write to it. Pure: `now` is passed in.

Rules kept here (KIP-98, KIP-360, and Kafka's ProducerAppendInfo):
1. A producer's batches carry an epoch and sequences. The last five batches of each producer are
   remembered: one that comes again, with the same epoch and sequences, is a duplicate, and is
   answered with the offset it got the first time.
2. Otherwise a batch must follow: its first sequence is the last one plus one (0 after 2^31 - 1).
   A gap, or a step back, is OUT_OF_ORDER_SEQUENCE_NUMBER.
3. An older epoch is INVALID_PRODUCER_EPOCH. A newer one starts at sequence 0.
4. An unknown producer (new, expired, or its records deleted) may start at any sequence.
5. Inside a transaction every batch is transactional (else INVALID_TXN_STATE), until a marker ends
   it. The first offset of the oldest open transaction bounds what read_committed readers see.
6. check() changes nothing; update() and end_transaction() are called for what is in the log.
7. A producer that has not written for `producer.id.expiration.ms`, and has no open transaction, is
   forgotten.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla.records.control import Marker, MarkerType, decode_marker
from ottla.wire.batch import (
    CONTROL,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
)
from ottla.wire.errors import ErrorCode, KafkaError

REMEMBERED_BATCHES = 5
NO_MARKER = -1
EPOCH_BUMP_VERSION = 2
"""The transaction version from which every marker raises the producer's epoch."""
SEQUENCE_MASK = 0x7FFFFFFF
"""Sequences go from 0 to 2^31 - 1 and begin again."""


class ProducedBatch(NamedTuple):
    """A batch a producer has written."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class CompletedTransaction(NamedTuple):
    """A transaction whose marker is in the log."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    aborted: bool


class ProducerStateEntry:
    """One producer's state."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_marker",
        "last_seen",
        "last_timestamp",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = -1
        self.batches: deque[ProducedBatch] = deque(maxlen=REMEMBERED_BATCHES)
        self.last_timestamp = NO_TIMESTAMP
        """The largest timestamp of its last batch."""
        self.last_seen = NO_TIMESTAMP
        """When it last wrote. Its timestamps cannot say: a producer may replay old events."""
        self.txn_first_offset = -1
        """Where its open transaction begins; -1 without one."""
        self.last_marker = NO_MARKER
        """Where its last transaction ended, as far as it was seen since the log was opened."""

    @property
    def last_sequence(self) -> int:
        """The last sequence it wrote in its epoch, -1 for none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStates:
    """The producers of one log."""

    __slots__ = ("by_id", "completed", "ongoing")

    def __init__(self) -> None:
        self.by_id: dict[int, ProducerStateEntry] = {}
        self.ongoing: dict[int, int] = {}
        """First offset to producer id of each open transaction, in the order of offsets."""
        self.completed: deque[CompletedTransaction] = deque()
        """Transactions whose markers may still be at or above the high watermark."""

    def __len__(self) -> int:
        return len(self.by_id)

    def check(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        transactional: bool,
    ) -> ProducedBatch | None:
        """Refuse a client's batch that does not follow; returns the original of a duplicate."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            return None
        batches = producer.batches
        if producer.epoch == epoch:
            expected = (batches[-1][1] + 1) & SEQUENCE_MASK if batches else 0
            if first_sequence != expected:
                for batch in batches:
                    if batch[0] == first_sequence and batch[1] == last_sequence:
                        return batch
                if epoch != NO_PRODUCER_EPOCH:
                    raise KafkaError(
                        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                        f"producer {producer_id} sent sequence {first_sequence}, not {expected}",
                    )
        else:
            self._check_epoch(producer, epoch)
            if first_sequence != 0 and producer.epoch != NO_PRODUCER_EPOCH:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} began epoch {epoch} with sequence {first_sequence}",
                )
        if producer.txn_first_offset >= 0 and not transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has an open transaction and sent a batch outside of it",
            )
        return None

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Refuse an older epoch: all there is to check where a coordinator writes."""
        producer = self.by_id.get(producer_id)
        if producer is not None:
            self._check_epoch(producer, epoch)

    @staticmethod
    def _check_epoch(producer: ProducerStateEntry, epoch: int) -> None:
        if epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer.producer_id} sent epoch {epoch} after {producer.epoch}",
            )

    def check_marker(self, marker: Marker, transaction_version: int) -> None:
        """Refuse a marker of an older producer epoch or of an older coordinator.

        From transaction version 2 on a marker has a higher epoch than what it ends (KIP-890). One
        with the epoch of an open transaction ended the transaction before that, and comes again.
        """
        producer = self.by_id.get(marker.producer_id)
        if producer is None:
            return
        self._check_epoch(producer, marker.producer_epoch)
        if (
            transaction_version >= EPOCH_BUMP_VERSION
            and producer.txn_first_offset >= 0
            and marker.producer_epoch == producer.epoch
        ):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of producer {marker.producer_id} with epoch {producer.epoch}, in which "
                "its next transaction is open",
            )
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker of coordinator epoch {marker.coordinator_epoch} for producer "
                f"{marker.producer_id}, the last was {producer.coordinator_epoch}",
            )

    def update(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        first_offset: int,
        last_offset: int,
        timestamp: int,
        transactional: bool,
        now: int,
    ) -> None:
        """A producer's batch is in the log."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = ProducerStateEntry(producer_id)
        if producer.epoch != epoch:
            producer.batches.clear()
            producer.epoch = epoch
        producer.batches.append(
            ProducedBatch(first_sequence, last_sequence, first_offset, last_offset, timestamp)
        )
        producer.last_timestamp = timestamp
        producer.last_seen = now
        if transactional and producer.txn_first_offset < 0:
            producer.txn_first_offset = first_offset
            self.ongoing[first_offset] = producer_id

    def end_transaction(
        self, marker: Marker, offset: int, timestamp: int, now: int
    ) -> CompletedTransaction | None:
        """A marker is in the log; returns the transaction it ended, if there was an open one."""
        producer_id = marker.producer_id
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = ProducerStateEntry(producer_id)
        if producer.epoch != marker.producer_epoch:
            producer.batches.clear()
            producer.epoch = marker.producer_epoch
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_marker = offset
        producer.last_timestamp = timestamp
        producer.last_seen = now
        first_offset, producer.txn_first_offset = producer.txn_first_offset, -1
        if first_offset < 0:
            return None
        del self.ongoing[first_offset]
        aborted = marker.type == MarkerType.ABORT
        completed = CompletedTransaction(producer_id, first_offset, offset, aborted)
        self.completed.append(completed)
        return completed

    def replay(
        self, header: BatchHeader, read_batch: Callable[[], memoryview], now: int | None = None
    ) -> CompletedTransaction | None:
        """A batch that needs no check is in the log: a leader, or this log earlier, did check it.

        Returns the transaction it ended, if it is a marker.
        """
        if header.producer_id < 0:
            return None
        seen = header.max_timestamp if now is None else now
        if header.attributes & CONTROL:
            if header.record_count == 0:
                return None  # compaction removed the marker, with all of its transaction
            marker = decode_marker(read_batch())
            return self.end_transaction(marker, header.base_offset, header.max_timestamp, seen)
        self.update(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            bool(header.attributes & TRANSACTIONAL),
            seen,
        )
        return None

    def last_marker_of(self, producer_id: int) -> int:
        """Where the last transaction of a producer ended, as far as that is known."""
        producer = self.by_id.get(producer_id)
        return NO_MARKER if producer is None else producer.last_marker

    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction begins."""
        return next(iter(self.ongoing), None)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset below which every transaction is decided, as far as this high watermark tells.

        A marker at or above the high watermark may yet be lost, so its transaction still counts.
        """
        if not self.ongoing and not self.completed:
            return high_watermark
        self.forget_decided(high_watermark)
        first_offsets = [each.first_offset for each in self.completed]
        return min(high_watermark, next(iter(self.ongoing), high_watermark), *first_offsets)

    def forget_decided(self, high_watermark: int) -> None:
        """Transactions decided below the high watermark no longer bound anything."""
        completed = self.completed
        while completed and completed[0].last_offset < high_watermark:
            completed.popleft()

    def restore(self, producer: ProducerStateEntry) -> None:
        """Take over a producer from a snapshot."""
        self.by_id[producer.producer_id] = producer
        if producer.txn_first_offset >= 0:
            self.ongoing[producer.txn_first_offset] = producer.producer_id
            self.ongoing = dict(sorted(self.ongoing.items()))

    def seen(self, now: int) -> None:
        """Count the producers that were read back from disk as alive now.

        When they last wrote is not on disk: a snapshot has their timestamps, which may be those of
        events long past, and a producer that just survived a crash must not be forgotten for it.
        """
        for producer in self.by_id.values():
            producer.last_seen = now

    def expire(self, now: int, expiration_ms: int) -> int:
        """Forget the producers that have been silent for too long; says how many."""
        silent = [
            producer.producer_id
            for producer in self.by_id.values()
            if producer.txn_first_offset < 0 and now - producer.last_seen >= expiration_ms
        ]
        for producer_id in silent:
            del self.by_id[producer_id]
        return len(silent)

    def clear(self) -> None:
        """Forget all."""
        self.by_id.clear()
        self.ongoing.clear()
        self.completed.clear()
