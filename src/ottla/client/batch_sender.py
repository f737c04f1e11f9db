"""Sends ready-made records of many partitions: several requests on the way, each record once.

Where `Producer` takes records one by one, this takes the inside of whole batches, from whoever
can make them without a Python object for each record.

Rules kept here:
1. The producer is idempotent, with acks=all: what is sent again after a failure is recognised by
   its sequence number. A partition's batches arrive in the order of send().
2. After a retriable failure nothing more of that partition is sent until all that is on its way is
   answered; then what was not acknowledged is sent again, in its order. A final failure is raised.
3. When flush() returns, everything is acknowledged and no request is on its way. Nothing sent
   earlier can arrive later: its sequence numbers are used up.
4. Where acknowledged records lie is remembered by partition: first and last offset, and count.
5. In a transaction, version 2 adds partitions by itself; with version 1 each is added before its
   first batch.
"""

from collections import deque
from time import monotonic
from typing import NamedTuple
from uuid import UUID

from ottla.client.cluster import Client, TopicPartition
from ottla.client.connection import Reply
from ottla.client.errors import check, error
from ottla.client.transactional import (
    FIRST_PAUSE,
    IMPLICIT_PARTITIONS,
    TransactionKey,
    Transactions,
)
from ottla.records.compression import Codec
from ottla.records.rows import batch
from ottla.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

MOST_IN_FLIGHT = 5
"""Requests on their way to a broker: it remembers five batches of each producer."""
REQUEST_BYTES = 4 << 20
"""A request takes no more batches once it has as much."""
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


class _Batch:
    """A batch until it is acknowledged."""

    __slots__ = ("count", "data", "partition")

    def __init__(self, partition: "_Partition", data: bytes, count: int) -> None:
        self.partition = partition
        self.data = data
        self.count = count


class _Partition:
    """One partition's batches that are not acknowledged yet."""

    __slots__ = ("failed", "in_flight", "key", "most_in_flight", "next_sequence", "queue")

    def __init__(self, key: TopicPartition) -> None:
        self.key = key
        self.next_sequence = 0
        self.queue: deque[_Batch] = deque()
        """In order; unless one failed, the first `in_flight` of them are on their way."""
        self.in_flight = 0
        self.most_in_flight = 1
        """One until the first acknowledgement: a leader that does not know the producer yet takes
        any sequence for its first, so a second batch could get in before a first that failed."""
        self.failed = False

    @property
    def is_ready(self) -> bool:
        return (
            not self.failed
            and len(self.queue) > self.in_flight
            and self.in_flight < self.most_in_flight
        )


class _Sent(NamedTuple):
    """A request on its way."""

    node_id: int
    reply: Reply[ProduceResponse]
    batches: list[_Batch]
    topic_ids: dict[str, UUID]


