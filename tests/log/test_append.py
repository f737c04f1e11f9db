"""What the log takes from producers, what it refuses, and what it stamps into a batch."""

from struct import Struct

import pytest
from crc32c import crc32c

from ottla.log.config import LogConfig
from ottla.records import Codec, Record, decode_batch, encode_batch
from ottla.wire.batch import HEADER, LOG_APPEND_TIME, crc_is_right, read_header
from ottla.wire.errors import ErrorCode, KafkaError
from tests.log.making import NOW, Logs, append, batch, read_all, read_headers

E = ErrorCode
HOUR = 3_600_000


def changed(view: memoryview, *, fix_crc: bool = True, **fields: int) -> memoryview:
    """A batch with other values in its header."""
    header = read_header(view)._replace(**fields)
    data = bytearray(view)
    HEADER.pack_into(data, 0, *header)
    if fix_crc:
        Struct(">I").pack_into(data, 17, crc32c(bytes(data[21:])))
    return memoryview(data)


def code_of(
    logs: Logs, records: memoryview, config: LogConfig | None = None, *, version: int = 99
) -> ErrorCode:
    """With which code a batch is refused; it leaves no trace."""
    log = logs.open(config)
    with pytest.raises(KafkaError) as refused:
        log.append(records, now=NOW, leader_epoch=0, api_version=version)
    assert log.end_offset == 0
    assert log.size == 0
    return refused.value.code


def test_batches_get_consecutive_offsets_and_the_leaders_epoch(logs: Logs) -> None:
    log = logs.open()
    first, second = append(log, batch(3), leader_epoch=5), append(log, batch(2), leader_epoch=6)
    assert (first.base_offset, first.last_offset) == (0, 2)
    assert (second.base_offset, second.last_offset) == (3, 4)
    found = read_headers(log)
    assert [(each.base_offset, each.leader_epoch, each.record_count) for each in found] == [
        (0, 5, 3),
        (3, 6, 2),
    ]
    assert log.end_offset == 5
    assert log.epochs.entries() == [(5, 0), (6, 3)]


def test_a_batch_is_written_as_it_was_sent_apart_from_its_place(logs: Logs) -> None:
    log = logs.open()
    sent = bytes(batch(4, codec=Codec.GZIP))
    append(log, memoryview(bytearray(sent)))
    kept = read_all(log)
    assert kept[16:] == sent[16:]
    assert crc_is_right(memoryview(kept), read_header(memoryview(kept)))


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_passes_through(logs: Logs, codec: Codec) -> None:
    log = logs.open()
    append(log, batch(5, codec=codec))
    assert [record.offset for record in decode_batch(read_all(log))] == [0, 1, 2, 3, 4]


def test_records_as_small_as_can_be_are_taken(logs: Logs) -> None:
    log = logs.open()
    for codec in Codec:
        empty = encode_batch([Record(at, NOW, None, None) for at in range(10_000)], codec=codec)
        append(log, memoryview(bytearray(empty)))
    assert log.end_offset == 10_000 * len(Codec)


@pytest.mark.parametrize(
    "records",
    [
        b"",
        b"12345",
        bytes(batch())[:60],
        bytes(changed(batch(), length=500)),
        bytes(batch()) + bytes(batch()),
        bytes(changed(batch(), magic=0)),
        bytes(changed(batch(), magic=1)),
        bytes(changed(batch(), base_offset=5)),
        bytes(changed(batch(), attributes=0x20)),
        bytes(changed(batch(), record_count=2)),
        bytes(changed(batch(), record_count=0, last_offset_delta=-1)),
        bytes(changed(batch(), record_count=-1, last_offset_delta=-2)),
        bytes(changed(batch(3), last_offset_delta=5)),
        bytes(changed(batch(), producer_id=9, producer_epoch=0)),
        bytes(changed(batch(), record_count=2**31 - 1, last_offset_delta=2**31 - 2)),
        bytes(changed(batch(codec=Codec.ZSTD), record_count=2**30, last_offset_delta=2**30 - 1)),
    ],
    ids=[
        "empty",
        "too short for a length",
        "cut off",
        "longer than what came",
        "two batches",
        "magic 0",
        "magic 1",
        "base offset not 0",
        "control batch",
        "count above the offsets",
        "no records",
        "negative count",
        "offsets above the count",
        "producer without sequence",
        "more records than bytes",
        "more records than any codec packs",
    ],
)
def test_an_invalid_batch_of_a_client_is_an_invalid_record(logs: Logs, records: bytes) -> None:
    assert code_of(logs, memoryview(bytearray(records))) == E.INVALID_RECORD


@pytest.mark.parametrize(
    "records",
    [
        bytes(changed(batch(), crc=1, fix_crc=False)),
        bytes(batch())[:-1] + b"?",
        bytes(changed(batch(), length=49)),
        bytes(changed(batch(), length=48)),
        bytes(changed(batch(), length=13)),
        bytes(changed(batch(), length=-1)),
        bytes(changed(batch(), magic=3)),
        bytes(changed(batch(), magic=-1)),
        bytes(batch()) + bytes(12),
    ],
    ids=[
        "invalid CRC",
        "changed byte",
        "shorter than what came",
        "too small for a header",
        "too small for any record",
        "negative length",
        "magic 3",
        "magic -1",
        "twelve more bytes",
    ],
)
def test_bytes_that_do_not_fit_together_are_a_corrupt_message(logs: Logs, records: bytes) -> None:
    assert code_of(logs, memoryview(bytearray(records))) == E.CORRUPT_MESSAGE


