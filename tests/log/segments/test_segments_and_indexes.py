"""Rolling segments, and the two indexes that are kept with each."""

import os
from collections.abc import Callable
from struct import iter_unpack, pack

import pytest

from ottla.log.config import LogConfig
from ottla.log.segments.offset_index import OffsetIndex
from ottla.log.segments.segment import LogSegment
from ottla.log.segments.time_index import TimeIndex
from ottla.wire.batch import HEADER_SIZE, read_header
from tests.log.making import NOW, Logs, append, batch, every_file, flush, read_all, read_headers

DAY = 86_400_000


def bases(logs: Logs) -> list[int]:
    return [int(name[:20]) for name in logs.names() if name.endswith(".log")]


def has_loaded_indexes(segment: LogSegment) -> bool:
    return segment.indexes.offset is not None


def test_a_segment_never_exceeds_segment_bytes(logs: Logs) -> None:
    size = len(batch())
    log = logs.open(LogConfig(segment_bytes=3 * size))
    for _ in range(7):
        append(log, batch())
    assert bases(logs) == [0, 3, 6]
    assert [segment.size for segment in log.segments] == [3 * size, 3 * size, size]
    assert log.size == 7 * size


def test_a_segment_spans_no_more_time_than_segment_ms(logs: Logs) -> None:
    log = logs.open(LogConfig(segment_ms=1000))
    for delay in (0, 1000, 1001, 500, 2002):
        append(log, batch(timestamp=NOW + delay))
    assert bases(logs) == [0, 2, 4]


def test_the_age_of_a_segment_survives_a_restart(logs: Logs) -> None:
    log = logs.open(LogConfig(segment_ms=1000))
    append(log, batch(timestamp=NOW))
    log.close()
    log = logs.open(LogConfig(segment_ms=1000))
    append(log, batch(timestamp=NOW + 1000))
    append(log, batch(timestamp=NOW + 1001))
    assert bases(logs) == [0, 2]


def test_a_quiet_segment_is_rolled_by_the_clock(logs: Logs) -> None:
    log = logs.open(LogConfig(segment_ms=DAY, retention_ms=-1))
    append(log, batch(timestamp=NOW))
    assert not log.maintain(NOW + DAY)
    assert log.maintain(NOW + DAY + 1)
    assert bases(logs) == [0, 1]
    assert not log.maintain(NOW + 3 * DAY)


def test_jitter_rolls_earlier_but_never_later(logs: Logs) -> None:
    log = logs.open(LogConfig(segment_ms=1000, segment_jitter_ms=1000))
    append(log, batch(timestamp=NOW))
    append(log, batch(timestamp=NOW + 1001))
    assert 1 in bases(logs)


def test_an_offset_too_far_for_the_index_begins_a_segment(logs: Logs) -> None:
    log = logs.open()
    for base_offset in (0, (1 << 31) - 1, 1 << 31, 1 << 40):
        log.append_as_follower(batch(base_offset=base_offset, leader_epoch=0))
    assert bases(logs) == [0, 1 << 31, 1 << 40]
    assert len(read_headers(log)) == 4


def test_a_full_index_begins_a_segment(logs: Logs) -> None:
    log = logs.open(LogConfig(index_interval_bytes=0, segment_index_bytes=60))
    for i in range(30):
        append(log, batch(timestamp=NOW + i))
    log.close()
    assert len(bases(logs)) > 3
    for suffix in (".index", ".timeindex"):
        for path in logs.directory.glob(f"*{suffix}"):
            assert path.stat().st_size <= 60


def test_an_index_entry_is_the_last_offset_of_the_batch_at_its_position(logs: Logs) -> None:
    log = logs.open(LogConfig(index_interval_bytes=200))
    for _ in range(40):
        append(log, batch(3))
    data = read_all(log)
    log.close()
    entries = list(iter_unpack(">ii", (logs.directory / f"{0:020d}.index").read_bytes()))
    assert len(entries) > 5
    for offset, position in entries:
        assert read_header(memoryview(data), position).last_offset == offset


