"""Ready-made batches: in order and once, over many partitions and over failures."""

from pathlib import Path
from typing import Any

import pytest

from ottla.client import Admin, Client, KafkaError, Reader, TopicPartition
from ottla.client.batch_sender import BatchSender, Span
from ottla.client.connection import BrokerConnection, Reply
from ottla.client.deliveries import REQUEST_BYTES
from ottla.embedded import Broker
from ottla.records import Codec, Record
from ottla.records.kernel import KERNEL
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.produce import ProduceRequest


def inside(*values: bytes) -> bytes:
    """The inside of a batch."""
    records = [Record(at, 0, None, value) for at, value in enumerate(values)]
    return KERNEL.encode_records(records, 0, 0)


def read(client: Client, topic: str, partitions: int = 3) -> dict[int, list[bytes | None]]:
    places = [TopicPartition(topic, index) for index in range(partitions)]
    ends = Admin(client).list_offsets(dict.fromkeys(places, -1))
    found: dict[int, list[bytes | None]] = {index: [] for index in range(partitions)}
    until = {where: end.offset for where, end in ends.items()}
    with Reader(client, dict.fromkeys(places, 0), until=until) as reader:
        for batch in reader:
            found[batch.partition] += [record.value for record in batch.records]
    return found


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_arrive_in_their_order(client: Client, topic: str, codec: Codec) -> None:
    sender = BatchSender(client, codec=codec)
    for number in range(60):
        two = inside(b"%d" % number, b"x" * 100)
        sender.send(TopicPartition(topic, number % 3), two, 2, 0)
    sender.flush()
    for partition, values in read(client, topic).items():
        assert values[::2] == [b"%d" % number for number in range(partition, 60, 3)]
        assert sender.spans[TopicPartition(topic, partition)] == Span(0, 39, 40)


def test_more_than_the_buffer_takes_is_sent_on_the_way(client: Client, topic: str) -> None:
    sender = BatchSender(client)
    large = inside(b"x" * 900_000)
    for _ in range(40):
        sender.send(TopicPartition(topic, 1), large, 1, 0)
    assert sender.spans[TopicPartition(topic, 1)].records >= 20
    sender.flush()
    assert sender.spans == {TopicPartition(topic, 1): Span(0, 39, 40)}


def test_batches_of_several_partitions_share_requests(
    client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    submit = BrokerConnection.submit

    def counted(
        self: BrokerConnection, request: Message, *given: Any, **named: Any
    ) -> Reply[Message]:
        if isinstance(request, ProduceRequest):
            sizes.append(sum(len(each.partition_data) for each in request.topic_data))
        return submit(self, request, *given, **named)

    monkeypatch.setattr(BrokerConnection, "submit", counted)
    sender = BatchSender(client)
    places = [TopicPartition(topic, index) for index in range(3)]
    sender.send(places[0], inside(b"x"), 1, 0)
    assert sizes == [1], "the first one waits for nothing"
    for where in places:
        sender.send(where, inside(b"x"), 1, 0)
    sender.flush()
    sizes.clear()
    eighth = inside(b"x" * (REQUEST_BYTES // 8))
    for number in range(18):
        sender.send(places[number % 3], eighth, 1, 0)
    sender.flush()
    assert sum(sizes) == 18
    assert len(sizes) <= 8
    assert sum(span.records for span in sender.spans.values()) == 22


def test_a_restarted_broker_gets_the_rest_once_and_in_order(tmp_path: Path) -> None:
    broker = Broker(data=tmp_path).start()
    try:
        with Client(broker.bootstrap_servers) as client:
            Admin(client).create_topic("t", partitions=3)
            sender = BatchSender(client)
            for number in range(90):
                if number == 45:
                    broker.stop()
                    broker = Broker(data=tmp_path, port=broker.port).start()
                sender.send(TopicPartition("t", number % 3), inside(b"%d" % number), 1, 0)
            sender.flush()
            for partition, values in read(client, "t").items():
                assert values == [b"%d" % number for number in range(partition, 90, 3)]
    finally:
        broker.stop()


def test_a_batch_that_is_too_large_is_refused(client: Client, topic: str) -> None:
    sender = BatchSender(client)
    sender.send(TopicPartition(topic, 0), inside(b"x" * 2_000_000), 1, 0)
    with pytest.raises(KafkaError, match=f"partition 0 of topic {topic}") as caught:
        sender.flush()
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_partition_that_does_not_exist_is_refused(client: Client, topic: str) -> None:
    sender = BatchSender(client)
    with pytest.raises(KafkaError, match=f"topic {topic} has no partition 7"):
        sender.send(TopicPartition(topic, 7), inside(b"x"), 1, 0)
