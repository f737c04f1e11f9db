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

from collections import deque
from collections.abc import Callable, Sequence
from random import choice
from time import monotonic, time
from types import TracebackType
from typing import NamedTuple, Self
from uuid import UUID

from ottla.client.cluster import Client, TopicPartition
from ottla.client.connection import Reply
from ottla.client.errors import check, error
from ottla.records import Codec, Record, encode_batch
from ottla.records.hashing import partition_of
from ottla.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ACKS_ALL = -1
MOST_IN_FLIGHT = 5
"""Requests on their way to a broker: it remembers five batches of each producer."""
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


class _Batch:
    """Some records of one partition, encoded, until they are acknowledged."""

    __slots__ = ("callbacks", "count", "data", "partition")

    def __init__(
        self, partition: "_Partition", data: bytes, count: int, callbacks: Callbacks
    ) -> None:
        self.partition = partition
        self.data = data
        self.count = count
        self.callbacks = callbacks


class _Partition:
    """What is collected for one partition, and what is not acknowledged yet."""

    __slots__ = (
        "callbacks",
        "failed",
        "in_flight",
        "key",
        "most_in_flight",
        "next_sequence",
        "queue",
        "records",
        "size",
    )

    def __init__(self, key: TopicPartition) -> None:
        self.key = key
        self.records: list[Record] = []
        self.callbacks: Callbacks = []
        self.size = 0
        self.next_sequence = 0
        self.queue: deque[_Batch] = deque()
        """Batches without an acknowledgement, in order; unless one failed, the first `in_flight`
        of them are on their way."""
        self.in_flight = 0
        self.most_in_flight = 1
        """One until the first acknowledgement: a leader that does not know the producer yet takes
        any sequence for its first, so a second batch could get in before a first that failed."""
        self.failed = False
        """True from a failure until the time has come to send again."""


