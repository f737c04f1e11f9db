"""What a pass of compaction leaves of a log, and what readers and restarts find then."""

import os

import pytest

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.segments.scan import CorruptLog
from ottla.records import Codec, Record, encode_batch
from ottla.wire.batch import DELETE_HORIZON, headers
from tests.log.compacting import batches, compacted, keyed, offsets, records, state
from tests.log.making import NOW, Logs, append, flush, read_all, read_headers

RETENTION = 1000
COMPACT = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=10_000,
    index_interval_bytes=100,
    delete_retention_ms=RETENTION,
)


def written(logs: Logs, *pairs: tuple[str, str | None], config: LogConfig = COMPACT) -> Log:
    """A log with one record a batch, all of it sealed."""
    log = logs.open(config)
    for at, pair in enumerate(pairs):
        append(log, keyed(pair, timestamp=NOW + at))
    log.roll(NOW)
    return log


def test_the_latest_value_of_each_key_stays_where_it_was(logs: Logs) -> None:
    log = written(logs, ("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("b", "5"))
    finished = compacted(log)
    assert [(each.offset, each.key, each.value) for each in records(log)] == [
        (2, b"a", b"3"),
        (3, b"c", b"4"),
        (4, b"b", b"5"),
    ]
    assert [each.timestamp for each in records(log)] == [NOW + 2, NOW + 3, NOW + 4]
    assert finished.first_dirty == 5
    assert (finished.messages_read, finished.messages_written) == (5, 3)
    assert (log.start_offset, log.end_offset) == (0, 5)


def test_the_active_segment_is_not_touched(logs: Logs) -> None:
    log = written(logs, ("a", "1"), ("a", "2"))
    append(log, keyed(("a", "3")))
    append(log, keyed(("a", "4")))
    compacted(log)
    assert offsets(log) == [1, 2, 3]


def test_a_later_pass_removes_what_the_dirty_part_replaces(logs: Logs) -> None:
    log = written(logs, ("a", "1"), ("b", "2"))
    first_dirty = compacted(log).first_dirty
    append(log, keyed(("a", "3")))
    log.roll(NOW)
    assert compacted(log, first_dirty).first_dirty == 3
    assert offsets(log) == [1, 2]


def test_reading_from_a_removed_offset_finds_the_next_batch(logs: Logs) -> None:
    log = written(logs, *[("a" if at % 10 else f"key-{at}", str(at)) for at in range(200)])
    compacted(log)
    kept = offsets(log)
    assert kept == [*range(0, 200, 10), 199]
    for offset in range(200):
        expected = next(each for each in kept if each >= offset)
        assert read_headers(log, offset)[0].base_offset == expected


def test_some_records_of_a_batch_may_go(logs: Logs) -> None:
    log = logs.open(COMPACT)
    append(log, keyed(("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), timestamp=NOW))
    append(log, keyed(("c", "5"), timestamp=NOW + 50))
    log.roll(NOW)
    compacted(log)
    assert [(each.offset, each.timestamp) for each in records(log)] == [
        (1, NOW + 1),
        (2, NOW + 2),
        (4, NOW + 50),
    ]
    header = read_headers(log)[0]
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 3, 2)
    assert header.max_timestamp == NOW + 2


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_keeps_its_codec(logs: Logs, codec: Codec) -> None:
    log = logs.open(COMPACT)
    append(log, keyed(*[(f"key-{at % 50}", "value" * 10) for at in range(100)], codec=codec))
    log.roll(NOW)
    compacted(log)
    assert offsets(log) == list(range(50, 100))
    assert [each.codec for each in read_headers(log)] == [codec]


def test_headers_and_strange_bytes_of_records_are_kept(logs: Logs) -> None:
    log = logs.open(COMPACT)
    first = Record(0, NOW, b"a", b"gone")
    second = Record(1, NOW - 5, b"", bytes(range(256)), [("h\udcff", None), ("h", b"\0")])
    third = Record(2, NOW + 9, b"a", b"")
    data = encode_batch([first, second, third])
    append(log, memoryview(bytearray(data)))
    log.roll(NOW)
    compacted(log)
    assert records(log) == [second, third]


def test_long_keys_are_distinguished(logs: Logs) -> None:
    prefix = "k" * 300
    log = written(logs, *[(f"{prefix}{at % 7}", str(at)) for at in range(70)])
    compacted(log)
    assert offsets(log) == list(range(63, 70))


def test_keyless_records_of_an_earlier_policy_go(logs: Logs) -> None:
    log = logs.open(LogConfig(index_interval_bytes=100))
    append(log, memoryview(bytearray(encode_batch([Record(0, NOW, None, b"x")]))))
    append(log, keyed(("a", "1")))
    append(log, keyed(("b", "2")))
    log.roll(NOW)
    log.set_config(COMPACT)
    compacted(log)
    assert offsets(log) == [1, 2]


# Tombstones -------------------------------------------------------------------------------


def test_a_tombstone_outlives_what_it_deletes_by_the_retention_time(logs: Logs) -> None:
    log = written(logs, ("a", "1"), ("a", None), ("b", "2"))
    first_dirty = compacted(log, now=NOW).first_dirty
    assert offsets(log) == [1, 2]
    header = read_headers(log)[0]
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == NOW + RETENTION
    assert records(log)[0] == Record(1, NOW + 1, b"a", None)

    for now, left in ((NOW + RETENTION - 1, [1, 2, 3]), (NOW + RETENTION, [2, 4])):
        append(log, keyed(("c", "3"), timestamp=now))
        log.roll(now)
        first_dirty = compacted(log, first_dirty, now=now).first_dirty
        assert offsets(log) == left


def test_a_delete_horizon_once_set_is_kept(logs: Logs) -> None:
    log = written(logs, ("a", None), ("b", "1"))
    first_dirty = compacted(log, now=NOW).first_dirty
    before = bytes(next(iter(batches(log)))[1])
    append(log, keyed(("b", "2")))
    log.roll(NOW)
    compacted(log, first_dirty, now=NOW + 500)
    assert bytes(next(iter(batches(log)))[1]) == before


def test_a_batch_with_a_horizon_is_rewritten_with_the_same_one(logs: Logs) -> None:
    log = logs.open(COMPACT)
    append(log, keyed(("a", None), ("b", "1"), ("c", None)))
    append(log, keyed(("d", "2")))
    log.roll(NOW)
    first_dirty = compacted(log, now=NOW).first_dirty
    append(log, keyed(("b", "3"), ("c", "4")))
    log.roll(NOW)
    compacted(log, first_dirty, now=NOW + 500)
    header = read_headers(log)[0]
    assert header.base_timestamp == NOW + RETENTION
    assert records(log)[0] == Record(0, NOW, b"a", None)
    assert header.max_timestamp == NOW


def test_with_the_brokers_timestamps_a_tombstone_keeps_its_time(logs: Logs) -> None:
    config = LogConfig(
        cleanup_policy=frozenset({"compact"}), message_timestamp_type="LogAppendTime"
    )
    log = logs.open(config)
    append(log, keyed(("a", None), ("b", "1"), timestamp=5), now=NOW + 7)
    append(log, keyed(("b", "2")), now=NOW + 8)
    log.roll(NOW)
    compacted(log)
    assert [(each.offset, each.timestamp) for each in records(log)] == [(0, NOW + 7), (2, NOW + 8)]


# More keys than memory ------------------------------------------------------------------------


def test_a_full_map_leaves_the_rest_to_the_next_pass(logs: Logs) -> None:
    pairs = [(f"key-{at % 40}", str(at)) for at in range(400)]
    log = written(logs, *pairs)
    first_dirty: int | None = None
    passes = 0
    while first_dirty != 400:
        finished = compacted(log, first_dirty, memory=15 * 208)
        assert finished.map_fullness <= 1
        assert finished.first_dirty > (first_dirty or 0)
        first_dirty = finished.first_dirty
        passes += 1
        assert state(records(log)) == state(
            Record(at, 0, key.encode(), value.encode()) for at, (key, value) in enumerate(pairs)
        )
    assert passes > 5
    compacted(log, 0)
    assert offsets(log) == list(range(360, 400))


def test_a_full_map_may_end_inside_a_batch(logs: Logs) -> None:
    log = logs.open(COMPACT)
    append(log, keyed(*[(f"key-{at}", "1") for at in range(10)]))
    append(log, keyed(*[(f"key-{at}", "2") for at in range(10)]))
    log.roll(NOW)
    first = compacted(log, memory=4 * 208)
    assert first.first_dirty == 4
    assert offsets(log) == list(range(20))
    compacted(log, first.first_dirty)
    assert offsets(log) == list(range(10, 20))


def test_a_tombstone_that_the_map_does_not_reach_gets_no_horizon(logs: Logs) -> None:
    log = logs.open(COMPACT)
    append(log, keyed(("a", "1"), ("b", "1"), ("c", "1")))
    append(log, keyed(("a", None)))
    append(log, keyed(("d", "1")))
    log.roll(NOW)
    first = compacted(log, memory=3 * 208)
    assert first.first_dirty == 3
    assert [each.attributes & DELETE_HORIZON for each in read_headers(log)] == [0, 0, 0]


def test_a_batch_that_the_map_reaches_in_part_gets_no_horizon(logs: Logs) -> None:
    log = logs.open(COMPACT)
    append(log, keyed(("a", None), ("b", None)))
    append(log, keyed(("c", "1")))
    log.roll(NOW)
    assert compacted(log, memory=1 * 208).first_dirty == 1
    assert not read_headers(log)[0].attributes & DELETE_HORIZON
    compacted(log, 1)
    assert read_headers(log)[0].attributes & DELETE_HORIZON


def test_what_the_map_does_not_reach_stays_as_it_is(logs: Logs) -> None:
    log = logs.open(LogConfig())
    append(log, keyed(("a", "1")))
    append(log, keyed(("b", "1")))
    append(log, memoryview(bytearray(encode_batch([Record(0, NOW, None, b"no key")]))))
    append(log, keyed(("c", "1")))
    log.roll(NOW)
    log.set_config(COMPACT)
    assert compacted(log, memory=1 * 208).first_dirty == 1
    assert offsets(log) == [0, 1, 2, 3]


# Segments and indexes -------------------------------------------------------------------------


def filled(logs: Logs, config: LogConfig, count: int = 300) -> Log:
    log = logs.open(config)
    for at in range(count):
        append(log, keyed((f"key-{at}", "v" * 50), timestamp=NOW + at))
    log.roll(NOW)
    return log


SMALL = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=2000, index_interval_bytes=100
)


def test_small_segments_become_one(logs: Logs) -> None:
    log = filled(logs, SMALL)
    before = read_all(log)
    assert len(log.segments) > 10
    log.set_config(COMPACT)
    compacted(log)
    sizes = [segment.size for segment in log.segments]
    assert len(sizes) == -(-len(before) // 10_000) + 1
    assert max(sizes) <= 10_000
    assert sum(sizes) == log.size == len(before)
    assert read_all(log) == before


def test_segments_do_not_merge_past_the_size_of_an_index(logs: Logs) -> None:
    log = filled(logs, SMALL)
    log.set_config(LogConfig(cleanup_policy=frozenset({"compact"}), segment_index_bytes=40 * 12))
    compacted(log)
    assert len(log.segments) > 2
    for path in logs.directory.glob("*.timeindex"):
        assert path.stat().st_size <= 40 * 12


def test_segments_do_not_merge_past_31_bits_of_offset(logs: Logs) -> None:
    log = logs.open(COMPACT)
    far = 2**31
    for base in (0, 3, 5, far + 10, far + 12):
        data = encode_batch([Record(base, NOW, str(base).encode(), b"x")], base_offset=base)
        log.append_as_follower(memoryview(data))
        log.roll(NOW)
    compacted(log)
    assert [each.base_offset for each in log.segments] == [0, far + 10, far + 13]
    assert offsets(log) == [0, 3, 5, far + 10, far + 12]


def test_a_record_is_found_by_its_time_in_a_compacted_log(logs: Logs) -> None:
    log = written(logs, *[("a" if at % 5 else f"key-{at}", "v" * 30) for at in range(200)])
    compacted(log)
    for at in range(0, 195, 5):
        for timestamp in (NOW + at - 2, NOW + at):
            found = log.offset_for_timestamp(timestamp, log.end_offset)
            assert found is not None
            assert (found.offset, found.timestamp) == (at, NOW + at)


def test_the_time_of_a_batch_without_records_is_passed_by(logs: Logs) -> None:
    log = logs.open(COMPACT)
    append(log, keyed(("a", "1"), timestamp=NOW + 100, producer=7, epoch=0, sequence=0))
    append(log, keyed(("a", "2"), timestamp=NOW + 1))
    log.roll(NOW)
    append(log, keyed(("b", "2"), timestamp=NOW + 200))
    compacted(log)
    assert [each.record_count for each in read_headers(log)] == [0, 1, 1]
    found = log.offset_for_timestamp(NOW + 50, log.end_offset)
    assert found is not None
    assert found.offset == 2


def test_the_last_batch_of_the_range_stays_if_only_as_a_header(logs: Logs) -> None:
    log = written(logs, ("a", "1"), ("b", None))
    compacted(log)
    compacted(log, 0, now=NOW + RETENTION)
    assert offsets(log) == [0]
    header = read_headers(log)[-1]
    assert (header.base_offset, header.last_offset, header.record_count) == (1, 1, 0)
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (0, -1, NOW + 1)


def test_a_new_log_file_is_as_old_as_the_last_it_replaces(logs: Logs) -> None:
    log = filled(logs, SMALL, 30)
    sources = sorted(logs.directory.glob("*.log"))[:-1]
    for at, path in enumerate(sources):
        os.utime(path, (1000 + at, 1000 + at))
    log.set_config(COMPACT)
    compacted(log)
    assert sources[0].stat().st_mtime == 1000 + len(sources) - 1


def test_a_damaged_batch_ends_the_pass(logs: Logs) -> None:
    log = written(logs, ("a", "1"), ("b", "2"))
    flush(log)
    path = logs.directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptLog, match="invalid CRC"):
        compacted(log)
    assert path.read_bytes() == data


# Readers, and the files that are left ------------------------------------------------------------


def test_a_reader_in_the_middle_is_not_disturbed(logs: Logs) -> None:
    log = written(logs, *[("a", str(at)) for at in range(50)])
    whole = read_all(log)
    found = log.read(0, 1 << 20, log.end_offset, True)
    assert found is not None
    compacted(log)
    assert os.pread(found.file.fd, found.size, found.position) == whole
    found.file.unpin()
    assert found.file.fd == -1
    assert offsets(log) == [49]


def test_the_old_files_are_removed_after_their_delay(logs: Logs) -> None:
    log = filled(logs, SMALL, 60)
    log.set_config(COMPACT)
    flush(log)
    names = set(logs.names())
    compacted(log)
    assert any(name.endswith(".deleted") for name in logs.names())
    log.remove_doomed(NOW + COMPACT.file_delete_delay_ms)
    left = logs.names()
    assert not [name for name in left if name.endswith((".deleted", ".cleaned", ".swap"))]
    assert set(left) < names


@pytest.mark.parametrize("clean", [True, False])
def test_a_compacted_log_opens_again(logs: Logs, clean: bool) -> None:
    log = written(logs, *[("a" if at % 5 else f"key-{at}", "v" * 30) for at in range(200)])
    append(log, keyed(("z", "1")))
    compacted(log)
    expected = read_all(log)
    point = log.recovery_point
    if clean:
        log.close()
    else:
        logs.crash(log)
    log = logs.open(COMPACT, clean=clean, recovery_point=point)
    assert read_all(log) == expected
    assert (log.start_offset, log.end_offset) == (0, 201)
    assert append(log, keyed(("a", "2"))).base_offset == 201


def test_retention_removes_compacted_segments_too(logs: Logs) -> None:
    config = LogConfig(
        cleanup_policy=frozenset({"compact", "delete"}),
        segment_bytes=2000,
        index_interval_bytes=100,
        retention_ms=100,
    )
    log = filled(logs, config)
    compacted(log)
    assert log.maintain(NOW + 300)
    assert 150 < log.start_offset < 210
    assert offsets(log)[0] == log.start_offset
    log.maintain(NOW + 1000)
    assert log.start_offset == log.end_offset == 300


def test_an_emptied_segment_does_not_hold_retention_up(logs: Logs) -> None:
    config = LogConfig(
        cleanup_policy=frozenset({"compact", "delete"}), segment_bytes=400, retention_ms=10_000
    )
    log = logs.open(config)
    for at in range(20):
        append(log, keyed(("a", "v" * 300), timestamp=NOW + at))
    log.roll(NOW)
    for path in logs.directory.glob("*.log"):
        os.utime(path, (NOW / 1000, NOW / 1000))
    compacted(log)
    assert log.segments.first.size == 0
    log.maintain(NOW + 11_000)
    assert log.start_offset == log.end_offset == 20


def test_offset_commits_to_a_few_keys_become_a_few_kilobytes(logs: Logs) -> None:
    config = LogConfig(
        cleanup_policy=frozenset({"compact"}), segment_bytes=2 << 20, max_message_bytes=1 << 20
    )
    log = logs.open(config)
    for at in range(20):
        commits = [
            (f"\0\1\0\x0bgroup-{each % 5:05d}\0\6orders\0\0\0{chr(each % 50)}", "\0" * 24)
            for each in range(5000)
        ]
        append(log, keyed(*commits, timestamp=NOW + at))
    log.roll(NOW)
    before = log.size
    finished = compacted(log)
    assert (finished.messages_read, finished.messages_written) == (100_000, 50)
    assert before > 5_000_000
    assert log.size < 5_000


def test_a_compacted_file_is_a_sequence_of_right_batches(logs: Logs) -> None:
    log = logs.open(COMPACT)
    for at in range(60):
        pairs = [(f"key-{(at + each) % 17}", None if each % 3 else "v") for each in range(5)]
        append(log, keyed(*pairs, codec=Codec(at % 5), timestamp=NOW + at))
    log.roll(NOW)
    compacted(log)
    data = memoryview((logs.directory / f"{0:020d}.log").read_bytes())
    found = list(headers(data))
    assert found[-1][0] + found[-1][1].size == len(data)
    last = [header.last_offset for _, header in found]
    assert last == sorted(last)
    assert len(offsets(log)) == 17