class BatchSender:
    """Sends batches of one producer, in a transaction or in none."""

    def __init__(
        self,
        client: Client,
        *,
        transaction: tuple[Transactions, TransactionKey] | None = None,
        codec: Codec = Codec.NONE,
    ) -> None:
        """Without a transaction, the producer gets an id of its own at its first batch."""
        self._client = client
        self._transactions: Transactions | None = None
        self._key: TransactionKey | None = None
        self._producer = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        if transaction is not None:
            self._transactions, self._key = transaction
            self._producer = self._key.producer_id, self._key.epoch
        self._codec = codec
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._sent: deque[_Sent] = deque()
        self._unacknowledged = 0
        self._last_problem: KafkaError | None = None
        self.spans: dict[TopicPartition, Span] = {}
        """Where what was acknowledged lies."""

    def send(self, where: TopicPartition, records: bytes, count: int, timestamp_ms: int) -> None:
        """Send the inside of a batch (as Rows.encode makes it); wait while too much is on its way.

        The partition must exist.
        """
        if self._producer[0] == NO_PRODUCER_ID:
            self._client.retry(self._get_producer_id)
        partition = self._partitions.get(where) or self._add(where)
        data = batch(
            records,
            count,
            timestamp_ms=timestamp_ms,
            codec=self._codec,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=partition.next_sequence,
            transactional=self._key is not None,
        )
        partition.next_sequence = (partition.next_sequence + count) & 0x7FFFFFFF
        partition.queue.append(_Batch(partition, data, count))
        self._unacknowledged += len(data)
        self._push(BUFFER_BYTES)

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        self._push(0)

    def _add(self, where: TopicPartition) -> _Partition:
        if self._key is not None and self._transactions is not None and not self._is_implicit:
            self._transactions.add_partitions(self._key, [where])
        partition = self._partitions[where] = _Partition(where)
        return partition

    @property
    def _is_implicit(self) -> bool:
        return self._transactions is None or self._transactions.version >= IMPLICIT_PARTITIONS

    def _get_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        reply = self._client.call(request, InitProducerIdResponse)
        check(reply.error_code, None, "cannot get a producer id")
        self._producer = reply.producer_id, reply.producer_epoch

    def _push(self, most_unacknowledged: int) -> None:
        """Send what can be sent, until no more than so many bytes are without acknowledgement."""
        deadline = None
        pause = FIRST_PAUSE
        while True:
            while self._send_ready():
                pass
            if self._unacknowledged <= most_unacknowledged:
                return
            if self._sent:
                if self._settle_oldest():
                    deadline, pause = None, FIRST_PAUSE
                continue
            # Nothing is on its way, so what is left has failed.
            assert self._last_problem is not None
            if deadline is None:
                deadline = monotonic() + self._client.settings.deadline
            elif monotonic() > deadline:
                raise self._last_problem
            pause = self._client.pause(pause)
            for partition in self._partitions.values():
                partition.failed = False

    def _send_ready(self) -> bool:
        """One request to each leader that may have one more; True if any was sent."""
        by_leader: dict[int, list[_Batch]] = {}
        for partition in self._partitions.values():
            if not partition.is_ready:
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
        chosen = []
        size = 0
        for item in batches:
            if size < REQUEST_BYTES:
                chosen.append(item)
                size += len(item.data)
        try:
            names = {item.partition.key.topic for item in chosen}
            topic_ids = {name: self._client.topic(name).id for name in names}
            reply = self._client.connection(leader).submit(
                self._produce_request(chosen, topic_ids),
                ProduceResponse,
                newest=None if self._is_implicit else LAST_WITHOUT_IMPLICIT_PARTITIONS,
            )
        except KafkaError as problem:
            for item in chosen:
                self._fail(item.partition, problem)
            return False
        for item in chosen:
            item.partition.in_flight += 1
        self._sent.append(_Sent(leader, reply, chosen, topic_ids))
        return True

    def _produce_request(self, batches: list[_Batch], topic_ids: dict[str, UUID]) -> ProduceRequest:
        topics = {
            name: TopicProduceData(name=name, topic_id=topic_id)
            for name, topic_id in topic_ids.items()
        }
        for item in batches:
            name, index = item.partition.key
            data = PartitionProduceData(index=index, records=item.data)
            topics[name].partition_data.append(data)
        return ProduceRequest(
            transactional_id=None if self._key is None else self._key.transactional_id,
            acks=-1,
            timeout_ms=int(self._client.settings.request_timeout * 1000),
            topic_data=list(topics.values()),
        )

    def _settle_oldest(self) -> bool:
        """Wait for one reply and do what it says; True if it acknowledged something."""
        sent = self._sent.popleft()
        for item in sent.batches:
            item.partition.in_flight -= 1
        try:
            reply = sent.reply.result()
        except KafkaError as problem:
            for item in sent.batches:
                self._fail(item.partition, problem)
            return False
        results = {
            (topic.name or topic.topic_id, result.index): result
            for topic in reply.responses
            for result in topic.partition_responses
        }
        progress = False
        for item in sent.batches:
            name, index = item.partition.key
            result = results.get((name, index)) or results.get((sent.topic_ids[name], index))
            if result is None:
                result = PartitionProduceResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
            progress |= self._settle(item, result)
        return progress

    def _settle(self, item: _Batch, result: PartitionProduceResponse) -> bool:
        partition = item.partition
        code = result.error_code
        if code == ErrorCode.NONE:
            self._acknowledge(item, result.base_offset)
            return True
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and partition.failed:
            # It came behind a batch that was not written, and will be sent after it.
            return False
        about = f"partition {partition.key.partition} of topic {partition.key.topic}"
        self._fail(partition, error(code, result.error_message, about))
        return False

    def _acknowledge(self, item: _Batch, base_offset: int) -> None:
        partition = item.partition
        partition.queue.remove(item)
        partition.most_in_flight = MOST_IN_FLIGHT
        self._unacknowledged -= len(item.data)
        last = base_offset + item.count - 1
        known = self.spans.get(partition.key, Span(base_offset, last, 0))
        self.spans[partition.key] = Span(
            min(known.first, base_offset), max(known.last, last), known.records + item.count
        )

    def _fail(self, partition: _Partition, problem: KafkaError) -> None:
        """Stop sending to a partition for a while, or raise what no waiting can mend."""
        if not problem.retriable:
            raise problem
        partition.failed = True
        self._last_problem = problem
        self._client.forget(partition.key.topic)
