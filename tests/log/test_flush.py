"""Flushing: what it covers, when the recovery point moves, and what a failure means."""

import errno
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla.log.config import LogConfig
from ottla.log.flush import Flush, run_together
from ottla.log.leader_epochs import FILE_NAME as EPOCHS_FILE
from ottla.log.leader_epochs import LeaderEpochFileCache
from ottla.log.log import Log
from ottla.log.storage.files import Files
from ottla.wire.errors import ErrorCode, KafkaError
from tests.log.faulty import FaultyFiles
from tests.log.making import NOW, Logs, append, batch, flush, read_all


def test_the_recovery_point_is_the_end_captured_before_the_fsync(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(3))
    begun = log.begin_flush()
    assert begun is not None
    append(log, batch(2))
    assert log.recovery_point == 0
    begun.run()
    assert log.recovery_point == 0
    log.end_flush(begun, NOW + 5)
    assert (log.recovery_point, log.unflushed_messages, log.last_flush_time) == (3, 2, NOW + 5)


def test_there_is_one_flush_at_a_time_and_none_without_need(logs: Logs) -> None:
    log = logs.open()
    flush(log)
    assert log.begin_flush() is None
    append(log, batch())
    begun = log.begin_flush()
    assert begun is not None
    assert log.flushing
    assert log.begin_flush() is None
    begun.run()
    log.end_flush(begun)
    assert log.begin_flush() is None


def test_a_flush_covers_every_segment_since_the_last_one(tmp_path: Path) -> None:
    files = FaultyFiles()
    logs = Logs(tmp_path / "t-0", files)
    log = logs.open(LogConfig(segment_bytes=300))
    for _ in range(10):
        append(log, batch())
    flush(log)
    for path in logs.directory.glob("*.log"):
        assert files.synced_size(path) == path.stat().st_size
    for path in logs.directory.glob("*.snapshot"):
        assert files.synced_size(path) == path.stat().st_size > 0
    logs.close()


def test_a_truncation_during_a_flush_holds_the_recovery_point_back(logs: Logs) -> None:
    log = logs.open()
    for _ in range(5):
        append(log, batch())
    begun = log.begin_flush()
    assert begun is not None
    log.truncate_to(2)
    for _ in range(5):
        append(log, batch())
    begun.run()
    log.end_flush(begun)
    assert log.recovery_point == 2


def test_a_failed_fsync_takes_the_log_offline_and_is_not_retried(tmp_path: Path) -> None:
    files = FaultyFiles()
    logs = Logs(tmp_path / "t-0", files)
    log = logs.open()
    append(log, batch())
    begun = log.begin_flush()
    assert begun is not None
    files.fail_at = files.count
    with pytest.raises(OSError, match="Input/output error"):
        begun.run()
    log.end_flush(begun)
    assert log.offline
    assert log.recovery_point == 0
    assert log.begin_flush() is None
    for use in (lambda: append(log, batch()), lambda: log.read(0, 100, 1, True)):
        with pytest.raises(KafkaError) as refused:
            use()
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not list(tmp_path.glob("*-delete"))


def test_a_full_disk_during_a_flush_leaves_the_log_online(tmp_path: Path) -> None:
    files = FaultyFiles(fault=errno.ENOSPC)
    logs = Logs(tmp_path / "t-0", files)
    log = logs.open(LogConfig(index_interval_bytes=0))
    for _ in range(5):
        append(log, batch())
    files.fail_at = files.count
    with pytest.raises(KafkaError) as refused:
        log.begin_flush()
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.offline
    flush(log)
    assert log.recovery_point == 5
    log.close()


@pytest.mark.parametrize("fails_after", range(8))
def test_what_a_full_disk_took_of_a_flush_is_brought_to_the_disk_with_the_rest(
    tmp_path: Path, fails_after: int
) -> None:
    files = FaultyFiles(fault=errno.ENOSPC)
    logs = Logs(tmp_path / "t-0", files)
    log = logs.open(LogConfig(index_interval_bytes=0, segment_bytes=400))
    for number in range(9):
        append(log, batch(timestamp=NOW + number))
    files.fail_at = files.count + fails_after
    with pytest.raises(KafkaError):
        log.begin_flush()
    flush(log)
    assert log.recovery_point == 9
    for path in (*logs.directory.glob("*.index"), *logs.directory.glob("*.timeindex")):
        assert files.synced_size(path) == path.stat().st_size, path.name
    log.close()


def test_deleting_a_log_is_not_a_disk_failure(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "t-0")
    log = logs.open()
    append(log, batch())
    begun = log.begin_flush()
    assert begun is not None
    log.delete()
    with capture_logs() as said:
        with pytest.raises(FileNotFoundError):
            begun.run()
        log.end_flush(begun)
    assert said == []


