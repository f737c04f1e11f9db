"""What every client can rely on, client by client, with its default settings."""

from collections.abc import Callable

import pytest

from testkit.batches import now_ms
from testkit.clients.base import CODECS, Client, Message, Received
from testkit.clients.confluent import Confluent
from tests.e2e.conftest import Topics

MEGABYTE = 1024 * 1024

SHAPES = [
    Message(b"keyless"),
    Message(b"keyed", key=b"key"),
    Message(b"empty key", key=b""),
    Message(b"", key=b"empty value"),
    Message(b""),
    Message(None, key=b"null value"),
    Message(b"headed", headers=(("trace", b"1"), ("trace", b"2"), ("other", b"3"))),
    Message(b"keyed and headed", key=b"key", headers=(("a", b"b"),)),
    Message(b"oddly headed", headers=(("empty", b""), ("ünïcode", b"x"))),
]


def content(received: Received) -> Message:
    """A received record as it was produced."""
    return Message(received.value, received.key, received.headers)


def placed(messages: list[Message], partition: int = 0) -> list[Message]:
    """The same messages, sent to one partition."""
    return [Message(m.value, m.key, m.headers, m.timestamp, partition) for m in messages]


def test_a_topic_can_be_created_and_used(client: Client, new_name: Callable[[], str]) -> None:
    name = new_name()
    client.create_topic(name)
    client.produce(name, [Message(b"first", partition=0)])
    assert client.offsets(name, 0) == (0, 1)


def test_every_shape_of_record_comes_back_as_it_was(client: Client, topic: str) -> None:
    shapes = [shape for shape in SHAPES if client.can_send(shape)]
    places = client.produce(topic, placed(shapes))
    assert [place.offset for place in places] == list(range(len(shapes)))
    received = client.consume(topic, 0, 0, len(shapes))
    assert [content(record) for record in received] == shapes
    assert [record.offset for record in received] == list(range(len(shapes)))


def test_null_header_values_are_read(client: Client, bootstrap: str, topic: str) -> None:
    message = Message(b"x", headers=(("null", None), ("a", b"b")))
    Confluent(bootstrap).produce(topic, placed([message]))
    (received,) = client.consume(topic, 0, 0, 1)
    assert content(received) == message


@pytest.mark.parametrize("codec", CODECS)
def test_what_one_client_compresses_any_client_reads(
    producing: Client, consuming: Client, codec: str, topic: str
) -> None:
    messages = [Message(b"compressible " * 50 + str(n).encode()) for n in range(100)]
    producing.produce(topic, placed(messages), codec=codec)
    received = consuming.consume(topic, 0, 0, len(messages))
    assert [content(record) for record in received] == messages


@pytest.mark.parametrize("size", [1, 1000, MEGABYTE, 10 * MEGABYTE])
def test_values_from_one_byte_to_ten_megabytes(
    client: Client, size: int, new_topic: Topics
) -> None:
    topic = new_topic(max_message_bytes=str(11 * MEGABYTE))
    value = bytes(range(1, 26)) * (size // 25) + b"x" * (size % 25)
    client.produce(topic, [Message(value, partition=0)], largest=11 * MEGABYTE)
    (received,) = client.consume(topic, 0, 0, 1, largest=11 * MEGABYTE)
    assert received.value == value


def test_many_partitions_each_keep_their_own_order(client: Client, new_topic: Topics) -> None:
    topic = new_topic(partitions=20)
    messages = [Message(str(n).encode(), partition=n // 10) for n in range(200)]
    places = client.produce(topic, messages)
    assert [(p.partition, p.offset) for p in places] == [(n // 10, n % 10) for n in range(200)]
    for partition in (0, 7, 19):
        received = client.consume(topic, partition, 0, 10)
        first = 10 * partition
        assert [int(r.value or b"") for r in received] == list(range(first, first + 10))


def test_reading_starts_where_it_is_asked_to(client: Client, topic: str) -> None:
    client.produce(topic, [Message(str(n).encode(), partition=0) for n in range(50)])
    received = client.consume(topic, 0, 37, 3)
    assert [(r.offset, r.value) for r in received] == [(37, b"37"), (38, b"38"), (39, b"39")]


def test_offsets_say_where_a_partition_begins_and_ends(client: Client, topic: str) -> None:
    assert client.offsets(topic, 0) == (0, 0)
    client.produce(topic, [Message(partition=0)] * 7)
    assert client.offsets(topic, 0) == (0, 7)


def test_an_idempotent_producer_writes_each_message_once(client: Client, topic: str) -> None:
    messages = [Message(str(n).encode(), partition=0) for n in range(1000)]
    places = client.produce(topic, messages, idempotent=True)
    assert [place.offset for place in places] == list(range(1000))
    received = client.consume(topic, 0, 0, 1000)
    assert [int(r.value or b"") for r in received] == list(range(1000))
    assert client.offsets(topic, 0) == (0, 1000)


def test_seek_by_time_finds_the_first_record_at_or_after(
    client: Client, time_setting_client: Client, topic: str
) -> None:
    start = now_ms() - 1_000_000
    time_setting_client.produce(
        topic, [Message(timestamp=start + 1000 * n, partition=0) for n in range(20)]
    )
    assert client.offset_at_time(topic, 0, start - 1) == 0
    assert client.offset_at_time(topic, 0, start + 5000) == 5
    assert client.offset_at_time(topic, 0, start + 5001) == 6
    assert client.offset_at_time(topic, 0, start + 19_001) is None
    (received,) = client.consume(topic, 0, 5, 1)
    assert received.timestamp == start + 5000


def test_keyless_messages_reach_partitions_without_being_told(
    client: Client, new_topic: Topics
) -> None:
    topic = new_topic(partitions=4)
    places = client.produce(topic, [Message(str(n).encode()) for n in range(40)])
    assert sum(client.offsets(topic, p)[1] for p in range(4)) == 40
    assert {place.partition for place in places} <= set(range(4))


def test_equal_keys_stay_in_one_partition(client: Client, new_topic: Topics) -> None:
    topic = new_topic(partitions=8)
    keys = [b"a", b"b", b"c", b"d"]
    places = client.produce(topic, [Message(key=keys[n % 4]) for n in range(40)])
    for number, key in enumerate(keys):
        assert len({p.partition for p in places[number::4]}) == 1, key
