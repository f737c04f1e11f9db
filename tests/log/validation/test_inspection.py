"""Where a log looks into batches: bodies that are not records, long ones, untrue headers."""

import pytest

from ottla.log.config import LogConfig
from ottla.log.storage.page_cache import ColdReadError, read_stretch
from ottla.log.validation.checks import restamp_attributes
from ottla.log.validation.inspection import LongBodyError
from ottla.records import Codec, Record, decode_batch, encode_batch
from ottla.records.batches import sealed
from ottla.wire.batch import read_header
from ottla.wire.errors import ErrorCode, KafkaError
from tests.log.compacting import compacted, keyed, offsets
from tests.log.making import NOW, Logs, append, batch, read_headers
from tests.stalls.bombs import bomb

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), delete_retention_ms=1000)
LONG = 1 << 20


def spoiled(codec: Codec) -> memoryview:
    """A batch with a right CRC whose body is something else."""
    found = batch(3, codec=codec)
    found[61:] = b"\xee" * (len(found) - 61)
    restamp_attributes(found, codec)
    return found


def refusal(logs: Logs, data: memoryview, config: LogConfig | None = None) -> ErrorCode:
    log = logs.open(config)
    with pytest.raises(KafkaError) as refused:
        append(log, data)
    assert (log.end_offset, log.size) == (0, 0)
    return refused.value.code


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
def test_a_body_that_is_not_records_or_not_in_its_codec_is_an_invalid_record(
    logs: Logs, codec: Codec
) -> None:
    assert refusal(logs, spoiled(codec)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("change", [-1, 1], ids=["fewer", "more"])
def test_a_count_that_is_not_that_of_the_records_is_an_invalid_record(
    logs: Logs, change: int
) -> None:
    whole = batch(5)
    count = 5 + change
    data = sealed(
        bytes(whole[61:]),
        count,
        last_offset_delta=count - 1,
        base_timestamp=NOW,
        max_timestamp=NOW + 4,
    )
    assert refusal(logs, memoryview(bytearray(data))) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_more_records_than_a_frame_can_hold_are_refused_before_it_is_decompressed(
    logs: Logs, codec: Codec
) -> None:
    body = bytes(batch(2, codec=codec)[61:])
    count = 2**31 - 2
    data = sealed(
        body,
        count,
        codec=codec,
        last_offset_delta=count - 1,
        base_timestamp=NOW,
        max_timestamp=NOW,
    )
    assert refusal(logs, memoryview(bytearray(data))) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("wrong", [-1, NOW - 5, NOW + 500])
def test_the_header_of_an_uncompressed_batch_gets_the_largest_timestamp_of_its_records(
    logs: Logs, wrong: int
) -> None:
    log = logs.open()
    data = sealed(
        bytes(batch(4)[61:]), 4, last_offset_delta=3, base_timestamp=NOW, max_timestamp=wrong
    )
    append(log, memoryview(bytearray(data)))
    assert read_headers(log)[0].max_timestamp == NOW + 3


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("why", ["keys", "timestamp", "codec"])
def test_a_long_body_is_looked_into_elsewhere_and_then_appended(
    logs: Logs, codec: Codec, why: str
) -> None:
    target = "gzip" if codec is not Codec.GZIP else "zstd"
    config = {"keys": COMPACT, "codec": LogConfig(compression_type=target)}.get(why, LogConfig())
    log = logs.open(config)
    largest = -1 if why == "timestamp" else NOW
    data = memoryview(bytearray(bomb(codec, LONG, NOW, keyed=True, max_timestamp=largest)))
    with pytest.raises(LongBodyError) as long:
        log.append(data, now=NOW, leader_epoch=0, may_wait=False)
    assert log.end_offset == 0
    looked = long.value.look(data)
    log.append(data, now=NOW, leader_epoch=0, looked=looked, may_wait=False)
    (header,) = read_headers(log)
    assert header.max_timestamp == NOW
    assert header.codec == (Codec[target.upper()] if why == "codec" else codec)


def test_a_recompressed_batch_gets_its_largest_timestamp_too(logs: Logs) -> None:
    log = logs.open(LogConfig(compression_type="zstd"))
    records = [Record(at, NOW + at, None, b"x") for at in range(3)]
    data = bytearray(encode_batch(records, codec=Codec.GZIP))
    header = read_header(memoryview(data))
    again = sealed(
        bytes(data[61:]),
        3,
        codec=Codec.GZIP,
        last_offset_delta=2,
        base_timestamp=NOW,
        max_timestamp=-1,
    )
    assert header.max_timestamp == NOW + 2
    append(log, memoryview(bytearray(again)))
    (stored,) = read_headers(log)
    assert (stored.codec, stored.max_timestamp) == (Codec.ZSTD, NOW + 2)
    found = log.read(0, 10_000, 3, True)
    assert found is not None
    stretch = log.files.pread(found.file.fd, found.size, found.position)
    found.file.unpin()
    assert [record.timestamp for record in decode_batch(stretch)] == [NOW, NOW + 1, NOW + 2]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_a_time_in_a_long_batch_is_looked_for_elsewhere(logs: Logs, codec: Codec) -> None:
    log = logs.open()
    data = bomb(codec, LONG, NOW, keyed=False, max_timestamp=NOW + 10)
    append(log, memoryview(bytearray(data)))
    append(log, batch(timestamp=NOW + 20))
    with pytest.raises(ColdReadError) as cold:
        log.offset_for_timestamp(NOW + 5, log.end_offset, may_wait=False)
    cold.value.hold()
    cold.value.read()
    cold.value.release()
    found = log.offset_for_timestamp(NOW + 5, log.end_offset, may_wait=False)
    assert found == (NOW + 20, log.end_offset - 1, 0)


def test_compaction_keeps_a_batch_that_it_cannot_read_and_continues(logs: Logs) -> None:
    log = logs.open(COMPACT)
    append(log, keyed(("a", "1")))
    log.append(spoiled(Codec.NONE), now=NOW, leader_epoch=0, from_client=False)
    append(log, keyed(("a", "2")))
    append(log, keyed(("b", "3")))
    log.roll(NOW)
    finished = compacted(log)
    assert finished.unread == 1
    assert [header.base_offset for header in read_headers(log)] == [1, 4, 5]


def test_tombstones_behind_an_unread_batch_stay(logs: Logs) -> None:
    log = logs.open(COMPACT)
    log.append(spoiled(Codec.NONE), now=NOW, leader_epoch=0, from_client=False)
    append(log, keyed(("a", None)))
    append(log, keyed(("b", "3")))
    log.roll(NOW)
    first_dirty = compacted(log).first_dirty
    append(log, keyed(("c", "4"), timestamp=NOW + 5000))
    log.roll(NOW + 5000)
    compacted(log, first_dirty, now=NOW + 5000)
    assert [header.base_offset for header in read_headers(log)] == [0, 3, 4, 5]


def test_a_batch_with_too_many_records_is_left_alone_by_compaction(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.log.compaction.records.MOST_RECORDS", 2)
    log = logs.open(COMPACT)
    append(log, keyed(("a", "1"), ("b", "1"), ("c", "1")))
    append(log, keyed(("a", "2")))
    log.roll(NOW)
    assert compacted(log).unread == 1
    assert offsets(log) == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [10, 300_000], ids=["short", "long"])
@pytest.mark.parametrize("target", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
def test_a_topic_has_the_codec_it_wants_whatever_the_producer_chose(
    logs: Logs, codec: Codec, target: str, size: int
) -> None:
    log = logs.open(LogConfig(compression_type=target))
    sent = batch(3, codec=codec, size=size)
    append(log, sent[:])
    (header,) = read_headers(log)
    assert header.codec == (Codec.NONE if target == "uncompressed" else Codec[target.upper()])
    values = [record.value for record in decode_batch(sent)]
    found = log.read(0, 1 << 30, log.end_offset, whole_first=True)
    assert found is not None
    assert [record.value for record in decode_batch(read_stretch(found))] == values
    found.file.unpin()
