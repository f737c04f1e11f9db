"""Reading partitions from given offsets on, up to given ends or for ever.

Rules kept here:
1. A partition's records come in the order of their offsets, each once; a position moves when its
   batch is handed out.
2. With `read_committed`, records of aborted or open transactions are not handed out; transaction
   markers never are.
3. While a caller works on one reply, the next is already being fetched.
4. Fetches have connections of their own: a broker holds a fetch back while it has nothing to give,
   and other requests must not wait behind it.
5. A moved leader or a lost connection is retried; an offset that does not exist is raised as
   OffsetOutOfRange, since only the caller can say what to do then.
"""

import selectors
from collections.abc import Iterator, Mapping
from time import monotonic
from types import TracebackType
from typing import NamedTuple, Self
from uuid import UUID

from ottla.client.cluster import Client, TopicPartition
from ottla.client.committed import next_offset, visible_batches
from ottla.client.connection import BrokerConnection, Reply
from ottla.client.errors import OffsetOutOfRange, check, error
from ottla.records import Record, decode_batch
from ottla.wire.batch import BatchHeader
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch import FINAL_EPOCH
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

NO_END = 2**63 - 1


class RawBatch(NamedTuple):
    """A batch as it is in the log. Only its records with start <= offset < stop were asked for."""

    topic: str
    partition: int
    header: BatchHeader
    data: memoryview
    start: int
    stop: int


class Batch(NamedTuple):
    """Some records of one partition, in order."""

    topic: str
    partition: int
    records: list[Record]


class _Fetch(NamedTuple):
    """A request on its way, and the positions that it was made with."""

    connection: BrokerConnection
    reply: Reply[FetchResponse]
    positions: dict[TopicPartition, int]
    names: dict[UUID, str]
    """From version 13 on, a reply names topics by their ids."""


