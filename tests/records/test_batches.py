"""Batches and their records, with kafka-python and captured bytes as oracles."""

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import (  # type: ignore[import-untyped]  # it has no stubs
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
)

from ottla.records import Codec, Record, decode_batch, encode_batch
from ottla.records.record import varint
from ottla.wire.batch import HEADER_SIZE, crc_is_right, read_header
from ottla.wire.errors import ErrorCode, KafkaError

from .captured import JAVA_CLIENT_4_3, LIBRDKAFKA
from .kernels import NOW, record_lists


def plain(records: list[Record]) -> list[tuple[object, ...]]:
    return [(*record[:4], [tuple(header) for header in record.headers]) for record in records]


@settings(deadline=None)
@given(
    records=record_lists(),
    codec=st.sampled_from(Codec),
    before=st.integers(0, 1000),
    transactional=st.booleans(),
)
def test_what_is_written_is_read_again(
    records: list[Record], codec: Codec, before: int, transactional: bool
) -> None:
    base_offset = max(0, records[0].offset - before)
    batch = encode_batch(
        records,
        base_offset=base_offset,
        codec=codec,
        leader_epoch=3,
        producer_id=4,
        producer_epoch=5,
        base_sequence=6,
        transactional=transactional,
    )
    header = read_header(memoryview(batch))
    assert crc_is_right(memoryview(batch), header)
    assert (header.size, header.magic, header.codec) == (len(batch), 2, codec)
    assert (header.base_offset, header.last_offset) == (base_offset, records[-1].offset)
    assert (header.leader_epoch, header.producer_id, header.producer_epoch) == (3, 4, 5)
    assert (header.base_sequence, header.record_count) == (6, len(records))
    assert (header.is_transactional, header.is_control) == (transactional, False)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert plain(decode_batch(batch)) == plain(records)


@settings(deadline=None)
@given(records=record_lists())
def test_batches_are_the_bytes_that_kafka_python_makes(records: list[Record]) -> None:
    records = [record._replace(offset=index) for index, record in enumerate(records)]
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=7,
        producer_epoch=1,
        base_sequence=9,
        batch_size=10**9,
    )
    for record in records:
        builder.append(*record[:4], list(record.headers))
    theirs = bytearray(builder.build())
    # kafka-python leaves 0 where a producer has no leader epoch to say; Kafka's client says -1.
    theirs[12:16] = b"\xff" * 4
    assert encode_batch(records, producer_id=7, producer_epoch=1, base_sequence=9) == theirs


@settings(deadline=None)
@given(records=record_lists(), codec=st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4]))
def test_kafka_python_reads_our_batches(records: list[Record], codec: Codec) -> None:
    batch = DefaultRecordBatch(encode_batch(records, codec=codec, base_offset=records[0].offset))
    assert batch.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch]
    assert plain(read) == plain(records)


@pytest.mark.parametrize("client", [JAVA_CLIENT_4_3, LIBRDKAFKA])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_batches_of_other_clients_are_read(client: dict[Codec, str], codec: Codec) -> None:
    batch = bytes.fromhex(client[codec])
    header = read_header(memoryview(batch))
    expected = [
        Record(0, header.base_timestamp, b"a", b"spam " * 20),
        Record(1, header.max_timestamp, b"b", b"eggs " * 20),
    ]
    assert plain(decode_batch(batch)) == plain(expected)


def test_the_brokers_append_time_is_the_timestamp_of_all_records() -> None:
    records = [Record(0, NOW, None, b"a"), Record(1, NOW + 5, None, b"b")]
    appended = encode_batch(records, append_time=NOW + 9)
    assert [record.timestamp for record in decode_batch(appended)] == [NOW + 9, NOW + 9]


def test_header_keys_that_are_not_text_survive() -> None:
    record = Record(0, NOW, None, None, [(b"\xff\x00k".decode("utf-8", "surrogateescape"), b"v")])
    batch = encode_batch([record])
    assert b"\xff\x00k" in batch
    assert encode_batch(decode_batch(batch)) == batch


@pytest.mark.parametrize(
    "records",
    [
        [],
        [Record(5, NOW, None, None), Record(5, NOW, None, None)],
        [Record(-1, NOW, None, None)],
        [Record(2**31, NOW, None, None)],
    ],
)
def test_records_that_fit_in_no_batch_are_refused(records: list[Record]) -> None:
    with pytest.raises(ValueError, match="batch"):
        encode_batch(records)


def corrupt(batch: bytes | bytearray, **limits: int) -> str:
    with pytest.raises(KafkaError) as refused:
        decode_batch(batch, **limits)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    return str(refused.value)


