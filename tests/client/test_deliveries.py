"""Batches through brokers that fail at any moment: a world in memory, with Kafka's rules for what
an idempotent producer sends again.
"""

from random import Random
from typing import Any
from uuid import UUID

import pytest

from ottla.client import ClientSettings, TopicPartition, batch_sender
from ottla.client.batch_sender import BatchSender, Span
from ottla.client.cluster import Topic
from ottla.client.errors import ConnectionFailed
from ottla.records import Record, decode_batch
from ottla.records.kernel import KERNEL
from ottla.wire.batch import read_header
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

TOPIC = "t"
REMEMBERED = 5
"""The last batches of a producer, by which a broker knows what comes again."""
ODDS = 0.04


class Partition:
    """A log, its leader, and what the leader knows of the producer."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.values: list[bytes | None] = []
        self.written: list[tuple[int, int, int]] = []
        """Sequence, records and first offset of each batch."""

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        header = read_header(memoryview(data))
        for sequence, _, offset in self.written[-REMEMBERED:]:
            if sequence == header.base_sequence:
                return ErrorCode.NONE, offset
        following = sum(self.written[-1][:2]) if self.written else header.base_sequence
        if header.base_sequence < following:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1
        if header.base_sequence > following:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        offset = len(self.values)
        self.written.append((header.base_sequence, header.record_count, offset))
        self.values += [record.value for record in decode_batch(data)]
        return ErrorCode.NONE, offset


class World:
    """Two brokers, and the client that knows them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.settings = ClientSettings(bootstrap_servers="x", deadline=1e9)
        self.partitions = [Partition(random.randrange(2)) for _ in range(random.randint(1, 4))]
        self._connections: dict[int, Connection] = {}
        self.forget(TOPIC)

    def by_chance(self) -> bool:
        return self.random.random() < ODDS

    def move_leaders(self) -> None:
        for partition in self.partitions:
            if self.random.random() < 0.3:
                partition.leader = self.random.randrange(2)

    # What a sender asks of its client

    def forget(self, _: str) -> None:
        self._known = {index: each.leader for index, each in enumerate(self.partitions)}

    def leader(self, _: str, partition: int) -> int:
        return self._known[partition]

    def topic(self, name: str) -> Topic:
        return Topic(name, UUID(int=1), self._known, {})

    def pause(self, pause: float) -> float:
        self.move_leaders()
        return pause

    def connection(self, node: int) -> "Connection":
        if node not in self._connections or self._connections[node].closed:
            self._connections[node] = Connection(self, node)
        return self._connections[node]


class Connection:
    """To one of the brokers. Once it is lost, no more answers come."""

    def __init__(self, world: World, node: int) -> None:
        self.closed = False
        self._world = world
        self._node = node

    def submit(self, request: ProduceRequest, *_: object, **__: object) -> "Reply":
        if self._world.by_chance():
            self.closed = True
            raise ConnectionFailed("it was lost before the request left")
        results = [
            PartitionProduceResponse(index=data.index, error_code=code, base_offset=offset)
            for data in request.topic_data[0].partition_data
            for code, offset in [self._append(data.index, data.records or b"")]
        ]
        self.closed |= self._world.by_chance()
        answer = TopicProduceResponse(name=TOPIC, partition_responses=results)
        return Reply(None if self.closed else ProduceResponse(responses=[answer]))

    def _append(self, index: int, data: bytes) -> tuple[ErrorCode, int]:
        partition = self._world.partitions[index]
        if partition.leader != self._node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if self._world.by_chance():
            return ErrorCode.NOT_ENOUGH_REPLICAS, -1
        result = partition.append(data)
        return (ErrorCode.REQUEST_TIMED_OUT, -1) if self._world.by_chance() else result


class Reply:
    """What the broker said, or that the connection was lost."""

    def __init__(self, value: ProduceResponse | None) -> None:
        self._value = value

    def result(self) -> ProduceResponse:
        if self._value is None:
            raise ConnectionFailed("it was lost before the answer came")
        return self._value


@pytest.mark.parametrize("seed", range(100))
def test_each_record_arrives_once_and_in_order_whatever_fails(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_sender, "producer_id", lambda _: (7, 0))
    monkeypatch.setattr(batch_sender, "BUFFER_BYTES", 3000)
    random = Random(seed)
    world = World(random)
    client: Any = world
    sender = BatchSender(client)
    sent: list[list[bytes]] = [[] for _ in world.partitions]
    for number in range(random.randint(1, 80)):
        index = random.randrange(len(world.partitions))
        values = [b"%d.%d" % (number, at) for at in range(random.randint(1, 3))]
        records = [Record(at, 0, None, value) for at, value in enumerate(values)]
        inside = KERNEL.encode_records(records, 0, 0)
        sender.send(TopicPartition(TOPIC, index), inside, len(values), 0)
        sent[index] += values
        if world.by_chance():
            world.move_leaders()
    sender.flush()
    assert [partition.values for partition in world.partitions] == sent
    assert sender.spans == {
        TopicPartition(TOPIC, index): Span(0, len(values) - 1, len(values))
        for index, values in enumerate(sent)
        if values
    }