def test_a_flush_that_was_never_run_covers_nothing(tmp_path: Path) -> None:
    files = FaultyFiles()
    logs = Logs(tmp_path / "t-0", files)
    log = logs.open(LogConfig(index_interval_bytes=0))
    for _ in range(5):
        append(log, batch())
    begun = log.begin_flush()
    assert begun is not None
    log.end_flush(begun)
    assert log.recovery_point == 0
    flush(log)
    assert log.recovery_point == 5
    for path in logs.directory.glob("*.index"):
        assert files.synced_size(path) == path.stat().st_size > 0
    log.close()


def test_files_stay_open_while_they_are_flushed(logs: Logs) -> None:
    logs.cache.limit = 1
    log = logs.open(LogConfig(segment_bytes=300))
    for _ in range(10):
        append(log, batch())
    begun = log.begin_flush()
    assert begun is not None
    log.set_config(LogConfig(retention_bytes=0, segment_bytes=300))
    log.maintain(NOW)
    begun.run()
    log.end_flush(begun)
    assert log.recovery_point == 10
    assert len(logs.cache) <= 1


def test_closing_writes_everything_and_opening_finds_it(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(3, timestamp=NOW + 7), leader_epoch=4)
    expected = read_all(log)
    log.close()
    with pytest.raises(KafkaError):
        append(log, batch())
    log = logs.open()
    assert read_all(log) == expected
    assert log.recovery_point == log.end_offset == 3
    assert log.epochs.entries() == [(4, 0)]
    newest = log.max_timestamp_offset(100)
    assert newest is not None
    assert newest.timestamp == NOW + 9


def test_closing_an_unchanged_log_writes_nothing(tmp_path: Path) -> None:
    files = FaultyFiles()
    logs = Logs(tmp_path / "t-0", files)
    log = logs.open()
    append(log, batch())
    log.close()
    log = logs.open()
    before = files.count
    log.close()
    assert files.count - before <= 1


def begun(log: Log) -> Flush:
    append(log, batch())
    captured = log.begin_flush()
    assert captured is not None
    return captured


def test_logs_that_are_flushed_together_fail_each_for_itself(tmp_path: Path) -> None:
    files = FaultyFiles()
    all_logs = [Logs(tmp_path / f"t-{number}", files) for number in range(3)]
    opened = [logs.open() for logs in all_logs]
    flushes = [begun(log) for log in opened]
    real, broken = files.fdatasync, flushes[1].pinned[0].fd

    def sync(fd: int) -> None:
        if fd == broken:
            raise OSError(errno.EIO, "Input/output error")
        real(fd)

    files.fdatasync = sync
    run_together(flushes)
    for log, ended in zip(opened, flushes, strict=True):
        log.end_flush(ended)
    assert [log.recovery_point for log in opened] == [1, 0, 1]
    assert [log.offline for log in opened] == [False, True, False]
    for logs in (all_logs[0], all_logs[2]):
        for path in logs.directory.iterdir():
            assert files.synced_size(path) == path.stat().st_size, path.name
        logs.close()


def test_a_folder_that_many_flushes_need_is_synced_once(tmp_path: Path) -> None:
    files = FaultyFiles()
    all_logs = [Logs(tmp_path / f"t-{number}", files) for number in range(3)]
    flushes = [begun(logs.open()) for logs in all_logs]
    synced: list[str] = []

    def sync_directory(path: str) -> None:
        synced.append(path)

    files.sync_directory = sync_directory  # type: ignore[method-assign]
    run_together(flushes)
    assert all(each.done for each in flushes)
    assert sorted(synced) == sorted([*(str(logs.directory) for logs in all_logs), str(tmp_path)])
    for logs in all_logs:
        logs.close()


@pytest.mark.parametrize("when", ["before it runs", "before it takes its place"])
@pytest.mark.parametrize("keep", [False, True], ids=["deleted", "set aside"])
def test_a_late_flush_writes_nothing_into_the_folder_of_another_topic(
    tmp_path: Path, when: str, keep: bool
) -> None:
    files = Files()
    logs = Logs(tmp_path / "t-0", files)
    log = logs.open()
    append(log, batch(), leader_epoch=7)
    begun = log.begin_flush()
    assert begun is not None

    def recreate() -> None:
        log.delete(keep=keep)
        successor = logs.open()
        append(successor, batch(), leader_epoch=0)
        flush(successor)

    if when == "before it runs":
        recreate()
    else:
        sync = files.fdatasync

        def recreate_and_sync(descriptor: int) -> None:
            files.fdatasync = sync
            recreate()
            sync(descriptor)

        files.fdatasync = recreate_and_sync
    run_together([begun])
    log.end_flush(begun)
    assert (logs.directory / EPOCHS_FILE).read_bytes() == LeaderEpochFileCache([(0, 0)]).to_bytes()
    assert not [*logs.directory.glob("*.tmp")]
    logs.close()
