"""Batches on their way to their leaders, and what the answers mean: for all who produce.

Rules kept here:
1. A partition's batches are sent in the order of its queue, at most as many at a time as it may
   have in flight. Partitions of one leader share a request.
2. After a retriable failure nothing more of that partition is sent until all that is on its way is
   answered; then what was not acknowledged is sent again, in its order. A final failure is raised,
   and so is a retriable one that lasts until the deadline.
3. What is sent again goes alone. It may be in the log already, and a broker recognises the last
   five batches of a producer: were new ones written behind it meanwhile, it would be refused.
"""

from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic
from typing import NamedTuple
from uuid import UUID

from ottla.client.cluster import Client, TopicPartition
from ottla.client.connection import Reply
from ottla.client.errors import check, error
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
REQUEST_BYTES = 4 << 20
"""A request takes no more batches once it has as much."""
NO_OFFSET = -1
NO_APPEND_TIME = -1


def producer_id(client: Client) -> tuple[int, int]:
    """The id and epoch of a new idempotent producer without transactions."""

    def attempt() -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        reply = client.call(request, InitProducerIdResponse)
        check(reply.error_code, None, "cannot get a producer id")
        return reply.producer_id, reply.producer_epoch

    return client.retry(attempt)


class PendingBatch:
    """A batch until it is acknowledged, and what is to be done then."""

    __slots__ = ("acknowledged", "data", "partition", "sendings")

    def __init__(
        self, partition: "PartitionQueue", data: bytes, acknowledged: Callable[[int, int], None]
    ) -> None:
        """`acknowledged` gets the first offset, NO_OFFSET where the broker did not say it, and the
        records' timestamp (milliseconds) where the topic has the broker's, else NO_APPEND_TIME.
        """
        self.partition = partition
        self.data = data
        self.acknowledged = acknowledged
        self.sendings = 0
        """How often it was sent, or nearly."""


class PartitionQueue:
    """One partition's batches that are not acknowledged yet."""

    __slots__ = ("_next_sequence", "failed", "in_flight", "key", "most_in_flight", "queue")

    def __init__(self, key: TopicPartition) -> None:
        self.key = key
        self._next_sequence = 0
        self.queue: deque[PendingBatch] = deque()
        """In order; unless one failed, the first `in_flight` of them are on their way."""
        self.in_flight = 0
        self.most_in_flight = 1
        """One until the first acknowledgement: a leader that does not know the producer yet takes
        any sequence for its first, so a second batch could get in before a first that failed."""
        self.failed = False
        """True from a failure until the time has come to send again."""

    def take_sequence(self, records: int) -> int:
        """The sequence number of the next batch, which has this many records."""
        sequence = self._next_sequence
        self._next_sequence = (sequence + records) & 0x7FFFFFFF
        return sequence

    @property
    def is_ready(self) -> bool:
        """Whether its next batch may be sent."""
        if self.failed or len(self.queue) <= self.in_flight:
            return False
        if self.in_flight:
            return self.in_flight < self.most_in_flight and self.queue[0].sendings < 2
        return True


class _Sent(NamedTuple):
    """A request on its way."""

    node_id: int
    reply: Reply[ProduceResponse]
    batches: list[PendingBatch]
    topic_ids: dict[str, UUID]


