"""A disk that fails, at every single file operation of a log's life, in every way it can.

One story is told again and again: a log is opened, written, rolled, flushed, truncated, retained
and closed. Each time another one of its file operations fails. Whatever happens:
1. Nothing but KafkaError (or, while opening and closing, OSError) comes out.
2. A log that is still online holds exactly what it acknowledged.
3. After the next start, every record that was acknowledged and flushed is there, and nothing is
   there that was never acknowledged, except a last batch whose answer the failure took.
"""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.storage.files import DISK_IS_FULL, Bytes
from ottla.wire.batch import HEADER
from ottla.wire.errors import ErrorCode, KafkaError
from tests.log.faulty import FaultyFiles, Killed
from tests.log.making import NOW, Logs, append, batch, flush, read_all, read_headers

CONFIG = LogConfig(segment_bytes=450, index_interval_bytes=0, file_delete_delay_ms=0)
SIZE = len(batch(2))


class Story:
    """The calls to the log, and their results."""

    def __init__(self, logs: Logs, files: FaultyFiles) -> None:
        self.logs = logs
        self.files = files
        self.log: Log | None = None
        self.acknowledged: list[int] = []
        """Sequences of the batches that were acknowledged and not truncated since."""
        self.unknown: int | None = None
        """The sequence of a batch whose answer was lost."""
        self.checkpoint = 0
        """The recovery point that a checkpoint file would have."""
        self.flushed = 0
        self.start_offset = 0
        self._has_looked = False

    def tell(self) -> None:
        """Live a log's life, as far as the disk lets it."""
        self.log = log = self.logs.open(CONFIG)
        for _ in self._steps(log):
            self.checkpoint = log.recovery_point
            self.start_offset = log.start_offset
            if log.offline:
                return
            if self.files.failed is not None and not self._has_looked:
                self._look(log)
        self._look(log)
        if self.log.offline:
            return
        log.close()
        self.checkpoint = self.flushed = log.end_offset

    def _look(self, log: Log) -> None:
        """A log that is online holds exactly what it acknowledged."""
        self._has_looked = True
        expected = [each for each in self.acknowledged if 2 * each >= log.start_offset]
        found: list[int] = []
        if not self._was_done(lambda: found.extend(self.sequences(log))):
            if log.offline:
                return
            found = self.sequences(log)
        assert found == expected

    def sequences(self, log: Log) -> list[int]:
        """Which batches a log holds."""
        return [header.base_sequence // 2 for header in read_headers(log)]

    @staticmethod
    def _was_done(step: Callable[[], object]) -> bool:
        """Take a step; the only way it may fail is KAFKA_STORAGE_ERROR."""
        try:
            step()
        except KafkaError as refused:
            if refused.code != ErrorCode.KAFKA_STORAGE_ERROR:
                raise AssertionError(f"the log answered {refused.code.name}") from refused
            return False
        return True

    def _append(self, log: Log, count: int) -> Iterator[None]:
        for _ in range(count):
            sequence = log.end_offset // 2
            self.unknown = sequence
            records = batch(2, timestamp=NOW, producer=1, epoch=0, sequence=2 * sequence)
            if self._was_done(lambda: append(log, records)):  # noqa: B023 (it is called at once)
                self.acknowledged.append(sequence)
            self.unknown = None
            yield

    def _flush(self, log: Log) -> Iterator[None]:
        try:
            self._was_done(lambda: flush(log))
        except OSError as problem:
            # A full disk refuses a new file, and the old one stands.
            if problem.errno not in DISK_IS_FULL:
                assert log.offline
        self.flushed = max(self.flushed, log.recovery_point)
        yield

    def _truncate(self, log: Log, offset: int) -> Iterator[None]:
        self.checkpoint = min(self.checkpoint, offset)
        self.flushed = min(self.flushed, offset)
        if self._was_done(lambda: log.truncate_to(offset)):
            # Where it was not, how much of it was done is not known.
            self.acknowledged = [each for each in self.acknowledged if 2 * each + 1 < offset]
        yield

    def _maintain(self, log: Log) -> Iterator[None]:
        self._was_done(lambda: log.maintain(NOW))
        log.remove_doomed(NOW)
        yield

    def _steps(self, log: Log) -> Iterator[None]:
        yield from self._append(log, 4)
        yield from self._flush(log)
        yield from self._append(log, 4)
        yield from self._flush(log)
        yield from self._append(log, 2)
        yield from self._truncate(log, 12)
        yield from self._append(log, 3)
        yield from self._flush(log)
        log.set_config(LogConfig(segment_bytes=450, retention_bytes=4 * SIZE))
        yield from self._maintain(log)
        yield from self._append(log, 1)


def run(directory: Path, files: FaultyFiles) -> Story:
    story = Story(Logs(directory, files, open_files=2), files)
    try:
        story.tell()
    except Killed:
        pass
    except (OSError, KafkaError):
        assert story.log is None or story.log.offline, "only opening and closing may raise this"
    return story


def check_next_start(story: Story) -> None:
    logs = Logs(story.logs.directory)
    log = logs.open(
        CONFIG, clean=False, recovery_point=story.checkpoint, start_offset=story.start_offset
    )
    found = story.sequences(log)
    first = log.start_offset // 2
    possible = [sequence for sequence in story.acknowledged if sequence >= first]
    if story.unknown is not None:
        possible.append(story.unknown)
    assert found == possible[: len(found)]
    assert 2 * (first + len(found)) >= story.flushed
    assert log.end_offset == 2 * (first + len(found))
    assert read_all(log)[: HEADER.size] or not found
    end = log.end_offset
    appended = append(log, batch(2, producer=1, epoch=0, sequence=end))
    assert appended.base_offset == end
    logs.close()


def operations(tmp_path: Path) -> list[str]:
    """The file operations of the story, when nothing fails."""
    files = FaultyFiles()
    story = run(tmp_path / "t-0", files)
    assert story.acknowledged == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    check_next_start(story)
    return files.done


@pytest.mark.parametrize(
    "fault",
    [errno.EIO, errno.ENOSPC, "short", "kill"],
    ids=["EIO", "ENOSPC", "short write", "kill"],
)
def test_every_operation_may_fail(tmp_path: Path, fault: int | str) -> None:
    names = operations(tmp_path)
    assert len(names) > 100
    for number, name in enumerate(names):
        if fault == "short" and name != "pwrite":
            continue
        files = FaultyFiles(number, fault)
        story = run(tmp_path / f"t{number}-0", files)
        assert files.failed is not None
        try:
            check_next_start(story)
        except Exception as problem:
            raise AssertionError(f"after operation {number}, {name}, failed") from problem
        finally:
            files.close_all()


def test_a_short_write_is_undone_and_the_log_stays_online(tmp_path: Path) -> None:
    files = FaultyFiles(fault="short")
    logs = Logs(tmp_path / "t-0", files)
    log = logs.open()
    append(log, batch())
    expected = read_all(log)
    files.fail_at = files.count
    with pytest.raises(KafkaError) as refused:
        append(log, batch())
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert refused.value.message == "t-0: No space left on device"
    assert not log.offline
    assert (logs.directory / f"{0:020d}.log").read_bytes() == expected
    assert append(log, batch()).base_offset == 1
    logs.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_refuses_batches_until_there_is_room(tmp_path: Path, number: int) -> None:
    files = FaultyFiles(fault=number)
    logs = Logs(tmp_path / "t-0", files)
    log = logs.open()
    append(log, batch(producer=1, epoch=0, sequence=0))
    files.fail_at = files.count
    with pytest.raises(KafkaError) as refused:
        append(log, batch(producer=1, epoch=0, sequence=1))
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.offline
    assert append(log, batch(producer=1, epoch=0, sequence=1)).base_offset == 1
    logs.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_is_truncated_even_while_the_disk_is_full(tmp_path: Path, clean: bool) -> None:
    files = FaultyFiles(fault=errno.ENOSPC)
    logs = Logs(tmp_path / "t-0", files)
    log = logs.open(LogConfig(index_interval_bytes=0))
    for _ in range(6):
        append(log, batch())
    before = files.write_fully
    full: list[int] = []

    def no_room(fd: int, data: Bytes, position: int) -> None:
        full.append(position)
        raise OSError(errno.ENOSPC, "No space left on device")

    files.write_fully = no_room  # type: ignore[method-assign]  # the disk is full from here on
    assert log.truncate_to(3)
    assert full
    assert (log.offline, log.end_offset) == (False, 3)
    files.write_fully = before  # type: ignore[method-assign]  # there is room again
    assert append(log, batch()).base_offset == 3
    expected = read_all(log)
    if clean:
        log.close()
    logs.crash(log)
    log = logs.open(clean=clean, recovery_point=log.recovery_point)
    assert read_all(log) == expected
    logs.close()


def test_a_broken_disk_takes_the_log_offline(tmp_path: Path) -> None:
    files = FaultyFiles(fault=errno.EIO)
    logs = Logs(tmp_path / "t-0", files)
    log = logs.open()
    append(log, batch())
    files.fail_at = files.count
    for _ in range(2):
        with pytest.raises(KafkaError) as refused:
            append(log, batch())
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert log.offline
    assert isinstance(log.failure, OSError)
    assert len(logs.cache) == 0


def test_if_even_the_undoing_fails_the_log_goes_offline(tmp_path: Path) -> None:
    files = FaultyFiles(fault="short")
    logs = Logs(tmp_path / "t-0", files)
    log = logs.open()
    files.fail_at = files.count

    def broken(fd: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    files.ftruncate = broken
    with pytest.raises(KafkaError):
        append(log, batch())
    assert log.offline


@pytest.mark.parametrize("then", ["close", "append", "roll"])
def test_a_torn_write_that_could_not_be_truncated_goes_before_the_next_step(
    tmp_path: Path, then: str
) -> None:
    """Some file systems need room to make a file shorter."""
    files = FaultyFiles()
    logs = Logs(tmp_path / "t-0", files)
    log = logs.open()
    append(log, batch())
    pwrite, ftruncate = files.pwrite, files.ftruncate

    def half(fd: int, data: Bytes, position: int) -> int:
        return pwrite(fd, memoryview(data)[: len(data) // 2], position)

    def full(_: int, __: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    files.pwrite, files.ftruncate = half, full
    with pytest.raises(KafkaError, match="No space left"):
        append(log, batch(size=1000))
    files.pwrite = pwrite
    steps: list[Callable[[], object]] = [lambda: append(log, batch()), log.roll]
    for step in steps:
        with pytest.raises(KafkaError, match="No space left"):
            step()
    files.ftruncate = ftruncate
    if then == "append":
        append(log, batch())
    elif then == "roll":
        log.roll(NOW)
        append(log, batch())
    log.close()
    log = logs.open()
    assert log.end_offset == (1 if then == "close" else 2)
    assert len(read_headers(log)) == log.end_offset
    log.close()
