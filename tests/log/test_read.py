"""What readers get: from which batch, up to where, and how long it stays good."""

import os

import pytest

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.storage.file_cache import Slice
from ottla.wire.batch import headers
from ottla.wire.errors import ErrorCode, KafkaError
from tests.log.making import Logs, append, batch, read_all, read_headers

SMALL_SEGMENTS = LogConfig(segment_bytes=1000, index_interval_bytes=100)


def first_offset(log: Log, offset: int, *, limit: int = 1 << 62) -> int | None:
    """The base offset of the first batch a reader gets."""
    found = log.read(offset, 1 << 20, limit, True)
    if found is None:
        return None
    return next(headers(taken(found)))[1].base_offset


def taken(found: Slice) -> memoryview:
    data = os.pread(found.file.fd, found.size, found.position)
    found.file.unpin()
    assert len(data) == found.size
    return memoryview(data)


def filled(logs: Logs, count: int = 60, config: LogConfig = SMALL_SEGMENTS) -> Log:
    """A log of many batches of three records, in several segments."""
    log = logs.open(config)
    for _ in range(count):
        append(log, batch(3))
    return log


def test_every_offset_finds_the_batch_that_holds_it(logs: Logs) -> None:
    log = filled(logs)
    assert len(log.segments) > 3
    for offset in range(log.end_offset):
        assert first_offset(log, offset) == offset // 3 * 3


def test_the_end_of_the_log_has_nothing_and_past_it_is_out_of_range(logs: Logs) -> None:
    log = filled(logs, 2)
    assert log.read(6, 1000, 6, True) is None
    for offset in (-1, 7):
        with pytest.raises(KafkaError) as refused:
            log.read(offset, 1000, 6, True)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_below_the_start_offset_is_out_of_range(logs: Logs) -> None:
    log = filled(logs, 5)
    log.raise_start_offset(4)
    assert first_offset(log, 4) == 3
    with pytest.raises(KafkaError) as refused:
        log.read(3, 1000, 100, True)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_max_bytes_limits_the_answer_but_never_the_first_batch(logs: Logs) -> None:
    log = filled(logs, 5, LogConfig())
    size = len(batch(3))
    found = log.read(0, size + 10, 15, True)
    assert found is not None
    assert (found.position, found.size) == (0, size + 10)
    taken(found)
    for max_bytes in (0, 1, size - 1):
        whole = log.read(3, max_bytes, 15, True)
        assert whole is not None
        assert (whole.position, whole.size) == (size, size)
        taken(whole)
        assert log.read(3, max_bytes, 15, False) is None


def test_no_batch_that_reaches_the_limit_is_read(logs: Logs) -> None:
    log = filled(logs)
    for limit in range(log.end_offset + 1):
        seen = read_headers(log, 0, limit)
        assert len(seen) == limit // 3
        assert all(header.next_offset <= limit for header in seen)
    assert log.read(7, 1000, 7, True) is None
    assert log.read(7, 1000, 8, True) is None
    assert log.read(7, 1000, 2, True) is None


def test_a_read_moves_on_to_the_next_segment(logs: Logs) -> None:
    log = filled(logs)
    assert [header.base_offset for header in read_headers(log)] == list(range(0, 180, 3))


def test_offsets_in_a_gap_find_the_next_batch(logs: Logs) -> None:
    log = logs.open(LogConfig(segment_bytes=300))
    for base_offset in (0, 10, 50, 1000):
        log.append_as_follower(batch(2, base_offset=base_offset, leader_epoch=0))
    assert first_offset(log, 1) == 0
    assert first_offset(log, 2) == 10
    assert first_offset(log, 12) == 50
    assert first_offset(log, 999) == 1000
    assert log.read(5, 1000, 10, True) is None


