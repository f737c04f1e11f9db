"""A reader that does not wait for the disk learns what has to be read first."""

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.storage.files import NOWAIT
from ottla.log.storage.page_cache import ColdReadError

from .making import NOW, Logs, append, batch

T = TypeVar("T")


def cold(_fd: int, _buffers: list[bytearray], _position: int, _flags: int) -> int:
    raise BlockingIOError


def test_a_cold_read_raises_instead_of_waiting(logs: Logs) -> None:
    log = logs.open()
    append(log, batch())
    append(log, batch())
    log.files.preadv = cold
    with pytest.raises(ColdReadError) as problem:
        log.read(0, 1 << 20, log.end_offset, True, may_wait=False)
    assert problem.value.stretch.position == 0
    assert problem.value.stretch.file.pins == 0
    assert not log.offline


def test_a_reader_that_may_wait_reads_it_from_disk(logs: Logs) -> None:
    log = logs.open()
    append(log, batch())
    log.files.preadv = cold
    found = log.read(0, 1 << 20, log.end_offset, True)
    assert found is not None
    found.file.unpin()


def test_a_place_that_is_cold_in_part_is_cold(logs: Logs) -> None:
    log = logs.open()
    append(log, batch())
    append(log, batch())
    log.files.preadv = lambda *_: 10
    with pytest.raises(ColdReadError):
        log.read(0, 1 << 20, log.end_offset, True, may_wait=False)


def test_a_file_system_that_cannot_tell_is_read(logs: Logs) -> None:
    def unsupported(*_: object) -> int:
        raise OSError(95, "Operation not supported")

    log = logs.open()
    append(log, batch())
    log.files.preadv = unsupported
    found = log.read(0, 1 << 20, log.end_offset, True, may_wait=False)
    assert found is not None
    found.file.unpin()


def after_a_restart(logs: Logs, size: int) -> Log:
    """A log of several segments whose indexes are not in memory."""
    log = logs.open(LogConfig(segment_bytes=3 * size))
    for number in range(12):
        append(log, batch(timestamp=NOW + number, size=size))
    log.close()
    return logs.open(LogConfig(segment_bytes=3 * size), clean=True)


class SlowDisk:
    """No file is in the page cache before it was read, and who looks things up never waits."""

    def __init__(self, log: Log) -> None:
        self._files = log.files
        self._preadv, self._pread = log.files.preadv, log.files.pread
        self.warm: list[str] = []
        log.files.preadv = self._probe
        log.files.pread = self._refuse

    def _probe(self, fd: int, buffers: list[bytearray], position: int, flags: int) -> int:
        if os.readlink(f"/proc/self/fd/{fd}") not in self.warm:
            raise BlockingIOError
        return self._preadv(fd, buffers, position, flags)

    def _refuse(self, _fd: int, _size: int, _position: int) -> bytes:
        raise AssertionError("the disk was waited for")

    def look(self, look: Callable[[], T]) -> T:
        """Look again and again, each time with one more file in the page cache."""
        while True:
            try:
                return look()
            except ColdReadError as cold:
                path = str(cold).partition(" at ")[0]
                assert path not in self.warm, "it was read once"
                self.warm.append(path)
                self._files.pread = self._pread
                cold.hold()
                cold.read()
                cold.release()
                self._files.pread = self._refuse


LARGE = 300 << 10
# Without RWF_NOWAIT (Linux) the kernel cannot say what is cached, and everything is just read.


@pytest.mark.skipif(not NOWAIT, reason="this system cannot tell what is in its page cache")
@pytest.mark.parametrize("size", [100, LARGE])
def test_a_time_is_looked_up_without_waiting_for_the_disk(logs: Logs, size: int) -> None:
    log = after_a_restart(logs, size)
    disk = SlowDisk(log)
    found = disk.look(lambda: log.offset_for_timestamp(NOW + 7, log.end_offset, may_wait=False))
    assert found is not None
    assert found.offset == 7
    newest = disk.look(lambda: log.max_timestamp_offset(log.end_offset, may_wait=False))
    assert newest is not None
    assert newest.offset == 11
    assert {path.rpartition(".")[2] for path in disk.warm} == {"index", "timeindex", "log"}


@pytest.mark.skipif(not NOWAIT, reason="this system cannot tell what is in its page cache")
def test_an_index_is_loaded_without_waiting_for_the_disk(logs: Logs) -> None:
    log = after_a_restart(logs, 100)
    disk = SlowDisk(log)
    found = disk.look(lambda: log.read(4, 1 << 20, log.end_offset - 1, True, may_wait=False))
    assert found is not None
    found.file.unpin()
    assert any(path.endswith(".index") for path in disk.warm)