def test_a_time_index_entry_is_the_largest_timestamp_up_to_its_offset(logs: Logs) -> None:
    log = logs.open(LogConfig(index_interval_bytes=150))
    timestamps = [5, 9, 2, 30, 30, 7, 31, 4, 40, 1]
    for timestamp in timestamps:
        append(log, batch(timestamp=timestamp, size=100))
    log.close()
    entries = list(iter_unpack(">qi", (logs.directory / f"{0:020d}.timeindex").read_bytes()))
    assert entries == [(9, 1), (30, 3), (31, 6), (40, 8)]
    for timestamp, offset in entries:
        assert max(timestamps[: offset + 1]) == timestamp == timestamps[offset]


def test_indexes_are_not_written_before_a_flush(logs: Logs) -> None:
    log = logs.open(LogConfig(index_interval_bytes=0))
    for _ in range(5):
        append(log, batch())
    path = logs.directory / f"{0:020d}.index"
    assert path.stat().st_size == 0
    flush(log)
    assert path.stat().st_size == 4 * 8
    append(log, batch())
    flush(log)
    assert path.stat().st_size == 5 * 8


def test_a_sealed_segments_index_is_saved_even_if_the_seal_came_after_the_flush(
    logs: Logs,
) -> None:
    log = logs.open()
    append(log, batch(timestamp=NOW))
    flush(log)
    log.roll()
    flush(log)
    logs.crash(log)
    path = logs.directory / f"{0:020d}.timeindex"
    assert list(iter_unpack(">qi", path.read_bytes())) == [(NOW, 0)]


def test_sealed_segments_drop_their_indexes_with_their_file(logs: Logs) -> None:
    log = logs.open(LogConfig(segment_bytes=1000, index_interval_bytes=0))
    for _ in range(50):
        append(log, batch())
    flush(log)
    data = read_all(log)
    first = log.segments.first
    assert has_loaded_indexes(first)
    logs.cache.limit = 1
    append(log, batch())
    log.read(49, 10, 50, True)
    log.roll()
    assert first.file.fd == -1
    assert not has_loaded_indexes(first)
    assert read_all(log)[: len(data)] == data


def test_missing_indexes_are_rebuilt(logs: Logs) -> None:
    config = LogConfig(segment_bytes=2000, index_interval_bytes=100)
    log = logs.open(config)
    for i in range(60):
        append(log, batch(timestamp=NOW + i))
    expected = read_all(log)
    log.close()
    kept = {path: path.read_bytes() for path in logs.directory.glob("*index")}
    for path in kept:
        path.unlink()
    log = logs.open(config)
    assert read_all(log) == expected
    log.close()
    assert {path: path.read_bytes() for path in logs.directory.glob("*index")} == kept


def _damaged(data: bytes, half: str, entry: int) -> bytes:
    """An offset index, one of whose entries names another offset or another position."""
    entries = [list(each) for each in iter_unpack(">ii", data)]
    place = ("offset", "position").index(half)
    entries[entry][place] = entries[entry - 1][place] + 1 if entry else 1
    return b"".join(pack(">ii", *each) for each in entries)


SMALL_SEGMENTS = LogConfig(segment_bytes=40_000)