def refusal_of(batch: bytearray) -> ErrorCode | None:
    try:
        decode_batch(batch)
    except KafkaError as refused:
        return refused.code
    return None


def with_right_crc(batch: bytearray) -> bytearray:
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return batch


def batch_of(body: bytes, count: int = 1) -> bytearray:
    """A batch with a body of our choice."""
    batch = bytearray(encode_batch([Record(0, NOW, None, None)]))[:HEADER_SIZE] + body
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    return with_right_crc(batch)


def test_a_batch_cut_off_anywhere_is_refused() -> None:
    batch = encode_batch([Record(0, NOW, b"key", b"value", [("a", b"b")])])
    for length in range(len(batch)):
        corrupt(batch[:length])
    corrupt(batch + b"\x00")


def test_a_wrong_crc_is_refused() -> None:
    batch = bytearray(encode_batch([Record(0, NOW, b"key", b"value")]))
    batch[-3] ^= 1
    assert "CRC" in corrupt(batch)


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_magics_are_refused(magic: int) -> None:
    batch = bytearray(encode_batch([Record(0, NOW, b"key", b"value")]))
    batch[16] = magic
    assert "magic" in corrupt(batch)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b"", 1),
        (b"", -1),
        (b"", 2**31 - 1),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 2),  # one record of two
        (b"\x0c\x00\x00\x00\x01\x01\x00", 0),  # bytes after the last record
        (b"\x0a\x00\x00\x00\x01\x01\x00", 1),  # a size too small
        (b"\x0e\x00\x00\x00\x01\x01\x00", 1),  # a size past the end
        (b"\x0d\x00\x00\x00\x01\x01\x00", 1),  # a negative size
        (b"\x0c\x00\x00\x01\x01\x01\x00", 1),  # a negative offset delta
        (b"\x0c\x00\x00\x00\x03\x01\x00", 1),  # a key of minus two bytes
        (b"\x0c\x00\x00\x00\x7e\x01\x00", 1),  # a key past the end
        (b"\x0c\x00\x00\x00\x01\x01\x01", 1),  # minus one headers
        (b"\x0c\x00\x00\x00\x01\x01\x7e", 1),  # headers without bytes
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1),  # a header without a key
        (b"\xff\xff\xff\xff\xff\x01" + bytes(10), 1),  # a varint of six bytes
        (b"\xff\xff\xff\xff\x7f" + bytes(10), 1),  # a varint of more than 32 bits
        (b"\x1e\x00" + b"\xff" * 9 + b"\x7f" + b"\x00\x01\x01\x00", 1),  # of more than 64
    ],
)
def test_malformed_bodies_are_refused(body: bytes, count: int) -> None:
    corrupt(batch_of(body, count))


def test_a_timestamp_past_64_bits_is_refused() -> None:
    body = bytearray(b"\x00") + varint(2**63 - 1) + b"\x00\x01\x01\x00"
    corrupt(batch_of(varint(len(body)) + bytes(body)))


@settings(max_examples=400, deadline=None)
@given(
    codec=st.sampled_from(Codec),
    changes=st.lists(st.tuples(st.integers(0, 10**4), st.binary(max_size=3)), min_size=1),
)
def test_changed_bytes_are_read_or_refused(codec: Codec, changes: list[tuple[int, bytes]]) -> None:
    records = [Record(i, NOW + i, b"k" * i, b"v" * i * 5, [("h", b"x")]) for i in range(20)]
    batch = bytearray(encode_batch(records, codec=codec))
    for position, byte in changes:
        at = HEADER_SIZE + position % (len(batch) - HEADER_SIZE)
        batch[at : at + 1] = byte
        if len(batch) == HEADER_SIZE:
            break
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    assert refusal_of(with_right_crc(batch)) in (None, ErrorCode.CORRUPT_MESSAGE)


@settings(max_examples=200, deadline=None)
@given(attributes=st.integers(0, 255), body=st.binary(max_size=200), count=st.integers(-5, 30))
def test_random_bodies_are_read_or_refused(attributes: int, body: bytes, count: int) -> None:
    batch = batch_of(body, count)
    batch[22] = attributes
    assert refusal_of(with_right_crc(batch)) in (None, ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_is_larger_inside_than_allowed_is_refused(codec: Codec) -> None:
    batch = encode_batch([Record(0, NOW, None, bytes(1_000_000))], codec=codec)
    assert len(decode_batch(batch, largest_body=1_000_100)[0].value or b"") == 1_000_000
    corrupt(batch, largest_body=1_000_000)
