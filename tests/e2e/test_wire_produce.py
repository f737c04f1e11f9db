"""Produce: what is written, and each way in which a batch or a request can be refused."""

from collections.abc import Callable
from uuid import uuid4

import cramjam
import pytest

from ottla.log.validation.checks import restamp_attributes
from ottla.records import Codec
from ottla.wire.batch import HEADER_SIZE, read_header
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from testkit.batches import Batch, Plain, now_ms, values
from testkit.raw import Connection
from tests.e2e.asking import (
    EARLIEST,
    MAX_TIMESTAMP,
    PRODUCE,
    From,
    end_offset,
    fetch,
    list_offset,
    produce,
    produce_request,
)
from tests.e2e.asking_groups import coordinated
from tests.e2e.asking_transactions import new_transactional_producer
from tests.e2e.conftest import Topics, describe
from tests.stalls.bombs import bomb

LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
ZSTD = 4
TRANSACTION_NOT_ALLOWED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
MAGIC_1_MESSAGE = bytes.fromhex(
    "0000000000000000 00000016 00000000 01 00 0000000000000000 ffffffff 00000000"
)


def produce_one(
    connection: Connection, topic: str, records: bytes | None, version: int = 12
) -> PartitionProduceResponse:
    """Produce one partition's bytes, and see that the log grows only without an error."""
    before = end_offset(connection, topic)
    answer = produce(connection, topic, records, version=version)
    if answer.error_code:
        assert end_offset(connection, topic) == before
        assert answer.base_offset == -1
    return answer


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_is_served(connection: Connection, topic: str, version: int) -> None:
    answer = produce(connection, topic, values(b"one", b"two"), version=version)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert answer.log_append_time_ms == -1
    if version >= 5:
        assert answer.log_start_offset == 0
    assert produce(connection, topic, values(b"three"), version=version).base_offset == 2


def test_version_13_names_topics_by_id(connection: Connection, topic: str) -> None:
    topic_id = describe(connection, topic).topic_id
    request = produce_request("", values(b"by id"), topic_id=topic_id)
    answer = connection.ask(request, ProduceResponse, 13).responses[0]
    assert answer.topic_id == topic_id
    assert answer.partition_responses[0].error_code == 0
    unknown = produce_request("", values(b"by id"), topic_id=uuid4())
    answer = connection.ask(unknown, ProduceResponse, 13).responses[0]
    assert answer.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("acks", [1, -1])