def _write_three_segments(logs: Logs) -> int:
    """Twelve batches of five records in each, ten milliseconds apart; gives the log's end."""
    log = logs.open(SMALL_SEGMENTS)
    for i in range(36):
        append(log, batch(5, size=600, timestamp=NOW + 10 * i))
    end = log.end_offset
    log.close()
    return end


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("entry", [0, 2, -1])
@pytest.mark.parametrize("half", ["offset", "position"])
def test_an_index_that_does_not_match_its_log_is_rebuilt_and_hides_nothing(
    logs: Logs, half: str, entry: int, clean: bool
) -> None:
    end = _write_three_segments(logs)
    indexes = {path: path.read_bytes() for path in every_file(logs.directory, ".index")}
    assert [len(data) // 8 for data in indexes.values()] == [5, 5, 5]
    for path, data in indexes.items():
        path.write_bytes(_damaged(data, half, entry))
    log = logs.open(SMALL_SEGMENTS, clean=clean, recovery_point=end)
    for offset in range(end):
        found = log.read(offset, 1, end, True)
        assert found is not None
        header = memoryview(os.pread(found.file.fd, HEADER_SIZE, found.position))
        assert read_header(header).base_offset == offset // 5 * 5
        found.file.unpin()
    for i in range(36):
        at = log.offset_for_timestamp(NOW + 10 * i, end)
        assert at is not None
        assert at.offset == 5 * i
    log.close()
    assert {path: path.read_bytes() for path in indexes} == indexes


def _with_last_timestamp(data: bytes, timestamp: int) -> bytes:
    return data[:-12] + pack(">q", timestamp) + data[-4:]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda data: data[:24] + b"\x7f" * 12,
        lambda data: _with_last_timestamp(data, NOW - 10 * DAY),
        lambda data: _with_last_timestamp(data, NOW + 10 * DAY),
        lambda data: data[:24] + data[24:32] + pack(">i", 40) + data[36:],
    ],
    ids=["empty", "garbage", "too old", "too young", "another offset"],
)
def test_a_time_index_that_does_not_match_its_log_is_rebuilt(
    logs: Logs, damage: Callable[[bytes], bytes], clean: bool
) -> None:
    end = _write_three_segments(logs)
    indexes = {path: path.read_bytes() for path in every_file(logs.directory, ".timeindex")}
    for path, data in indexes.items():
        path.write_bytes(damage(data))
    log = logs.open(SMALL_SEGMENTS, clean=clean, recovery_point=end)
    largest = log.max_timestamp_offset(end)
    assert largest is not None
    assert (largest.timestamp, largest.offset) == (NOW + 354, end - 1)
    for i in range(36):
        at = log.offset_for_timestamp(NOW + 10 * i, end)
        assert at is not None
        assert at.offset == 5 * i
    assert not log.maintain(NOW + 354)
    log.close()
    if not clean:
        del indexes[path]  # a recovery leaves out entries that are past the log's end
    assert {path: path.read_bytes() for path in indexes} == indexes


@pytest.mark.parametrize("zeros", [8, 80, 8000])
def test_zeros_that_kafka_preallocates_are_not_index_entries(zeros: int) -> None:
    index = OffsetIndex()
    for i in range(1, 5):
        index.add(10 * i, 100 * i)
    data = index.unsaved()
    assert list(OffsetIndex.from_bytes(data + bytes(zeros), 1000).entries) == list(index.entries)
    assert not OffsetIndex.from_bytes(bytes(zeros), 1000).entries
    time_index = TimeIndex()
    for i in range(1, 5):
        time_index.add(1000 * i, 10 * i)
    data = time_index.unsaved()
    assert TimeIndex(data + bytes(zeros * 12)).data == time_index.data
    assert not len(TimeIndex(bytes(zeros * 12)))


def test_an_index_that_points_past_the_file_is_not_used() -> None:
    index = OffsetIndex()
    for i in range(1, 5):
        index.add(10 * i, 100 * i)
    assert len(OffsetIndex.from_bytes(index.unsaved(), 300).entries) == 2


def test_an_index_finds_the_batch_at_or_before_an_offset() -> None:
    index = OffsetIndex()
    index.add(9, 100)
    index.add(19, 250)
    assert [index.position(offset) for offset in (0, 8, 9, 10, 18, 19, 1000)] == [
        0,
        0,
        100,
        100,
        100,
        250,
        250,
    ]
    assert [index.noted(offset) for offset in (-1, 8, 9, 18, 19)] == [
        (-1, 0),
        (-1, 0),
        (9, 100),
        (9, 100),
        (19, 250),
    ]


def test_the_files_of_a_segment_are_kafkas(logs: Logs) -> None:
    log = logs.open()
    append(log, batch())
    log.roll()
    log.close()
    assert logs.names() == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.index",
        "00000000000000000001.log",
        "00000000000000000001.snapshot",
        "00000000000000000001.timeindex",
        "leader-epoch-checkpoint",
    ]


def test_rolling_an_empty_segment_changes_nothing(logs: Logs) -> None:
    log = logs.open()
    log.roll()
    log.roll()
    segments: list[LogSegment] = list(log.segments)
    assert [segment.base_offset for segment in segments] == [0]
