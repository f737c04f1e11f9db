"""A reader that does not wait for the disk learns what has to be read first."""

import pytest

from ottla.log.files import ColdReadError

from .making import Logs, append, batch


def cold(_fd: int, _buffers: list[bytearray], _position: int, _flags: int) -> int:
    raise BlockingIOError


def test_a_cold_place_is_told_instead_of_waited_for(logs: Logs) -> None:
    log = logs.open()
    append(log, batch())
    append(log, batch())
    log.files.preadv = cold
    with pytest.raises(ColdReadError) as problem:
        log.read(0, 1 << 20, log.end_offset, True, may_wait=False)
    assert problem.value.stretch.position == 0
    assert problem.value.stretch.file.pins == 0
    assert not log.offline


def test_who_may_wait_reads_it_all_the_same(logs: Logs) -> None:
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
