"""Writing records: in batches, several of them on the way, in order and without doubles.

Rules kept here:
1. A partition's records arrive in the order of send(). With acks=all the producer is idempotent:
   what is sent again after a failure is recognised by its sequence number and not written twice.
   With acks=0 or 1 it has no sequence numbers, so one batch of a partition is on its way at a time.
2. A batch goes out when it is full or at flush(); there is no thread that would send it later.
3. After a retriable failure nothing more of that partition is sent until all that is on its way is
   answered; then what was not acknowledged is sent again, in its order.
4. The first final failure ends the producer: it is raised then and from every later call. What was
   acknowledged before stays; nobody can say it of the rest.
5. Keyed records go where the Java client would send them; keyless ones stay with one partition
   until its batch is full, then with another.
"""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from time import time
from types import TracebackType
from typing import NamedTuple, Self

from ottla.client.cluster import Client, TopicPartition
from ottla.client.deliveries import (
    ACKS_ALL,
    NO_OFFSET,
    Deliveries,
    PartitionQueue,
    PendingBatch,
    producer_id,
)
from ottla.records import Codec, Record, encode_batch
from ottla.records.hashing import partition_of
from ottla.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from ottla.wire.errors import KafkaError

_CHANCE = Random()  # of its own: a program that uses a client may seed the other
RECORD_OVERHEAD = 21
"""The most that a record takes beside its key, value and headers."""
HEADER_OVERHEAD = 10

Headers = Sequence[tuple[str, bytes | None]]


class Delivered(NamedTuple):
    """Where an acknowledged record is. The offset is -1 where the broker did not say (acks=0)."""

    topic: str
    partition: int
    offset: int


Callbacks = list[tuple[int, Callable[[Delivered], None]]]


class _Partition(PartitionQueue):
    """What is collected for one partition, and what is not acknowledged yet."""

    __slots__ = ("callbacks", "records", "size")

    def __init__(self, key: TopicPartition) -> None:
        super().__init__(key)
        self.records: list[Record] = []
        self.callbacks: Callbacks = []
        self.size = 0


class Producer:
    """Sends records. Leaving its `with` block flushes it, unless an exception leads out."""

    def __init__(
        self,
        client: Client,
        *,
        acks: int = ACKS_ALL,
        codec: Codec = Codec.NONE,
        batch_bytes: int = 256 * 1024,
        buffer_bytes: int = 32 << 20,
    ) -> None:
        """`acks` is 0, 1 or -1 (all); `batch_bytes` bounds a batch before compression (a larger
        record has one to itself); `buffer_bytes` is what all batches that are not full yet may
        take together.
        """
        self._client = client
        self._codec = codec
        self._batch_bytes = batch_bytes
        self._buffer_bytes = buffer_bytes
        self._idempotent = acks == ACKS_ALL
        self._producer = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        self._deliveries = Deliveries(client, acks=acks)
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._sticky: dict[str, int] = {}
        self._buffered = 0
        self._failure: KafkaError | None = None
        self.acknowledged = 0
        """Records acknowledged so far (with acks=0: handed to the network)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if problem is None:
            self.flush()

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: Callable[[Delivered], None] | None = None,
    ) -> None:
        """Take a record; it is sent with its batch. Waits while too much is on its way.

        `timestamp` is in milliseconds, by default now. `on_delivery` is called from a later
        send() or flush(), once the record is acknowledged.
        """
        if self._failure is not None:
            raise self._failure
        size = RECORD_OVERHEAD + len(key or b"") + len(value or b"")
        for name, data in headers:
            size += HEADER_OVERHEAD + len(name) + len(data or b"")
        target = self._target(topic, key, partition)
        if target.records and target.size + size > self._batch_bytes:
            self._dispatch([target])
            target = self._target(topic, key, partition)
        position = len(target.records)
        stamp = int(time() * 1000) if timestamp is None else timestamp
        target.records.append(Record(position, stamp, key, value, headers))
        if on_delivery is not None:
            target.callbacks.append((position, on_delivery))
        target.size += size
        self._buffered += size
        if target.size >= self._batch_bytes:
            self._dispatch([target])
        elif self._buffered > self._buffer_bytes:
            self._dispatch(self._collecting())

    def flush(self) -> None:
        """Send everything that was taken, and wait until it is acknowledged."""
        if self._failure is not None:
            raise self._failure
        self._dispatch(self._collecting(), wait=True)

    def _collecting(self) -> list[_Partition]:
        return [partition for partition in self._partitions.values() if partition.records]

    def _target(self, topic: str, key: bytes | None, partition: int | None) -> _Partition:
        if partition is None:
            partition = self._choose(topic, key)
        where = TopicPartition(topic, partition)
        found = self._partitions.get(where)
        if found is None:
            self._client.topic(topic, create=True)
            self._client.retry(lambda: self._client.leader(topic, partition))
            found = self._partitions[where] = _Partition(where)
        return found

    def _choose(self, topic: str, key: bytes | None) -> int:
        if key is None and topic in self._sticky:
            return self._sticky[topic]
        leaders = self._client.topic(topic, create=True).leaders
        if key is not None:
            return partition_of(key, len(leaders))
        alive = [index for index, leader in leaders.items() if leader >= 0]
        self._sticky[topic] = _CHANCE.choice(alive or list(leaders))
        return self._sticky[topic]

    def _dispatch(self, partitions: list[_Partition], *, wait: bool = False) -> None:
        """Send what is collected; return once it is on its way, or (to wait) acknowledged."""
        try:
            for partition in partitions:
                partition.queue.append(self._seal(partition))
            if wait:
                self._push([item for item in self._partitions.values() if item.queue], wait)
            else:
                self._push(partitions, wait)
        except KafkaError as problem:
            self._failure = problem
            raise

    def _seal(self, partition: _Partition) -> PendingBatch:
        sequence = NO_SEQUENCE
        if self._idempotent:
            if self._producer[0] == NO_PRODUCER_ID:
                self._producer = producer_id(self._client)
            sequence = partition.take_sequence(len(partition.records))
        data = encode_batch(
            partition.records,
            codec=self._codec,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=sequence,
        )
        count = len(partition.records)
        delivered = partial(self._delivered, partition.key, count, partition.callbacks)
        batch = PendingBatch(partition, data, delivered)
        self._buffered -= partition.size
        partition.records, partition.callbacks, partition.size = [], [], 0
        topic, index = partition.key
        if self._sticky.get(topic) == index:
            del self._sticky[topic]
        return batch

    def _push(self, partitions: list[_Partition], wait: bool) -> None:
        def is_enough() -> bool:
            return all(
                not partition.queue if wait else len(partition.queue) == partition.in_flight
                for partition in partitions
            )

        self._deliveries.push(partitions, is_enough)

    def _delivered(
        self,
        where: TopicPartition,
        count: int,
        callbacks: Callbacks,
        base_offset: int,
        append_time: int,
    ) -> None:
        self.acknowledged += count
        for position, callback in callbacks:
            offset = NO_OFFSET if base_offset < 0 else base_offset + position
            callback(Delivered(*where, offset))
