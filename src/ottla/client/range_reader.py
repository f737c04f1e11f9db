"""Reading one stretch of one partition, as fast as a broker can send it.

Rules kept here:
1. Answers come in the order of offsets and are handed out as they came: whole batches one behind
   another, of which those of aborted transactions (for read_committed) are left out. Transaction
   markers may be among them; who decodes batches leaves those out.
2. While a caller works on one answer, the next is already being fetched.
3. Reading ends when the position reaches the end of the stretch, whatever the last offsets hold:
   records, markers, aborted records, or nothing at all after compaction. Nothing is counted.
4. A moved leader or a lost connection is retried from the position, until the deadline. An offset
   that is not there is raised as OffsetOutOfRange: before the log's start, or after an end that
   did not move until the deadline.
5. An answer's batches stay where they were received, in a buffer that the next answer is received
   into: they are good until the next answer is asked for.
6. With a topic id, nothing is read of another topic that has the name by now.
7. It uses the client's own connection to the leader, and leaves it unused by anyone else while it
   reads. A reader that is given up in the middle closes that connection.
"""

from collections.abc import Iterator
from time import monotonic
from typing import NamedTuple
from uuid import UUID

from ottla.client.cluster import Client, TopicPartition
from ottla.client.committed import visible_batches
from ottla.client.errors import ConnectionFailed, OffsetOutOfRange, check, error
from ottla.client.fetch_reply import FetchReply, ReplyBuffer
from ottla.wire.batch import HEADER_SIZE, LOG_OVERHEAD, SMALLEST_LENGTH, read_header
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch import FINAL_EPOCH
from ottla.wire.fetch_answer import PartitionAnswer
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic


class RangeAnswer(NamedTuple):
    """Batches that lie one behind another, as they are in the log."""

    batches: memoryview
    start: int
    """The offset that was asked for: batches may begin before it."""


def read_range(
    client: Client,
    where: TopicPartition,
    start: int,
    end: int,
    *,
    read_committed: bool = False,
    max_bytes: int = 4 << 20,
    max_wait: float = 0.5,
    topic_id: UUID | None = None,
) -> Iterator[RangeAnswer]:
    """The batches that hold the offsets from `start` on, up to `end`.

    With `topic_id`, TopicRecreated is raised where another topic has the name.
    """
    reader = _RangeReader(client, where, end, read_committed, max_bytes, max_wait, topic_id)
    try:
        yield from reader.answers(start)
    finally:
        reader.give_up()


class _RangeReader:
    def __init__(
        self,
        client: Client,
        where: TopicPartition,
        end: int,
        read_committed: bool,
        max_bytes: int,
        max_wait: float,
        topic_id: UUID | None,
    ) -> None:
        self._client = client
        self._topic_id = topic_id
        self._where = where
        self._end = end
        self._read_committed = read_committed
        self._max_bytes = max_bytes
        self._max_wait = max_wait
        self._fetch: FetchReply | None = None
        self._buffer = ReplyBuffer()
        self._pause = client.settings.backoff
        self._last_success = monotonic()

    def answers(self, start: int) -> Iterator[RangeAnswer]:
        position = start
        while position < self._end:
            try:
                fetch = self._fetch or self._send(position)
                data = self._receive(fetch)
            except KafkaError as problem:
                self._consider(problem)
                continue
            records = data.records
            after = _next_offset(records, position, self._where)
            if after == position:
                self._wait_for_more(data, position)
                continue
            self._last_success = monotonic()
            self._pause = self._client.settings.backoff
            if after < self._end:
                try:
                    self._send(after)
                except KafkaError:
                    self._fetch = None  # The next round meets it again.
            for batches in self._visible(records, data):
                yield RangeAnswer(batches, position)
            position = after

    def give_up(self) -> None:
        """Close the connection if an answer that nobody waits for is on its way."""
        if self._fetch is not None:
            self._fetch.connection.close()
            self._fetch = None

    def _send(self, position: int) -> FetchReply:
        topic, partition = self._where
        if self._topic_id is not None:
            self._client.topic_with_id(topic, self._topic_id)
        leader = self._client.leader(topic, partition)
        found = self._client.topic(topic)
        connection = self._client.connection(leader)
        request = FetchRequest(
            max_wait_ms=int(self._max_wait * 1000),
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=int(self._read_committed),
            session_epoch=FINAL_EPOCH,
            topics=[
                FetchTopic(
                    topic=topic,
                    topic_id=found.id,
                    partitions=[
                        FetchPartition(
                            partition=partition,
                            current_leader_epoch=found.leader_epochs[partition],
                            fetch_offset=position,
                            partition_max_bytes=self._max_bytes,
                        )
                    ],
                )
            ],
        )
        self._fetch = connection.awaiting(FetchReply(connection, request, position, self._buffer))
        return self._fetch

    def _receive(self, fetch: FetchReply) -> PartitionAnswer:
        response = fetch.result(self._max_wait + self._client.settings.request_timeout)
        self._fetch = None
        check(response.error_code)
        for _, partitions in response.topics:
            for data in partitions:
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise OffsetOutOfRange(*self._where, fetch.position)
                if data.error_code:
                    raise error(data.error_code, None, _in_words(self._where))
                return data
        raise error(
            ErrorCode.UNKNOWN_SERVER_ERROR, "a response without data", _in_words(self._where)
        )

    def _consider(self, problem: KafkaError) -> None:
        """Raise what is final, else look for the leader again."""
        self.give_up()
        late = monotonic() - self._last_success > self._client.settings.deadline
        if late or not problem.retriable:
            raise problem
        self._client.forget(self._where.topic)
        self._pause = self._client.pause(self._pause)

    def _wait_for_more(self, data: PartitionAnswer, position: int) -> None:
        """Nothing came: right after an election, the end may be behind for a moment."""
        last = data.last_stable_offset if self._read_committed else data.high_watermark
        if monotonic() - self._last_success <= self._client.settings.deadline:
            if position >= last:
                self._client.pause(self._client.settings.backoff)
            return
        if position < last:
            raise ConnectionFailed(
                f"{_in_words(self._where)} returned no records at offset {position}"
            )
        raise OffsetOutOfRange(*self._where, position)

    def _visible(self, records: memoryview, data: PartitionAnswer) -> Iterator[memoryview]:
        """The stretches of an answer without batches of aborted transactions."""
        if not (self._read_committed and data.aborted):
            yield records
            return
        for _, batch in visible_batches(records, data.aborted):
            yield batch


def _next_offset(records: memoryview, position: int, where: TopicPartition) -> int:
    """The offset after the last whole batch."""
    at = 0
    last = -1
    size = len(records)
    while at + HEADER_SIZE <= size:
        length = int.from_bytes(records[at + 8 : at + LOG_OVERHEAD], "big")
        if not SMALLEST_LENGTH <= length < 1 << 31:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{_in_words(where)}, after offset {position}: a batch of {length} bytes",
            )
        if at + LOG_OVERHEAD + length > size:
            break
        last = at
        at += LOG_OVERHEAD + length
    return position if last < 0 else max(position, read_header(records, last).next_offset)


def _in_words(where: TopicPartition) -> str:
    return f"partition {where.partition} of topic {where.topic}"
