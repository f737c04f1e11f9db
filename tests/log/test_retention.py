"""What a log forgets, when, and what happens to the files."""

import errno
import os
import shutil

import pytest
from structlog.testing import capture_logs

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.segments.names import stem
from ottla.wire.errors import ErrorCode, KafkaError
from tests.log.making import NOW, Logs, append, batch, read_headers

SIZE = len(batch())
HOUR = 3_600_000


def config(**settings: int) -> LogConfig:
    return LogConfig(**{"segment_bytes": 2 * SIZE, "retention_ms": -1, **settings})  # type: ignore[arg-type]  # every setting used here is a number


def filled(logs: Logs, settings: LogConfig, count: int = 10) -> Log:
    """A log of ten records, an hour apart, two in a segment."""
    log = logs.open(settings)
    for i in range(count):
        append(log, batch(timestamp=NOW + i * HOUR), now=NOW + i * HOUR)
    return log


def offsets(log: Log) -> list[int]:
    return [header.base_offset for header in read_headers(log)]


def test_segments_whose_newest_record_is_too_old_go(logs: Logs) -> None:
    log = filled(logs, config(retention_ms=10 * HOUR))
    assert not log.maintain(NOW + 11 * HOUR)
    assert log.maintain(NOW + 11 * HOUR + 1)
    assert (log.start_offset, offsets(log)[0]) == (2, 2)
    assert log.maintain(NOW + 18 * HOUR)
    assert log.start_offset == 8


def test_the_active_segment_goes_too_and_an_empty_one_follows(logs: Logs) -> None:
    log = filled(logs, config(retention_ms=10 * HOUR))
    assert log.maintain(NOW + 100 * HOUR)
    assert (log.start_offset, log.end_offset, log.size) == (10, 10, 0)
    assert append(log, batch(timestamp=NOW + 100 * HOUR), now=NOW + 100 * HOUR).base_offset == 10
    assert not log.maintain(NOW + 101 * HOUR)


@pytest.mark.parametrize("all_are_too_old", [True, False])
def test_a_full_disk_that_takes_no_new_segment_loses_old_ones(
    logs: Logs, all_are_too_old: bool
) -> None:
    """Else it would stay full."""
    log = filled(logs, config(retention_ms=10 * HOUR, segment_ms=11 * HOUR))
    really_open = log.files.open

    def full(path: str, flags: int, mode: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "No space left on device")
        return really_open(path, flags, mode)

    log.files.open = full
    now = NOW + (100 if all_are_too_old else 19) * HOUR
    log.segments.active.created = NOW
    with pytest.raises(KafkaError, match="No space left"):
        log.maintain(now)
    assert (log.start_offset, log.end_offset, offsets(log)) == (8, 10, [8, 9])
    log.files.open = really_open
    assert log.maintain(now)
    assert log.start_offset == (10 if all_are_too_old else 8)
    assert log.segments.active.size == 0


def test_segments_beyond_retention_bytes_go_oldest_first(logs: Logs) -> None:
    log = filled(logs, config(retention_bytes=5 * SIZE))
    assert log.maintain(NOW)
    assert (log.start_offset, log.size) == (4, 6 * SIZE)
    assert not log.maintain(NOW)


def test_nothing_goes_above_the_high_watermark(logs: Logs) -> None:
    log = filled(logs, config(retention_bytes=0))
    log.high_watermark = 5
    assert log.maintain(NOW)
    assert log.start_offset == 4
    log.high_watermark = 10
    assert log.maintain(NOW)
    assert log.start_offset == 10


def test_a_compacted_log_is_not_deleted_from_by_age_or_size(logs: Logs) -> None:
    log = filled(logs, config(retention_ms=1, retention_bytes=0))
    log.set_config(
        LogConfig(retention_ms=1, retention_bytes=0, cleanup_policy=frozenset({"compact"}))
    )
    log.maintain(NOW + 1000 * HOUR)
    assert log.start_offset == 0
    assert offsets(log) == list(range(10))


def test_deleted_records_are_not_read_and_their_segments_go(logs: Logs) -> None:
    log = filled(logs, config())
    log.raise_start_offset(5)
    assert log.start_offset == 5
    assert offsets(log) == [5, 6, 7, 8, 9]
    assert log.maintain(NOW)
    assert log.segments.first.base_offset == 4
    log.raise_start_offset(3)
    assert log.start_offset == 5


def test_all_records_may_be_deleted(logs: Logs) -> None:
    log = filled(logs, config())
    log.raise_start_offset(10)
    assert log.maintain(NOW)
    assert (log.start_offset, log.end_offset, log.size) == (10, 10, 0)
    log.close()
    log = logs.open(start_offset=10)
    assert append(log, batch()).base_offset == 10