class _Sent(NamedTuple):
    """A request on its way."""

    node_id: int
    reply: Reply[ProduceResponse]
    batches: list[_Batch]
    topic_ids: dict[str, UUID]


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
        self._acks = acks
        self._codec = codec
        self._batch_bytes = batch_bytes
        self._buffer_bytes = buffer_bytes
        self._idempotent = acks == ACKS_ALL
        self._producer_id = NO_PRODUCER_ID
        self._producer_epoch = NO_PRODUCER_EPOCH
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._sticky: dict[str, int] = {}
        self._buffered = 0
        self._sent: deque[_Sent] = deque()
        self._last_problem: KafkaError | None = None
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
        self._sticky[topic] = choice(alive or list(leaders))
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

    def _seal(self, partition: _Partition) -> _Batch:
        sequence = NO_SEQUENCE
        if self._idempotent:
            if self._producer_id == NO_PRODUCER_ID:
                self._client.retry(self._get_producer_id)
            sequence = partition.next_sequence
            partition.next_sequence = (sequence + len(partition.records)) & 0x7FFFFFFF
        data = encode_batch(
            partition.records,
            codec=self._codec,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
        )
        batch = _Batch(partition, data, len(partition.records), partition.callbacks)
        self._buffered -= partition.size
        partition.records, partition.callbacks, partition.size = [], [], 0
        topic, index = partition.key
        if self._sticky.get(topic) == index:
            del self._sticky[topic]
        return batch

    def _get_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        reply = self._client.call(request, InitProducerIdResponse)
        check(reply.error_code, None, "cannot get a producer id")
        self._producer_id, self._producer_epoch = reply.producer_id, reply.producer_epoch

    def _push(self, partitions: list[_Partition], wait: bool) -> None:
        deadline = None
        pause = self._client.settings.backoff
        while True:
            while self._send_waiting(partitions):
                pass
            if all(
                not partition.queue if wait else len(partition.queue) == partition.in_flight
                for partition in partitions
            ):
                return
            if self._sent:
                if self._settle_oldest():
                    deadline, pause = None, self._client.settings.backoff
                continue
            # Nothing is on its way, so what is left has failed.
            assert self._last_problem is not None
            if deadline is None:
                deadline = monotonic() + self._client.settings.deadline
            elif monotonic() > deadline:
                raise self._last_problem
            pause = self._client.pause(pause)
            for partition in partitions:
                partition.failed = False

    def _send_waiting(self, partitions: list[_Partition]) -> bool:
        """Send the next batch of each partition that may have one more on its way."""
        by_leader: dict[int, list[_Batch]] = {}
        for partition in partitions:
            if (
                partition.failed
                or len(partition.queue) == partition.in_flight
                or partition.in_flight >= partition.most_in_flight
            ):
                continue
            try:
                leader = self._client.leader(*partition.key)
            except KafkaError as problem:
                self._fail(partition, problem)
                continue
            by_leader.setdefault(leader, []).append(partition.queue[partition.in_flight])
        sent = [self._request(leader, batches) for leader, batches in by_leader.items()]
        return any(sent)

    def _request(self, leader: int, batches: list[_Batch]) -> bool:
        if sum(sent.node_id == leader for sent in self._sent) >= MOST_IN_FLIGHT:
            return False
        try:
            names = {batch.partition.key.topic for batch in batches}
            topic_ids = {name: self._client.topic(name).id for name in names}
            request = self._produce_request(batches, topic_ids)
            connection = self._client.connection(leader)
            if self._acks == 0:
                connection.post(request)
                for batch in batches:
                    self._acknowledge(batch, -1)
                return True
            reply = connection.submit(request, ProduceResponse)
        except KafkaError as problem:
            for batch in batches:
                self._fail(batch.partition, problem)
            return False
        for batch in batches:
            batch.partition.in_flight += 1
        self._sent.append(_Sent(leader, reply, batches, topic_ids))
        return True

    def _produce_request(self, batches: list[_Batch], topic_ids: dict[str, UUID]) -> ProduceRequest:
        topics = {
            name: TopicProduceData(name=name, topic_id=topic_id)
            for name, topic_id in topic_ids.items()
        }
        for batch in batches:
            name, index = batch.partition.key
            data = PartitionProduceData(index=index, records=batch.data)
            topics[name].partition_data.append(data)
        return ProduceRequest(
            acks=self._acks,
            timeout_ms=int(self._client.settings.request_timeout * 1000),
            topic_data=list(topics.values()),
        )

    def _settle_oldest(self) -> bool:
        """Wait for one reply and do what it says; True if it acknowledged something."""
        sent = self._sent.popleft()
        for batch in sent.batches:
            batch.partition.in_flight -= 1
        try:
            reply = sent.reply.result()
        except KafkaError as problem:
            for batch in sent.batches:
                self._fail(batch.partition, problem)
            return False
        results = {
            (topic.name or topic.topic_id, result.index): result
            for topic in reply.responses
            for result in topic.partition_responses
        }
        progress = False
        for batch in sent.batches:
            name, index = batch.partition.key
            result = results.get((name, index)) or results.get((sent.topic_ids[name], index))
            if result is None:
                result = PartitionProduceResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
            progress |= self._settle(batch, result)
        return progress

    def _settle(self, batch: _Batch, result: PartitionProduceResponse) -> bool:
        partition = batch.partition
        code = result.error_code
        if code == ErrorCode.NONE:
            self._acknowledge(batch, result.base_offset)
            return True
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # An earlier attempt wrote it, too long ago for the broker to know where.
            self._acknowledge(batch, -1)
            return True
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and partition.failed:
            # It came behind a batch that was not written, and will be sent after it.
            return False
        about = f"partition {partition.key.partition} of topic {partition.key.topic}"
        self._fail(partition, error(code, result.error_message, about))
        return False

    def _acknowledge(self, batch: _Batch, base_offset: int) -> None:
        batch.partition.queue.remove(batch)
        if self._idempotent:
            batch.partition.most_in_flight = MOST_IN_FLIGHT
        self.acknowledged += batch.count
        for position, callback in batch.callbacks:
            offset = -1 if base_offset < 0 else base_offset + position
            callback(Delivered(*batch.partition.key, offset))

    def _fail(self, partition: _Partition, problem: KafkaError) -> None:
        """Stop sending to a partition for a while, or raise what no waiting can mend."""
        if not problem.retriable:
            raise problem
        partition.failed = True
        self._last_problem = problem
        self._client.forget(partition.key.topic)