def test_a_reader_is_not_disturbed_by_the_deletion_of_its_segment(logs: Logs) -> None:
    log = filled(logs)
    expected = read_all(log)
    found = log.read(0, 1 << 20, log.end_offset, True)
    assert found is not None
    log.set_config(LogConfig(retention_bytes=0, file_delete_delay_ms=0))
    assert log.maintain(1 << 50)
    log.remove_doomed(1 << 60)
    assert not os.path.exists(found.file.path)
    assert bytes(taken(found)) == expected[: found.size]
    assert found.file.fd == -1


def test_a_reader_is_not_disturbed_by_the_deletion_of_the_log(logs: Logs) -> None:
    log = filled(logs, 3)
    expected = read_all(log)
    found = log.read(0, 1 << 20, log.end_offset, True)
    assert found is not None
    renamed = log.delete()
    for path in renamed.iterdir():
        path.unlink()
    renamed.rmdir()
    assert bytes(taken(found)) == expected
    with pytest.raises(KafkaError) as refused:
        log.read(0, 1 << 20, 9, True)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_reader_is_not_disturbed_when_too_many_files_are_open(logs: Logs) -> None:
    logs.cache.limit = 2
    log = filled(logs)
    expected = read_all(log)
    found = log.read(0, 1 << 20, log.end_offset, True)
    assert found is not None
    for _ in range(3):
        assert read_all(log) == expected
        append(log, batch(3))
        expected = read_all(log)
    assert len(logs.cache) <= 3
    assert bytes(taken(found)) == expected[: found.size]


def test_a_log_reads_the_same_after_a_restart(logs: Logs) -> None:
    log = filled(logs)
    expected = read_all(log)
    log.close()
    log = logs.open(SMALL_SEGMENTS)
    assert read_all(log) == expected
    for offset in range(log.end_offset):
        assert first_offset(log, offset) == offset // 3 * 3


def test_garbage_where_a_batch_should_be_takes_the_log_offline(logs: Logs) -> None:
    log = filled(logs, 3, LogConfig())
    with (logs.directory / "00000000000000000000.log").open("r+b") as file:
        file.write(bytes(200))
    with pytest.raises(KafkaError) as refused:
        log.read(0, 1000, 9, True)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.offline


@pytest.mark.parametrize("offset", [3, 6])
def test_a_batch_that_would_end_behind_the_file_takes_the_log_offline(
    logs: Logs, offset: int
) -> None:
    """Neither a reply of gigabytes, nor a reader that waits forever for what is behind it."""
    log = filled(logs, 3, LogConfig())
    second = log.segments.active.find(3)
    assert second is not None
    with (logs.directory / "00000000000000000000.log").open("r+b") as file:
        file.seek(second.position + 8)
        file.write((1 << 30).to_bytes(4, "big"))
    with pytest.raises(KafkaError, match="is corrupt") as refused:
        log.read(offset, 1000, 9, True)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.offline


@pytest.mark.parametrize("max_bytes", [1, 300, 1000, 5000, 1 << 20])
def test_it_is_known_where_what_was_read_ends(logs: Logs, max_bytes: int) -> None:
    log = logs.open(LogConfig(segment_bytes=20_000, index_interval_bytes=500))
    for i in range(200):
        append(log, batch(1 + i % 4, size=50))
    offset = 0
    while (found := log.read(offset, max_bytes, log.end_offset, True)) is not None:
        end = log.end_of(offset, found)
        whole = [header for _, header in headers(taken(found))]
        offset = whole[-1].next_offset
        assert end == offset
    assert offset == log.end_offset


def test_what_is_not_in_memory_is_not_read_to_know_about_where_it_ends(logs: Logs) -> None:
    log = logs.open(LogConfig(index_interval_bytes=500))
    for _ in range(100):
        append(log, batch(5))
    found = log.read(0, 10_000, log.end_offset, True)
    assert found is not None
    end = log.end_of(0, found)

    def is_cold(*_: object) -> int:
        raise BlockingIOError

    logs.files.preadv = is_cold
    noted_every = 500 // len(batch(5)) + 1
    assert end - 5 * 2 * (noted_every + 1) <= log.end_of(0, found) <= end
    found.file.unpin()