@pytest.mark.parametrize("offset", [-1, 11])
def test_records_beyond_the_high_watermark_cannot_be_deleted(logs: Logs, offset: int) -> None:
    log = filled(logs, config())
    with pytest.raises(KafkaError) as refused:
        log.raise_start_offset(offset)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    log.high_watermark = 5
    with pytest.raises(KafkaError):
        log.raise_start_offset(6)


def test_files_are_renamed_first_and_removed_when_their_time_has_come(logs: Logs) -> None:
    log = filled(logs, config(retention_bytes=8 * SIZE, file_delete_delay_ms=1000))
    log.maintain(NOW)
    renamed = [name for name in logs.names() if name.endswith(".deleted")]
    assert renamed == [f"{0:020d}{suffix}.deleted" for suffix in (".index", ".log", ".timeindex")]
    assert sorted(path for path, _ in log.doomed) == [
        f"{logs.directory}/{name}" for name in renamed
    ]
    assert {due for _, due in log.doomed} == {NOW + 1000}
    assert log.remove_doomed(NOW + 999) == NOW + 1000
    assert log.remove_doomed(NOW + 1000) is None
    assert not [name for name in logs.names() if name.endswith(".deleted")]


def test_the_snapshot_of_a_segment_goes_with_it(logs: Logs) -> None:
    log = filled(logs, config(retention_bytes=4 * SIZE, file_delete_delay_ms=0))
    log.maintain(NOW)
    log.remove_doomed(NOW)
    kept = {name for name in logs.names() if name.endswith(".snapshot")}
    assert kept == {f"{6:020d}.snapshot", f"{8:020d}.snapshot"}


def test_epochs_of_what_is_gone_are_forgotten(logs: Logs) -> None:
    log = logs.open(config(retention_bytes=2 * SIZE))
    for i in range(6):
        append(log, batch(), leader_epoch=i // 2)
    log.maintain(NOW)
    assert log.epochs.entries() == [(2, 4)]


def test_records_without_a_timestamp_age_with_their_file(logs: Logs) -> None:
    log = logs.open(config(retention_ms=HOUR))
    append(log, batch(timestamp=-1))
    log.roll()
    written = int((logs.directory / f"{0:020d}.log").stat().st_mtime * 1000)
    assert not log.maintain(written + HOUR)
    assert log.maintain(written + HOUR + 2)


def test_a_deleted_log_gets_kafkas_name_for_it(logs: Logs) -> None:
    log = filled(logs, config(), 2)
    renamed = log.delete()
    topic, _, unique = renamed.name.partition(".")
    assert topic == "orders-3"
    assert unique.endswith("-delete")
    assert len(unique) == 32 + len("-delete")
    assert not logs.directory.exists()
    assert (renamed / f"{0:020d}.log").exists()
    assert log.offline


def test_a_log_whose_folder_cannot_be_renamed_has_ended_too(logs: Logs) -> None:
    log = filled(logs, config(), 2)
    shutil.rmtree(logs.directory)
    with capture_logs() as said, pytest.raises(FileNotFoundError):
        log.delete()
    assert log.offline
    assert all(segment.file.fd == -1 for segment in log.segments)
    assert said == []  # the caller that deletes it logs it


def test_the_name_of_a_deleted_log_is_never_too_long(logs: Logs) -> None:
    logs.directory = logs.directory.with_name("t" * 249 + "-0")
    renamed = logs.open().delete()
    assert len(renamed.name) == 255
    assert renamed.exists()


def test_a_full_disk_without_room_for_a_name_loses_the_file_at_once(logs: Logs) -> None:
    """What is out of the log must not be found by the next recovery: it would be a gap."""
    log = logs.open(LogConfig(segment_bytes=1000))
    for _ in range(30):
        append(log, batch(1, size=100))
    second = log.segments.after(log.segments.first)
    assert second is not None
    rename = logs.files.rename

    def full(old: str, new: str) -> None:
        if old.startswith(second.path):
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(old, new)

    logs.files.rename = full
    log.set_config(LogConfig(segment_bytes=1000, retention_bytes=log.size - 2000))
    log.maintain(NOW)
    start = log.segments.first.base_offset
    assert start > second.base_offset
    assert not [name for name in logs.names() if name.startswith(stem(second.base_offset))]
    assert log.size == sum(segment.size for segment in log.segments)
    logs.crash(log)
    found = logs.open(LogConfig(segment_bytes=1000), clean=False)
    assert [header.base_offset for header in read_headers(found)] == list(range(start, 30))
