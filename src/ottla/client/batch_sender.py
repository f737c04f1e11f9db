"""Sends ready-made records of many partitions: several requests on the way, each record once.

Where `Producer` takes records one by one, this takes the inside of whole batches, from any
can make them without a Python object for each record.

Rules kept here:
1. The producer is idempotent, with acks=all: what is sent again after a failure is recognised by
   its sequence number. A partition's batches arrive in the order of send().
2. After a retriable failure nothing more of that partition is sent until all that is on its way is
   answered; then what was not acknowledged is sent again, in its order. A final failure is raised.
3. The first batch goes out at once; later ones wait until there are enough for a large request, in
   which those of several partitions lie together. A request costs both sides as much as the bytes
   of a small batch do.
4. When flush() returns, everything is acknowledged and no request is on its way. Nothing sent
   earlier can arrive later: its sequence numbers are used up.
5. Where acknowledged records lie is remembered by partition: first and last offset, and count.
6. In a transaction, version 2 adds partitions by itself; with version 1 each is added before its
   first batch.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ottla.client.cluster import Client, TopicPartition
from ottla.client.deliveries import (
    NO_APPEND_TIME,
    NO_OFFSET,
    REQUEST_BYTES,
    Deliveries,
    PartitionQueue,
    PendingBatch,
    producer_id,
)
from ottla.client.errors import error
from ottla.client.transactional import (
    FIRST_PAUSE,
    IMPLICIT_PARTITIONS,
    TransactionKey,
    Transactions,
)
from ottla.records.compression import Codec
from ottla.records.rows import batch
from ottla.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.wire.errors import ErrorCode

BUFFER_BYTES = 16 << 20
"""How much may be without an acknowledgement before send() waits."""
LAST_WITHOUT_IMPLICIT_PARTITIONS = 11
"""The newest Produce for transactions of version 1."""


class Span(NamedTuple):
    """Where the acknowledged records of a partition lie: offsets of the first and the last.

    Records of others may lie between them.
    """

    first: int
    last: int
    records: int


class BatchSender:
    """Sends batches of one producer, in a transaction or in none."""

    def __init__(
        self,
        client: Client,
        *,
        transaction: tuple[Transactions, TransactionKey] | None = None,
        codec: Codec = Codec.NONE,
        on_acknowledged: Callable[[TopicPartition, int, int], None] | None = None,
    ) -> None:
        """Without a transaction, the producer gets an id of its own at its first batch.

        `on_acknowledged` is called for each batch, once and in the order of its partition: where it
        is, how many records it has, and their timestamp in the log.
        """
        self._client = client
        self._transactions: Transactions | None = None
        self._key: TransactionKey | None = None
        self._producer = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        if transaction is not None:
            self._transactions, self._key = transaction
            self._producer = self._key.producer_id, self._key.epoch
        self._codec = codec
        self._on_acknowledged = on_acknowledged
        self._deliveries = Deliveries(
            client,
            transactional_id=None if self._key is None else self._key.transactional_id,
            newest=None if self._is_implicit else LAST_WITHOUT_IMPLICIT_PARTITIONS,
            first_pause=FIRST_PAUSE,
        )
        self._partitions: dict[TopicPartition, PartitionQueue] = {}
        self._unacknowledged = 0
        self._waiting = REQUEST_BYTES
        """Bytes since the last request: as if there were enough for the first."""
        self.spans: dict[TopicPartition, Span] = {}
        """Where what was acknowledged lies."""

    def send(self, where: TopicPartition, records: bytes, count: int, timestamp_ms: int) -> None:
        """Send the inside of a batch (as Rows.encode makes it); wait while too much is on its way.

        The partition must exist.
        """
        if self._producer[0] == NO_PRODUCER_ID:
            self._producer = producer_id(self._client)
        partition = self._partitions.get(where) or self._add(where)
        data = batch(
            records,
            count,
            timestamp_ms=timestamp_ms,
            codec=self._codec,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=partition.take_sequence(count),
            transactional=self._key is not None,
        )
        acknowledged = partial(self._acknowledged, where, count, len(data), timestamp_ms)
        partition.queue.append(PendingBatch(partition, data, acknowledged))
        self._unacknowledged += len(data)
        self._waiting += len(data)
        if self._waiting >= REQUEST_BYTES or self._unacknowledged > BUFFER_BYTES:
            self._push(BUFFER_BYTES)

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        self._push(0)

    def _add(self, where: TopicPartition) -> PartitionQueue:
        if self._key is not None and self._transactions is not None and not self._is_implicit:
            self._transactions.add_partitions(self._key, [where])
        partition = self._partitions[where] = PartitionQueue(where)
        return partition

    @property
    def _is_implicit(self) -> bool:
        return self._transactions is None or self._transactions.version >= IMPLICIT_PARTITIONS

    def _push(self, most_unacknowledged: int) -> None:
        """Send what can be sent, until no more than this many bytes are without acknowledgement."""
        self._waiting = 0
        self._deliveries.push(
            self._partitions.values(), lambda: self._unacknowledged <= most_unacknowledged
        )

    def _acknowledged(
        self,
        where: TopicPartition,
        count: int,
        size: int,
        timestamp_ms: int,
        first: int,
        append_time: int,
    ) -> None:
        if first == NO_OFFSET:
            about = f"partition {where.partition} of topic {where.topic}"
            raise error(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, None, about)
        self._unacknowledged -= size
        last = first + count - 1
        known = self.spans.get(where, Span(first, last, 0))
        self.spans[where] = Span(
            min(known.first, first), max(known.last, last), known.records + count
        )
        if self._on_acknowledged is not None:
            is_brokers = append_time != NO_APPEND_TIME
            self._on_acknowledged(where, count, append_time if is_brokers else timestamp_ms)
