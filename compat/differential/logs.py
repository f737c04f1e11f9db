"""What the families about logs share: topics that come and go, producers, and batches for them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from compat.differential.plain import RECENT_MS
from compat.differential.steps import Draft, Step, named
from ottla.wire.batch import TRANSACTIONAL, read_header
from ottla.wire.message import NO_UUID, Message
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from testkit.batches import Batch, Plain

MISSING = named("missing")
TIMEOUT_MS = 10_000
HOUR_MS = 3_600_000
IDS_FROM = 13
"""Produce and Fetch name topics by id from this version on."""
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3


@dataclass
class Producer:
    """What a well-behaved producer knows."""

    transactional_id: str | None
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    sent: list[tuple[str, int, bytes]] = field(default_factory=list)
    """Batches that were accepted, for sending them again."""


def no_such_id(name: str) -> UUID:
    """An id that no topic ever had, another one for each name."""
    return UUID(int=(1 << 127) + int.from_bytes(name.encode()[-8:]))


def create(name: str, partitions: int, configs: dict[str, str] | None = None) -> Draft:
    """A new topic."""
    configs = configs or {}
    wanted = CreatableTopic(
        name=named(name),
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=configs[key]) for key in configs],
    )
    return Draft(CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS), 7)


class Logs:
    """The topics and producers of a round as far as the replies tell."""

    def __init__(self, chance: Random, now: int) -> None:
        self.chance = chance
        self.now = now
        self.topics: dict[str, tuple[int, dict[str, str]]] = {}
        self.ids: dict[str, UUID] = {}
        self.old_ids: dict[str, list[UUID]] = {}
        self.ends: dict[tuple[str, int], int] = {}
        self.producers: list[Producer] = []
        self._filled = 0

    # Topics ---------------------------------------------------------------------------------

    def make(self, name: str, partitions: int, configs: dict[str, str] | None = None) -> Draft:
        """Create a topic of the round."""
        self.topics[name] = partitions, configs or {}
        return create(name, partitions, configs)

    def replace(self) -> Draft:
        """Delete a topic that is there, or create one that is not."""
        name = self.chance.choice(list(self.topics))
        if named(name) not in self.ids:
            return create(name, *self.topics[name])
        self.old_ids.setdefault(named(name), []).append(self.ids.pop(named(name)))
        for place in [place for place in self.ends if place[0] == named(name)]:
            del self.ends[place]
        return Draft(DeleteTopicsRequest(topic_names=[named(name)], timeout_ms=TIMEOUT_MS), 5)

    def remove_all(self) -> list[Draft]:
        """Delete what is there."""
        names = sorted(self.ids)
        if not names:
            return []
        return [Draft(DeleteTopicsRequest(topic_names=names, timeout_ms=TIMEOUT_MS), 5)]

    def place(self) -> tuple[str, int]:
        """A partition; seldom one that does not exist."""
        dice = self.chance.random()
        if dice < 0.03:
            return MISSING, 0
        name = self.chance.choice(list(self.topics))
        if dice < 0.06:
            return named(name), self.topics[name][0] + self.chance.randrange(2)
        return named(name), self.chance.randrange(self.topics[name][0])

    def id_of(self, name: str) -> UUID:
        """A topic's id; seldom an old one or one that never was."""
        dice = self.chance.random()
        if dice < 0.02:
            return no_such_id(name)
        if dice < 0.05 and self.old_ids.get(name):
            return self.chance.choice(self.old_ids[name])
        return self.ids.get(name, no_such_id(name))

    def end(self, place: tuple[str, int]) -> int:
        """Where a partition ends, as far as is known."""
        return self.ends.get(place, 0)

    def offset(self, place: tuple[str, int]) -> int:
        """An offset of a partition, or one near it."""
        end = self.end(place)
        return self.chance.choice(
            [0, end, max(0, end - 1), self.chance.randint(0, end + 1), end + 1, end + 5, -1]
        )

    # Batches --------------------------------------------------------------------------------

    def records(self, most: int = 400) -> list[Plain]:
        """Some records of some size, each with another content."""
        self._filled += 1
        count = self.chance.choice([1, 1, 2, 5, 12])
        size = self.chance.randrange(most)
        return [
            Plain(
                value=b"%d:%d:" % (self._filled, number) + b"." * size,
                key=self.chance.choice([None, b"a", b"b", b"c"]),
                timestamp_delta=self.chance.randrange(1000),
            )
            for number in range(count)
        ]

    def past(self) -> int:
        """A time that no broker set."""
        return self.now - 2 * RECENT_MS - self.chance.randrange(HOUR_MS)

    def batch(self, producer: Producer | None, place: tuple[str, int], most: int = 400) -> Batch:
        """A right batch, the next one of its producer if it has one."""
        batch = Batch(
            records=self.records(most),
            base_timestamp=self.past(),
        )
        if producer is not None:
            batch.producer_id = producer.producer_id
            batch.producer_epoch = producer.epoch
            batch.base_sequence = producer.sequences.get(place, 0)
            if producer.transactional_id is not None:
                batch.attributes |= TRANSACTIONAL
        return batch

    def produce(
        self,
        parts: Iterable[tuple[tuple[str, int], bytes | None]],
        version: int,
        transactional_id: str | None = None,
        acks: int = -1,
    ) -> Draft:
        """A Produce with these bytes for these partitions."""
        topics: dict[str, TopicProduceData] = {}
        for (name, partition), data in parts:
            if name not in topics:
                topic_id = self.id_of(name) if version >= IDS_FROM else NO_UUID
                topics[name] = TopicProduceData(name=name, topic_id=topic_id)
            topics[name].partition_data.append(PartitionProduceData(index=partition, records=data))
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=TIMEOUT_MS,
            topic_data=list(topics.values()),
        )
        return Draft(request, version)

    # Requests about logs --------------------------------------------------------------------

    def delete_records(self) -> Draft:
        """Move a log's start up."""
        place = self.place()
        part = DeleteRecordsPartition(partition_index=place[1], offset=self.offset(place))
        topic = DeleteRecordsTopic(name=place[0], partitions=[part])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        return Draft(request, self.chance.randint(0, 2))

    def list_offsets(self) -> Draft:
        """Ask for offsets by time or by their special names."""
        version = self.chance.randint(1, 10)
        parts: dict[str, list[ListOffsetsPartition]] = {}
        for place in {self.place() for _ in range(self.chance.choice([1, 1, 3]))}:
            times = [EARLIEST, LATEST, self.past(), self.past(), self.now + HOUR_MS, 0]
            if version >= 7:
                times.append(MAX_TIMESTAMP)
            if version >= 8:
                times += [-4, -5]
            part = ListOffsetsPartition(
                partition_index=place[1],
                current_leader_epoch=self.leader_epoch(),
                timestamp=self.chance.choice(times),
            )
            parts.setdefault(place[0], []).append(part)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self.chance.randrange(2),
            topics=[ListOffsetsTopic(name=name, partitions=found) for name, found in parts.items()],
            timeout_ms=TIMEOUT_MS,
        )
        return Draft(request, version)

    def offset_for_leader_epoch(self) -> Draft:
        """Ask where an epoch ends."""
        name, partition = self.place()
        part = OffsetForLeaderPartition(
            partition=partition,
            current_leader_epoch=self.leader_epoch(),
            leader_epoch=self.chance.choice([0, 0, 1, -1, 7]),
        )
        topic = OffsetForLeaderTopic(topic=name, partitions=[part])
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
        return Draft(request, self.chance.randint(2, 4))

    def leader_epoch(self) -> int:
        """The current leader epoch as a client may know it."""
        return self.chance.choice([-1] * 6 + [0] * 6 + [1, 5])

    def read_all(self, isolation_level: int = 0) -> Draft:
        """Fetch all that is in all logs."""
        topics = []
        for name, (partitions, _) in self.topics.items():
            asks = [
                FetchPartition(partition=p, partition_max_bytes=2**20) for p in range(partitions)
            ]
            topics.append(FetchTopic(topic=named(name), partitions=asks))
        request = FetchRequest(max_bytes=2**24, isolation_level=isolation_level, topics=topics)
        return Draft(request, 12)

    def describe_producers(self) -> Draft:
        """Ask who writes to a partition."""
        name, partition = self.place()
        topics = [TopicRequest(name=name, partition_indexes=[partition])]
        return Draft(DescribeProducersRequest(topics=topics), 0)

    # Producers ------------------------------------------------------------------------------

    def init(self, producer: Producer, version: int = 5) -> Draft:
        """Ask for a producer's id and epoch."""
        request = InitProducerIdRequest(
            transactional_id=producer.transactional_id, transaction_timeout_ms=60_000
        )
        return Draft(request, version)

    def end_txn(self, producer: Producer, commit: bool, version: int = 5) -> Draft:
        """End a transaction."""
        request = EndTxnRequest(
            transactional_id=producer.transactional_id or "",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        return Draft(request, version)

    # Learning -------------------------------------------------------------------------------

    def learn(self, step: Step, reply: Message) -> None:
        """Take notice of a reply."""
        if isinstance(reply, CreateTopicsResponse):
            for topic in reply.topics:
                if not topic.error_code:
                    self.ids[topic.name] = topic.topic_id
        elif isinstance(reply, ProduceResponse):
            assert isinstance(step.request, ProduceRequest)
            self._learn_produce(step.request, reply)
        elif isinstance(reply, InitProducerIdResponse):
            assert isinstance(step.request, InitProducerIdRequest)
            self._learn_producer(step.request, reply)
        elif isinstance(reply, EndTxnResponse) and not reply.error_code:
            assert isinstance(step.request, EndTxnRequest)
            for producer in self.producers:
                if producer.transactional_id == step.request.transactional_id and step.version >= 5:
                    _renew(producer, reply.producer_id, reply.producer_epoch)
            # A marker went to each of its partitions; a guess is good enough.
            for place in self.ends:
                self.ends[place] += self.chance.randrange(2)

    def _learn_produce(self, request: ProduceRequest, reply: ProduceResponse) -> None:
        by_id = {topic_id: name for name, topic_id in self.ids.items()}
        sent = {
            (topic.name, topic.topic_id, part.index): part.records
            for topic in request.topic_data
            for part in topic.partition_data
        }
        for topic in reply.responses:
            for part in topic.partition_responses:
                data = sent.get((topic.name, topic.topic_id, part.index))
                if part.error_code or not data:
                    continue
                place = topic.name or by_id.get(topic.topic_id, ""), part.index
                self._learn_append(place, part.base_offset, data)

    def _learn_append(self, place: tuple[str, int], base_offset: int, data: bytes) -> None:
        header = read_header(memoryview(data))
        self.ends[place] = max(self.end(place), base_offset + header.last_offset_delta + 1)
        for producer in self.producers:
            if (producer.producer_id, producer.epoch) == header[9:11]:
                following = (header.last_sequence + 1) & 0x7FFFFFFF
                producer.sequences[place] = following
                producer.sent.append((*place, data))

    def _learn_producer(
        self, request: InitProducerIdRequest, reply: InitProducerIdResponse
    ) -> None:
        if reply.error_code:
            return
        for producer in self.producers:
            same = producer.transactional_id == request.transactional_id
            if same and (request.transactional_id is not None or producer.producer_id == -1):
                _renew(producer, reply.producer_id, reply.producer_epoch)
                return


def _renew(producer: Producer, producer_id: int, epoch: int) -> None:
    if (producer.producer_id, producer.epoch) != (producer_id, epoch):
        producer.producer_id, producer.epoch = producer_id, epoch
        producer.sequences.clear()
