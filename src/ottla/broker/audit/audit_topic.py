"""The audit topic as brokers use it: they write their counts to it, and read how far others have
counted.

Rules kept here:
1. Events go to the leader of their partition of the topic, whichever broker that is. They are
   reported when they are committed there, and where that is this broker, on its disk.
2. All events of a chain are in one partition, so they are read in the order they were written.
3. In a cluster the topic itself says how far a log was counted: a new leader of a partition
   continues where the leader before it has ended. What is read is what is committed, all of it: a
   new leader of the topic that does not know yet how much that is, is asked again later.
4. An event of lost records sets back what was counted; any other only moves it on.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from ottla.audit.events import AUDIT_TOPIC, Event, Tier
from ottla.broker.context.clock import Clock
from ottla.broker.coordinators.coordinators import MOST_REPLICAS, java_hash
from ottla.broker.metadata.topics import ConfiguredWriter, create_topic
from ottla.broker.replicas.leaders import Leaders
from ottla.broker.replicas.log_reading import batches_of
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replication.link import LinkError
from ottla.broker.replication.peers import Peers
from ottla.log.storage.folder import uuid_to_text
from ottla.metadata.elections import NO_LEADER
from ottla.metadata.image import Image, TopicImage
from ottla.metadata.topics import NewTopic
from ottla.records import Record, decode_short_batch, encode_batch
from ottla.wire.batch import headers
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ALL: Final = -1
BATCH_BYTES: Final = 500_000
READ_BYTES: Final = 1 << 20
RECORD_OVERHEAD: Final = 500
"""Enough for a key and what a record has around it."""
COMMITTED_WITHIN_SECONDS: Final = 10.0
PRODUCE_VERSION: Final = 12
FETCH_VERSION: Final = 12
LIST_OFFSETS_VERSION: Final = 10
LATEST: Final = -1
BROKERS: Final = f"{Tier.BROKER}/".encode()

Counted = dict[tuple[str, int], int]
"""By topic id and partition an offset: below it all was counted, or of the audit topic itself,
read."""


class AuditTopic:
    """The audit topic, for one broker."""

    def __init__(
        self,
        broker_id: int,
        *,
        clock: Clock,
        image: Image,
        partitions: Partitions,
        leaders: Leaders,
        peers: Peers,
        metadata: ConfiguredWriter,
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._image = image
        self._partitions = partitions
        self._leaders = leaders
        self._peers = peers
        self._metadata = metadata

    # Writing ------------------------------------------------------------------------------

    async def report(self, events: list[Event]) -> None:
        """Write events, and wait until they are committed; raises KafkaError."""
        count = len((await self._ensure()).assignment)
        waiting: dict[int, list[Event]] = defaultdict(list)
        for event in events:
            waiting[java_hash(event.instance) % count].append(event)
        now = self._clock.now_ms()
        for index, its_events in waiting.items():
            batches = [encode_batch(records) for records in _batches(its_events, now)]
            leader = self._leader(index)
            if leader == self._broker_id:
                await self._append(self._partitions.find(AUDIT_TOPIC, index), batches, now)
            else:
                await self._send(leader, index, batches)

    async def _append(self, partition: Partition, batches: list[bytes], now: int) -> None:
        for batch in batches:
            partition.append_own(memoryview(bytearray(batch)), now)
        await _committed(partition)
        await partition.flush()

    async def _send(self, leader: int, index: int, batches: list[bytes]) -> None:
        for batch in batches:
            request = ProduceRequest(
                acks=ALL,
                timeout_ms=int(COMMITTED_WITHIN_SECONDS * 1000),
                topic_data=[
                    TopicProduceData(
                        name=AUDIT_TOPIC,
                        partition_data=[PartitionProduceData(index=index, records=batch)],
                    )
                ],
            )
            try:
                answer = await self._peers.ask(leader, request, ProduceResponse, PRODUCE_VERSION)
                (result,) = answer.responses[0].partition_responses
            except (LinkError, LookupError, ValueError) as problem:
                raise _not_reached(leader, problem) from None
            _check(result.error_code, leader)

    async def _ensure(self) -> TopicImage:
        image = self._image
        if AUDIT_TOPIC not in image.topics:
            replicas = min(MOST_REPLICAS, len(image.brokers))
            try:
                await create_topic(self._metadata, NewTopic(AUDIT_TOPIC, 1, replicas))
            except KafkaError as problem:
                if problem.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        return image.topics[AUDIT_TOPIC]

    def _leader(self, index: int) -> int:
        leader = self._leaders.of(AUDIT_TOPIC, index).id
        if leader == NO_LEADER:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{AUDIT_TOPIC}-{index} has no leader")
        return leader

    # Reading ------------------------------------------------------------------------------

    async def learn(self, counted: Counted) -> bool:
        """Take in what was reported since the last time; says whether anything was.

        Raises KafkaError where the topic cannot be read: then nobody knows what is counted.
        """
        topic = self._image.topics.get(AUDIT_TOPIC)
        if topic is None:
            return False
        learned = False
        for index in range(len(topic.assignment)):
            key = (uuid_to_text(topic.id), index)
            before = counted.get(key, 0)
            leader = self._leader(index)
            if leader == self._broker_id:
                partition = self._partitions.find(AUDIT_TOPIC, index)
                counted[key] = await self._read_here(partition, before, counted)
            else:
                counted[key] = await self._read_there(leader, index, before, counted)
            learned |= counted[key] != before
        return learned

    async def _read_here(self, partition: Partition, offset: int, counted: Counted) -> int:
        if partition.leadership is not None:
            partition.leadership.check_latest()
        end = partition.high_watermark
        if offset > end:  # the topic has lost its end: what is left is read again
            offset = 0
        async for header, batch in batches_of(partition, offset, end):
            if not header.is_control:
                _take(batch, offset, counted)
        return end

    async def _read_there(self, leader: int, index: int, offset: int, counted: Counted) -> int:
        end = await self._end(leader, index)
        if offset > end:  # as above
            offset = 0
        while offset < end:
            data = await self._fetch(leader, index, offset)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and data.log_start_offset > offset:
                offset = data.log_start_offset  # retention was faster
                continue
            _check(data.error_code, leader)
            records = memoryview(data.records or b"")
            for at, header in headers(records):
                if not header.is_control:
                    _take(records[at : at + header.size], offset, counted)
                offset = max(offset, header.next_offset)
            if not records:
                raise _not_reached(leader, ValueError(f"there is nothing at offset {offset}"))
        return offset

    async def _end(self, leader: int, index: int) -> int:
        place = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
        request = ListOffsetsRequest(
            topics=[ListOffsetsTopic(name=AUDIT_TOPIC, partitions=[place])]
        )
        try:
            answer = await self._peers.ask(
                leader, request, ListOffsetsResponse, LIST_OFFSETS_VERSION
            )
            (found,) = answer.topics[0].partitions
        except (LinkError, LookupError, ValueError) as problem:
            raise _not_reached(leader, problem) from None
        _check(found.error_code, leader)
        return found.offset

    async def _fetch(self, leader: int, index: int, offset: int) -> PartitionData:
        place = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=READ_BYTES)
        request = FetchRequest(
            max_bytes=READ_BYTES, topics=[FetchTopic(topic=AUDIT_TOPIC, partitions=[place])]
        )
        try:
            answer = await self._peers.ask(leader, request, FetchResponse, FETCH_VERSION)
            _check(answer.error_code, leader)
            (data,) = answer.responses[0].partitions
        except (LinkError, LookupError, ValueError) as problem:
            raise _not_reached(leader, problem) from None
        return data


def _take(batch: memoryview, offset: int, counted: Counted) -> None:
    """Note what the broker events of a batch say, from an offset on."""
    try:
        records = decode_short_batch(batch)
    except KafkaError:
        return  # anyone may write anything to the topic
    for record in records:
        if record.offset < offset or not (record.key or b"").startswith(BROKERS):
            continue
        try:
            event = Event.decode(record.value)
        except ValueError:
            continue
        topic_id, _, index = event.instance.rpartition("/")
        if event.next is None or not index.isdecimal():
            continue
        key = (topic_id, int(index))
        counted[key] = event.next if event.lost else max(counted.get(key, 0), event.next)


async def _committed(partition: Partition) -> None:
    """Wait until what was appended is committed; raises KafkaError where it may be lost."""
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def once(tell: Callable[[], object]) -> Callable[[], object]:
        return lambda: None if written.done() else tell()

    gone = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {partition}")
    partition.when_committed(
        partition.log.end_offset,
        once(lambda: written.set_result(None)),
        once(lambda: written.set_exception(gone)),
    )
    try:
        async with asyncio.timeout(COMMITTED_WITHIN_SECONDS):
            await written
    except TimeoutError:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{partition} is not committed") from None


def _check(code: int, leader: int) -> None:
    if code:
        name = ErrorCode(code)
        raise KafkaError(name, f"{AUDIT_TOPIC} on broker {leader}: {name.name}")


def _not_reached(leader: int, problem: Exception) -> KafkaError:
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{AUDIT_TOPIC} on broker {leader}: {problem}")


def _batches(events: list[Event], now: int) -> Iterator[list[Record]]:
    """The records of events, as many at a time as a batch may hold."""
    records: list[Record] = []
    size = 0
    for event in events:
        value = event.encode()
        if records and size + len(value) > BATCH_BYTES:
            yield records
            records, size = [], 0
        records.append(Record(len(records), now, event.key(), value))
        size += len(value) + RECORD_OVERHEAD
    yield records
