"""Transaction markers, with one from Apache Kafka's own log."""

import pytest

from ottla.records import Record, encode_batch
from ottla.records.control import Marker, MarkerType, decode_marker, encode_marker
from ottla.wire.batch import read_header
from ottla.wire.errors import ErrorCode, KafkaError

from .captured import COMMIT_MARKER

NOW = 1_700_000_000_000


def test_a_marker_is_what_kafka_writes() -> None:
    kafkas = bytes.fromhex(COMMIT_MARKER)
    marker = Marker(MarkerType.COMMIT, coordinator_epoch=0, producer_id=79, producer_epoch=0)
    assert decode_marker(kafkas) == marker
    timestamp = read_header(memoryview(kafkas)).base_timestamp
    assert encode_marker(marker, timestamp, base_offset=1, leader_epoch=0) == kafkas


@pytest.mark.parametrize("kind", MarkerType)
def test_a_marker_is_read_again(kind: MarkerType) -> None:
    marker = Marker(kind, coordinator_epoch=3, producer_id=2**40, producer_epoch=7)
    batch = encode_marker(marker, NOW, base_offset=12)
    header = read_header(memoryview(batch))
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    assert decode_marker(batch) == marker


def test_later_schema_versions_are_read_as_this_one() -> None:
    later = Record(0, NOW, b"\x00\x01\x00\x00more", b"\x00\x01\x00\x00\x00\x09more")
    assert decode_marker(encode_batch([later], control=True)).coordinator_epoch == 9


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\x00\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x00", None),
        (b"\x00\x00\x00", b"\x00\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x00"),  # a leader change
        (b"\xff\xff\x00\x00", b"\x00\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x00", b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_an_invalid_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(KafkaError) as refused:
        decode_marker(encode_batch([Record(0, NOW, key, value)], control=True))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_of_data_is_no_marker() -> None:
    record = Record(0, NOW, b"\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\x00")
    for batch in (
        encode_batch([record]),
        encode_batch([record, record._replace(offset=1)], control=True),
    ):
        with pytest.raises(KafkaError) as refused:
            decode_marker(batch)
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
