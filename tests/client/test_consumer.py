import pytest

from ottla.client import (
    Client,
    ClientSettings,
    KafkaError,
    OffsetOutOfRange,
    Producer,
    Reader,
    TopicPartition,
)
from ottla.client.admin import Admin
from ottla.embedded import Broker
from ottla.records import decode_batch
from ottla.wire.errors import ErrorCode


def fill(client: Client, topic: str, count: int, batch_bytes: int = 1) -> None:
    with Producer(client, batch_bytes=batch_bytes) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=0)


def values(reader: Reader) -> list[bytes | None]:
    return [record.value for batch in reader for record in batch.records]


def test_reading_starts_and_ends_where_it_was_told_even_inside_a_batch(
    client: Client, topic: str
) -> None:
    fill(client, topic, 100, batch_bytes=1000)
    where = TopicPartition(topic, 0)
    with Reader(client, {where: 13}, until={where: 77}) as reader:
        assert values(reader) == [b"%d" % number for number in range(13, 77)]
        assert reader.finished
        assert reader.poll() == []


def test_small_replies_give_the_same_records(client: Client, topic: str) -> None:
    fill(client, topic, 50)
    where = TopicPartition(topic, 0)
    with Reader(client, {where: 0}, until={where: 50}, partition_max_bytes=1) as reader:
        assert values(reader) == [b"%d" % number for number in range(50)]


def test_all_partitions_are_read(client: Client, topic: str) -> None:
    with Producer(client) as producer:
        for number in range(30):
            producer.send(topic, b"%d" % number, partition=number % 3)
    wanted = Admin(client).partitions(topic)
    with Reader(client, dict.fromkeys(wanted, 0), until=dict.fromkeys(wanted, 10)) as reader:
        assert sorted(values(reader), key=lambda value: int(value or b"")) == [
            b"%d" % number for number in range(30)
        ]
        assert set(reader.high_watermarks.values()) == {10}


def test_a_reader_without_an_end_sees_what_comes_later(client: Client, topic: str) -> None:
    where = TopicPartition(topic, 0)
    with Reader(client, {where: 0}, max_wait=0.01) as reader:
        assert reader.poll() == []
        fill(client, topic, 1)
        assert next(iter(reader)).records[0].value == b"0"
        assert not reader.finished


def test_an_empty_range_is_finished_at_once(client: Client, topic: str) -> None:
    where = TopicPartition(topic, 0)
    with Reader(client, {where: 0}, until={where: 0}) as reader:
        assert reader.finished
        assert list(reader) == []


def test_an_offset_that_does_not_exist_is_for_the_caller_to_decide(
    client: Client, topic: str
) -> None:
    with (
        Reader(client, {TopicPartition(topic, 0): 5}) as reader,
        pytest.raises(OffsetOutOfRange) as caught,
    ):
        list(reader)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (topic, 0, 5)


def test_a_deleted_topic_ends_the_reader(ottla_broker: Broker, topic: str) -> None:
    settings = ClientSettings(
        bootstrap_servers=ottla_broker.bootstrap_servers, deadline=0.2, backoff=0.01
    )
    with Client(settings) as client, Reader(client, {TopicPartition(topic, 0): 0}) as reader:
        Admin(client).delete_topic(topic)
        with pytest.raises(KafkaError):
            list(reader)


def test_raw_batches_say_what_of_them_was_asked_for(client: Client, topic: str) -> None:
    fill(client, topic, 10, batch_bytes=1 << 20)
    where = TopicPartition(topic, 0)
    with Reader(client, {where: 3}, until={where: 8}) as reader:
        (raw,) = reader.poll_raw()
    assert (raw.start, raw.stop, raw.header.record_count) == (3, 8, 10)
    assert len(decode_batch(raw.data)) == 10


def test_reading_continues_after_the_broker_was_down(topic: str, client: Client) -> None:
    fill(client, topic, 10)
    where = TopicPartition(topic, 0)
    with Reader(client, {where: 0}, until={where: 10}, partition_max_bytes=1) as reader:
        read = [record.value for batch in reader.poll() for record in batch.records]
        for connection in reader._connections.values():
            connection.close()
        assert read + values(reader) == [b"%d" % number for number in range(10)]


def test_a_partition_that_does_not_exist_is_refused(client: Client, topic: str) -> None:
    with (
        Reader(client, {TopicPartition(topic, 9): 0}) as reader,
        pytest.raises(KafkaError) as caught,
    ):
        reader.poll()
    assert caught.value.code == ErrorCode.INVALID_PARTITIONS