@pytest.mark.parametrize("more", [b"\0", bytes(batch())[:40]], ids=["a byte", "half a batch"])
def test_what_follows_a_batch_and_is_none_is_not_kept(logs: Logs, more: bytes) -> None:
    log = logs.open()
    appended = log.append(memoryview(bytearray(bytes(batch()) + more)), now=NOW, leader_epoch=0)
    assert appended.base_offset == 0
    assert log.size == len(batch())


@pytest.mark.parametrize("version", [3, 6])
def test_zstd_needs_version_7_of_produce(logs: Logs, version: int) -> None:
    zstd = batch(codec=Codec.ZSTD)
    assert code_of(logs, zstd, version=version) == E.UNSUPPORTED_COMPRESSION_TYPE
    assert append(logs.open(), zstd).base_offset == 0


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(logs: Logs, codec: int) -> None:
    assert code_of(logs, changed(batch(), attributes=codec)) == E.UNSUPPORTED_COMPRESSION_TYPE


def test_sizes_are_bounded_by_max_message_bytes_and_by_segment_bytes(logs: Logs) -> None:
    large = batch(size=1000)
    small_message = LogConfig(max_message_bytes=len(large) - 1)
    assert code_of(logs, large, small_message) == E.MESSAGE_TOO_LARGE
    small_segment = LogConfig(segment_bytes=len(large) - 1)
    assert code_of(logs, large, small_segment) == E.RECORD_LIST_TOO_LARGE
    assert append(logs.open(LogConfig(max_message_bytes=len(large))), large).base_offset == 0


def test_timestamps_may_not_be_too_far_from_the_clock(logs: Logs) -> None:
    assert code_of(logs, batch(timestamp=NOW + HOUR + 1)) == E.INVALID_TIMESTAMP
    before = LogConfig(message_timestamp_before_max_ms=1000)
    assert code_of(logs, batch(timestamp=NOW - 1001), before) == E.INVALID_TIMESTAMP
    log = logs.open()
    append(log, batch(timestamp=NOW + HOUR))
    append(log, batch(timestamp=0))
    append(log, changed(batch(), base_timestamp=-1, max_timestamp=-1))
    log.set_config(LogConfig(message_timestamp_before_max_ms=1000))
    append(log, changed(batch(), base_timestamp=-1, max_timestamp=-1))


def test_a_refusal_for_a_timestamp_names_the_records_that_have_it(logs: Logs) -> None:
    sent = batch(3, timestamp=NOW + HOUR - 1)
    with pytest.raises(KafkaError) as refused:
        append(logs.open(), sent)
    assert [at for at, _ in refused.value.record_errors] == [2]


def test_with_log_append_time_the_brokers_clock_is_the_timestamp(logs: Logs) -> None:
    log = logs.open(LogConfig(message_timestamp_type="LogAppendTime"))
    appended = append(log, batch(3, timestamp=5))
    assert appended.append_time == NOW
    kept = memoryview(read_all(log))
    header = read_header(kept)
    assert (header.max_timestamp, header.is_log_append_time) == (NOW, True)
    assert crc_is_right(kept, header)
    assert {record.timestamp for record in decode_batch(kept)} == {NOW}


def test_with_create_time_the_producers_timestamps_stay(logs: Logs) -> None:
    log = logs.open()
    assert append(log, batch(2, timestamp=50)).append_time == -1
    assert [record.timestamp for record in decode_batch(read_all(log))] == [50, 51]


def test_a_producer_does_not_decide_on_the_timestamp_type(logs: Logs) -> None:
    sent = changed(batch(), attributes=LOG_APPEND_TIME)
    config = LogConfig(message_timestamp_type="LogAppendTime")
    assert code_of(logs, sent, config) == E.INVALID_TIMESTAMP
    log = logs.open()
    append(log, sent)
    kept = memoryview(read_all(log))
    assert not read_header(kept).is_log_append_time
    assert crc_is_right(kept, read_header(kept))


def test_a_compacted_topic_refuses_records_without_a_key(logs: Logs) -> None:
    log = logs.open(LogConfig(cleanup_policy=frozenset({"compact"})))
    with pytest.raises(KafkaError) as refused:
        append(log, batch(3, key=None, codec=Codec.LZ4))
    assert refused.value.code == E.INVALID_RECORD
    append(log, batch(3, codec=Codec.LZ4))
    assert log.end_offset == 3


def test_flush_messages_tells_when_a_reply_has_to_wait(logs: Logs) -> None:
    log = logs.open(LogConfig(flush_messages=5))
    assert not append(log, batch(4)).must_flush
    assert append(log, batch(1)).must_flush
    assert append(log, batch(1)).must_flush


def test_a_retry_waits_for_the_flush_of_its_original(logs: Logs) -> None:
    log = logs.open(LogConfig(flush_messages=1))
    append(log, batch(producer=1, epoch=0, sequence=0))
    again = append(log, batch(producer=1, epoch=0, sequence=0))
    assert (again.duplicate, again.must_flush) == (True, True)


def test_a_coordinators_batches_have_no_sequences(logs: Logs) -> None:
    log = logs.open()
    log.append(
        batch(producer=7, epoch=3, transactional=True), now=NOW, leader_epoch=0, from_client=False
    )
    with pytest.raises(KafkaError) as refused:
        log.append(
            batch(producer=7, epoch=2, transactional=True),
            now=NOW,
            leader_epoch=0,
            from_client=False,
        )
    assert refused.value.code == E.INVALID_PRODUCER_EPOCH
    assert log.last_stable_offset == 0


def test_a_changed_config_counts_from_the_next_batch(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(size=500))
    log.set_config(LogConfig(max_message_bytes=200))
    with pytest.raises(KafkaError) as refused:
        append(log, batch(size=500))
    assert refused.value.code == E.MESSAGE_TOO_LARGE