class Reader:
    """Reads partitions. Iterate over it for batches until all ends are reached, or call poll()."""

    def __init__(
        self,
        client: Client,
        offsets: Mapping[TopicPartition, int],
        *,
        until: Mapping[TopicPartition, int] | None = None,
        read_committed: bool = False,
        max_wait: float = 0.5,
        max_bytes: int = 50 << 20,
        partition_max_bytes: int = 1 << 20,
    ) -> None:
        """Start at `offsets` and end before the offsets in `until`; a partition that is not in
        `until` has no end. `max_wait` (seconds) is how long poll() may wait for data.
        """
        self._client = client
        self.positions = dict(offsets)
        """The next offset of each partition."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """Where each partition ended at its last fetch."""
        self.aborted_records = 0
        """How many records of aborted transactions were passed over (with `read_committed`)."""
        self._until = dict(until or {})
        self._read_committed = read_committed
        self._max_wait = max_wait
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._connections: dict[int, BrokerConnection] = {}
        self._fetches: dict[int, _Fetch] = {}
        self._first_failure: float | None = None
        self._failure: KafkaError | None = None
        self._problem: KafkaError | None = None
        self._pause = client.settings.backoff

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop fetching."""
        self._fetches.clear()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    @property
    def problem(self) -> KafkaError | None:
        """Why the last poll had no response from a broker, where it is retried."""
        return self._problem

    @property
    def finished(self) -> bool:
        """True once every partition has reached its end, and no failure is left to be raised."""
        return self._failure is None and not self._unfinished()

    def __iter__(self) -> Iterator[Batch]:
        while not self.finished:
            yield from self.poll()

    def poll(self) -> list[Batch]:
        """The records of one reply; empty where nothing came within `max_wait`, or all is read."""
        batches = []
        for raw in self.poll_raw():
            try:
                records = decode_batch(raw.data)
            except KafkaError as problem:
                # What was read before it is still good, and is handed out first.
                self._failure = _corrupt(raw.topic, raw.partition, raw.header.base_offset, problem)
                break
            if raw.header.base_offset < raw.start or raw.header.last_offset >= raw.stop:
                records = [item for item in records if raw.start <= item.offset < raw.stop]
            if records:
                batches.append(Batch(raw.topic, raw.partition, records))
        if self._failure is not None and not batches:
            raise self._failure
        return batches

    def poll_raw(self) -> list[RawBatch]:
        """Like poll(), with the batches not decoded and their CRC not checked."""
        if self._failure is not None:
            raise self._failure
        batches: list[RawBatch] = []
        failure: KafkaError | None = None
        try:
            self._send_fetches()
        except KafkaError as problem:
            failure = problem
        for node_id in self._answered():
            try:
                batches += self._take(node_id)
            except KafkaError as problem:
                failure = problem
        if failure is not None:
            self._consider(failure, data_came=bool(batches))
            return batches
        self._first_failure = self._problem = None
        self._pause = self._client.settings.backoff
        if batches:
            try:
                self._send_fetches()
            except KafkaError:
                pass  # The next poll meets it again.
        return batches

    def _unfinished(self) -> list[TopicPartition]:
        until = self._until
        return [
            partition
            for partition, position in self.positions.items()
            if position < until.get(partition, NO_END)
        ]

    def _send_fetches(self) -> None:
        """Have a fetch under way at every leader that has something to read."""
        busy = {partition for fetch in self._fetches.values() for partition in fetch.positions}
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition in self._unfinished():
            if partition not in busy:
                leader = self._client.leader(*partition)
                if leader not in self._fetches:
                    by_leader.setdefault(leader, {})[partition] = self.positions[partition]
        for leader, positions in by_leader.items():
            connection = self._connections.get(leader)
            if connection is None or connection.closed:
                connection = self._connections[leader] = self._client.connect(leader)
            reply = connection.submit(self._request(positions), FetchResponse)
            names = {self._client.topic(name).id: name for name, _ in positions}
            self._fetches[leader] = _Fetch(connection, reply, positions, names)

    def _request(self, positions: Mapping[TopicPartition, int]) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for (name, index), position in positions.items():
            found = self._client.topic(name)
            topic = topics.setdefault(name, FetchTopic(topic=name, topic_id=found.id))
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=found.leader_epochs[index],
                    fetch_offset=position,
                    partition_max_bytes=self._partition_max_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=int(self._max_wait * 1000),
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=int(self._read_committed),
            session_epoch=FINAL_EPOCH,
            topics=list(topics.values()),
        )

    def _answered(self) -> list[int]:
        """The leaders whose reply is there, once there is one."""
        fetches = self._fetches
        failed = [node_id for node_id, fetch in fetches.items() if fetch.reply.done]
        if failed or len(fetches) < 2:
            return failed or list(fetches)
        with selectors.DefaultSelector() as selector:
            for node_id, fetch in fetches.items():
                selector.register(fetch.connection, selectors.EVENT_READ, node_id)
            ready: list[int] = [key.data for key, _ in selector.select(self._longest_wait)]
        return ready or list(fetches)

    @property
    def _longest_wait(self) -> float:
        return self._max_wait + self._client.settings.request_timeout

    def _take(self, node_id: int) -> list[RawBatch]:
        fetch = self._fetches.pop(node_id)
        response = fetch.reply.result(self._longest_wait)
        check(response.error_code)
        batches: list[RawBatch] = []
        failure: KafkaError | None = None
        for topic in response.responses:
            name = topic.topic or fetch.names[topic.topic_id]
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                position = fetch.positions[partition]
                if data.error_code:
                    failure = _failure(partition, position, data.error_code)
                else:
                    batches += self._batches(partition, position, data)
        if failure is not None:
            if not batches:
                raise failure
            self._consider(failure, data_came=True)
        return batches

    def _batches(
        self, partition: TopicPartition, position: int, data: PartitionData
    ) -> Iterator[RawBatch]:
        self.high_watermarks[partition] = data.high_watermark
        if not data.records:
            return
        records = memoryview(data.records)
        stop = self._until.get(partition, NO_END)
        aborted = (
            [(item.producer_id, item.first_offset) for item in data.aborted_transactions or ()]
            if self._read_committed
            else ()
        )

        def count_aborted(header: BatchHeader) -> None:
            if header.last_offset >= position and header.base_offset < stop:
                self.aborted_records += header.record_count

        try:
            for header, batch in visible_batches(records, aborted, count_aborted):
                if header.last_offset >= position and header.base_offset < stop:
                    yield RawBatch(*partition, header, batch, position, stop)
            after = next_offset(records)
        except KafkaError as problem:
            raise _corrupt(*partition, position, problem) from None
        if after is not None:
            # Those that had something go behind the others: the next reply may be full before them.
            del self.positions[partition]
            self.positions[partition] = max(after, position)

    def _consider(self, problem: KafkaError, *, data_came: bool) -> None:
        """Raise what is final (after the data that came is out); else look for leaders again."""
        now = monotonic()
        self._problem = problem
        if self._first_failure is None:
            self._first_failure = now
        late = now - self._first_failure > self._client.settings.deadline
        if late or isinstance(problem, _CorruptBatch) or not problem.retriable:
            self._failure = problem
            if not data_came:
                raise problem
            return
        for partition in self.positions:
            self._client.forget(partition.topic)
        if not data_came:
            self._pause = self._client.pause(self._pause)


class _CorruptBatch(KafkaError):  # noqa: N818 (it names what was found)
    """What was fetched makes no sense: fetching it again would give the same."""


def _corrupt(topic: str, partition: int, offset: int, problem: KafkaError) -> KafkaError:
    return _CorruptBatch(
        ErrorCode.CORRUPT_MESSAGE,
        f"partition {partition} of topic {topic}, batch at offset {offset}: {problem}",
    )


def _failure(partition: TopicPartition, position: int, error_code: int) -> KafkaError:
    if error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return OffsetOutOfRange(*partition, position)
    return error(error_code, None, f"partition {partition.partition} of topic {partition.topic}")