class Deliveries:
    """What one producer has on its way."""

    def __init__(
        self,
        client: Client,
        *,
        acks: int = ACKS_ALL,
        transactional_id: str | None = None,
        newest: int | None = None,
        first_pause: float | None = None,
    ) -> None:
        """`newest` is the newest version of Produce to use. The pause before a failed batch is sent
        again begins with `first_pause`, by default the client's.
        """
        self._client = client
        self._acks = acks
        self._transactional_id = transactional_id
        self._newest = newest
        self._first_pause = client.settings.backoff if first_pause is None else first_pause
        self._sent: deque[_Sent] = deque()
        self._last_problem: KafkaError | None = None

    def push(self, partitions: Iterable[PartitionQueue], is_enough: Callable[[], bool]) -> None:
        """Send what waits in the queues, and take in answers until it is enough."""
        chosen = list(partitions)
        deadline = None
        pause = self._first_pause
        while True:
            while self._send_ready(chosen):
                pass
            if is_enough():
                return
            if self._sent:
                if self._settle_oldest():
                    deadline, pause = None, self._first_pause
                continue
            # Nothing is on its way, so what is left has failed.
            assert self._last_problem is not None
            if deadline is None:
                deadline = monotonic() + self._client.settings.deadline
            elif monotonic() > deadline:
                raise self._last_problem
            pause = self._client.pause(pause)
            for partition in chosen:
                partition.failed = False

    def _send_ready(self, partitions: list[PartitionQueue]) -> bool:
        """One request to each leader that may have one more; True if any was sent."""
        by_leader: dict[int, list[PendingBatch]] = {}
        for partition in partitions:
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

    def _request(self, leader: int, batches: list[PendingBatch]) -> bool:
        if sum(sent.node_id == leader for sent in self._sent) >= MOST_IN_FLIGHT:
            return False
        chosen = []
        size = 0
        for batch in batches:
            if size < REQUEST_BYTES:
                chosen.append(batch)
                size += len(batch.data)
        for batch in chosen:
            batch.sendings += 1
        try:
            names = {batch.partition.key.topic for batch in chosen}
            topic_ids = {name: self._client.topic(name).id for name in names}
            request = self._produce_request(chosen, topic_ids)
            connection = self._client.connection(leader)
            if self._acks == 0:
                connection.post(request)
                for batch in chosen:
                    self._acknowledge(batch, NO_OFFSET)
                return True
            reply = connection.submit(request, ProduceResponse, newest=self._newest)
        except KafkaError as problem:
            for batch in chosen:
                self._fail(batch.partition, problem)
            return False
        for batch in chosen:
            batch.partition.in_flight += 1
        self._sent.append(_Sent(leader, reply, chosen, topic_ids))
        return True

    def _produce_request(
        self, batches: list[PendingBatch], topic_ids: dict[str, UUID]
    ) -> ProduceRequest:
        topics = {
            name: TopicProduceData(name=name, topic_id=topic_id)
            for name, topic_id in topic_ids.items()
        }
        for batch in batches:
            name, index = batch.partition.key
            data = PartitionProduceData(index=index, records=batch.data)
            topics[name].partition_data.append(data)
        return ProduceRequest(
            transactional_id=self._transactional_id,
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

    def _settle(self, batch: PendingBatch, result: PartitionProduceResponse) -> bool:
        partition = batch.partition
        code = result.error_code
        if code == ErrorCode.NONE:
            self._acknowledge(batch, result.base_offset, result.log_append_time_ms)
            return True
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # An earlier attempt wrote it, too long ago for the broker to know where.
            self._acknowledge(batch, NO_OFFSET)
            return True
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and partition.failed:
            # It came behind a batch that was not written, and will be sent after it.
            return False
        about = f"partition {partition.key.partition} of topic {partition.key.topic}"
        self._fail(partition, error(code, result.error_message, about))
        return False

    def _acknowledge(
        self, batch: PendingBatch, base_offset: int, append_time: int = NO_APPEND_TIME
    ) -> None:
        batch.partition.queue.remove(batch)
        if self._acks == ACKS_ALL:
            batch.partition.most_in_flight = MOST_IN_FLIGHT
        batch.acknowledged(base_offset, append_time)

    def _fail(self, partition: PartitionQueue, problem: KafkaError) -> None:
        """Stop sending to a partition for a while, or raise what no waiting can mend."""
        if not problem.retriable:
            raise problem
        partition.failed = True
        self._last_problem = problem
        self._client.forget(partition.key.topic)