def test_a_batch_is_stamped_with_its_place(connection: Connection, topic: str, acks: int) -> None:
    produce(connection, topic, values(b"before"), acks=acks)
    sent = Batch([Plain(b"a"), Plain(b"b")], leader_epoch=55).build()
    assert produce(connection, topic, sent, acks=acks).base_offset == 1
    stored = fetch(connection, From(topic, 1)).records
    assert stored is not None
    assert stored[:8] == (1).to_bytes(8, "big")
    assert stored[12:16] == (0).to_bytes(4, "big")
    assert (stored[8:12], stored[16:]) == (sent[8:12], sent[16:])


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused(connection: Connection, topic: str, acks: int) -> None:
    answer = produce(connection, topic, values(b"x"), acks=acks)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert end_offset(connection, topic) == 0


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
def test_an_unknown_partition_is_refused(
    connection: Connection, topic: str, partition: int
) -> None:
    answer = produce(connection, topic, values(b"x"), partition)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unknown_topic_is_refused_and_not_made(
    connection: Connection, new_name: Callable[[], str]
) -> None:
    name = new_name()
    answer = produce(connection, name, values(b"x"))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(connection, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


REFUSED: dict[str, tuple[Callable[[], bytes | None], ErrorCode]] = {
    "magic 1": (lambda: MAGIC_1_MESSAGE, ErrorCode.INVALID_RECORD),
    "no records": (lambda: b"", ErrorCode.INVALID_RECORD),
    "two batches": (lambda: values(b"a") + values(b"b"), ErrorCode.INVALID_RECORD),
    "control batch": (lambda: Batch(attributes=CONTROL).build(), ErrorCode.INVALID_RECORD),
    "count too small": (
        lambda: Batch([Plain(), Plain()], count=1, last_offset_delta=1).build(),
        ErrorCode.INVALID_RECORD,
    ),
    "count too large": (
        lambda: Batch([Plain(), Plain()], count=3, last_offset_delta=1).build(),
        ErrorCode.INVALID_RECORD,
    ),
    "more records than bytes": (lambda: Batch(count=1_000_000).build(), ErrorCode.INVALID_RECORD),
    "count negative": (
        lambda: Batch(count=-1, last_offset_delta=0).build(),
        ErrorCode.INVALID_RECORD,
    ),
    "last offset delta negative": (
        lambda: Batch(count=0, last_offset_delta=-1).build(),
        ErrorCode.INVALID_RECORD,
    ),
    "wrong crc": (lambda: Batch(crc=1).build(), ErrorCode.CORRUPT_MESSAGE),
    "base offset other than 0": (lambda: Batch(base_offset=5).build(), ErrorCode.INVALID_RECORD),
    "trailing bytes": (lambda: values(b"a") + b"\0" * 20, ErrorCode.CORRUPT_MESSAGE),
    "cut short": (lambda: values(b"abcdef")[:-3], ErrorCode.INVALID_RECORD),
    "length too small": (lambda: Batch(length=10).build(), ErrorCode.CORRUPT_MESSAGE),
    "length negative": (lambda: Batch(length=-5).build(), ErrorCode.CORRUPT_MESSAGE),
    "far future": (
        lambda: Batch(base_timestamp=now_ms() + 2 * 3_600_000).build(),
        ErrorCode.INVALID_TIMESTAMP,
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_by_its_own_error(
    connection: Connection, topic: str, what: str
) -> None:
    build, expected = REFUSED[what]
    assert produce_one(connection, topic, build()).error_code == expected


def test_zstd_needs_version_7(connection: Connection, topic: str) -> None:
    plain = Batch([Plain(b"compressed")]).build()
    packed = bytes(cramjam.zstd.compress(plain[61:]))
    records = Batch([Plain()], payload=packed, attributes=ZSTD).build()
    refused = produce_one(connection, topic, records, version=6)
    assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce_one(connection, topic, records, version=7).error_code == 0


def test_a_batch_larger_than_the_topics_limit_is_refused(
    connection: Connection, new_topic: Topics
) -> None:
    topic = new_topic(max_message_bytes="1000")
    just_right = Batch([Plain(b"x" * 900)]).build()
    too_large = Batch([Plain(b"x" * 1000)]).build()
    assert produce_one(connection, topic, just_right).error_code == 0
    answer = produce_one(connection, topic, too_large)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert answer.log_start_offset == -1  # as in Kafka, which looked at the batch alone


def test_the_limit_counts_the_whole_batch(connection: Connection, new_topic: Topics) -> None:
    batch = values(b"x" * 500)
    exact = new_topic(max_message_bytes=str(len(batch)))
    smaller = new_topic(max_message_bytes=str(len(batch) - 1))
    assert produce(connection, exact, batch).error_code == 0
    assert produce(connection, smaller, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_log_append_time_is_the_brokers(connection: Connection, new_topic: Topics) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before = now_ms()
    answer = produce(connection, topic, Batch(base_timestamp=12345).build())
    assert before <= answer.log_append_time_ms <= now_ms()
    stored = fetch(connection, From(topic)).records
    assert stored is not None
    assert int.from_bytes(stored[21:23], "big") & LOG_APPEND_TIME
    assert int.from_bytes(stored[35:43], "big") == answer.log_append_time_ms


@pytest.mark.parametrize("compressed", [False, True])
def test_a_largest_timestamp_that_the_client_left_out_is_found(
    connection: Connection, new_topic: Topics, compressed: bool
) -> None:
    topic = new_topic()
    now = now_ms()
    batch = Batch([Plain(b"a"), Plain(b"b", timestamp_delta=500)], base_timestamp=now)
    batch.max_timestamp = -1
    if compressed:
        payload = batch.build()[HEADER_SIZE:]
        batch.payload, batch.attributes = bytes(cramjam.gzip.compress(payload)), 1
    assert produce(connection, topic, batch.build()).error_code == 0
    assert list_offset(connection, topic, now + 100).offset == 1
    assert list_offset(connection, topic, MAX_TIMESTAMP).timestamp == now + 500


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_nobody_but_coordinators_writes_to_internal_topics(
    connection: Connection, topic: str
) -> None:
    # They are there once someone has asked for a coordinator.
    coordinated(connection, "of-internal-topics")
    new_transactional_producer(connection, "of-internal-topics")
    batch = Batch([Plain(b"v", key=b"k")]).build()
    assert produce(connection, topic, batch).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_old_timestamps_are_refused_where_the_topic_says_so(
    connection: Connection, new_topic: Topics
) -> None:
    topic = new_topic(message_timestamp_before_max_ms="60000")
    old = Batch(base_timestamp=now_ms() - 120_000).build()
    answer = produce_one(connection, topic, old)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [0]
    assert produce_one(connection, topic, values(b"now")).error_code == 0


def test_records_without_keys_are_refused_by_a_compacted_topic(
    connection: Connection, new_topic: Topics
) -> None:
    topic = new_topic(cleanup_policy="compact")
    keyed = Batch([Plain(b"v", key=b"k")]).build()
    assert produce_one(connection, topic, keyed).error_code == 0
    answer = produce_one(connection, topic, values(b"keyless"))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0]


def test_one_bad_partition_does_not_stop_the_others(
    connection: Connection, new_topic: Topics
) -> None:
    topic, other = new_topic(partitions=2), new_topic()
    parts = [
        TopicProduceData(
            name=topic,
            partition_data=[
                PartitionProduceData(index=0, records=values(b"good")),
                PartitionProduceData(index=1, records=Batch(crc=1).build()),
                PartitionProduceData(index=7, records=values(b"nowhere")),
            ],
        ),
        TopicProduceData(
            name=other, partition_data=[PartitionProduceData(index=0, records=values(b"good"))]
        ),
    ]
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=parts)
    answer = connection.ask(request, ProduceResponse, 12)
    errors = {
        (topic_answer.name, part.index): part.error_code
        for topic_answer in answer.responses
        for part in topic_answer.partition_responses
    }
    assert errors == {
        (topic, 0): 0,
        (topic, 1): ErrorCode.CORRUPT_MESSAGE,
        (topic, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (other, 0): 0,
    }


def test_a_transactional_batch_without_a_transaction_is_refused(
    connection: Connection, topic: str
) -> None:
    batch = Batch(attributes=TRANSACTIONAL, producer_id=-1).build()
    assert produce_one(connection, topic, batch).error_code == TRANSACTION_NOT_ALLOWED


def test_the_log_starts_at_zero(connection: Connection, topic: str) -> None:
    produce(connection, topic, values(b"x"))
    assert list_offset(connection, topic, EARLIEST).offset == 0


@pytest.mark.parametrize("codec", range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_body_that_no_consumer_could_read_is_refused(
    connection: Connection, topic: str, codec: int
) -> None:
    hostile = bytearray(bomb(Codec(codec), 1000, now_ms(), keyed=False, max_timestamp=now_ms()))
    hostile[HEADER_SIZE:] = b"\xee" * (len(hostile) - HEADER_SIZE)
    restamp_attributes(memoryview(hostile), codec)
    answer = produce_one(connection, topic, bytes(hostile))
    assert answer.error_code == ErrorCode.INVALID_RECORD


def test_a_batch_behind_a_long_one_is_appended_behind_it(
    connection: Connection, new_topic: Topics
) -> None:
    topic = new_topic(cleanup_policy="compact")
    long = bomb(Codec.ZSTD, 4 << 20, now_ms(), keyed=True, max_timestamp=now_ms())
    count = read_header(memoryview(long)).record_count
    short = Batch([Plain(key=b"k", value=b"v")]).build()
    for data in (long, short):
        connection.send(produce_request(topic, data), PRODUCE)
    answers = [connection.receive(ProduceResponse, PRODUCE)[1] for _ in range(2)]
    found = [answer.responses[0].partition_responses[0] for answer in answers]
    assert [each.error_code for each in found] == [0, 0]
    assert [each.base_offset for each in found] == [0, count]
