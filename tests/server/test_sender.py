"""What a connection still has to send: in order, a turn's share at a time, never waiting."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.log.storage.file_cache import FileCache, OpenFile, Slice
from ottla.log.storage.page_cache import read_stretch
from ottla.server import sender as sender_module
from ottla.server.outbox import Outbox
from ottla.server.sender import COLD_FOR_SECONDS, TURN_BYTES, WARM_FOR_SECONDS, Sender

Ends = tuple[Sender, Outbox, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A sender, its outbox, and the other end of the connection."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(10)
    with ours, theirs:
        outbox = Outbox()
        yield Sender(ours, outbox), outbox, theirs


@pytest.fixture
def log_file(tmp_path: Path) -> OpenFile:
    path = tmp_path / "0.log"
    path.write_bytes(os.urandom(3 << 20))
    return FileCache(10).file(str(path))


def stretch(file: OpenFile, position: int, size: int) -> Slice:
    file.pin()
    return Slice(file, position, size)


def content(part: Slice) -> bytes:
    return os.pread(part.file.fd, part.size, part.position)


def take(theirs: socket.socket, sender: Sender, outbox: Outbox) -> bytes:
    """Everything, while the outbox sends it."""
    received = bytearray()
    while outbox.size:
        sender.send()
        received += theirs.recv(1 << 20)
    theirs.setblocking(False)
    try:
        while chunk := theirs.recv(1 << 20):
            received += chunk
    except BlockingIOError:
        pass
    return bytes(received)


def test_parts_leave_in_their_order(ends: Ends, log_file: OpenFile) -> None:
    sender, outbox, theirs = ends
    first, second = stretch(log_file, 10, 500_000), stretch(log_file, 1 << 20, 1 << 20)
    outbox.add_bytes(b"head")
    outbox.add_file(first)
    outbox.add_bytes(b"between")
    outbox.add_bytes(b"them")
    outbox.add_file(second)
    outbox.add_bytes(b"end")
    expected = b"head" + content(first) + b"betweenthem" + content(second) + b"end"
    assert outbox.size == len(expected)
    assert take(theirs, sender, outbox) == expected
    assert outbox.size == 0


def test_more_parts_than_one_system_call_takes_all_leave(ends: Ends) -> None:
    sender, outbox, theirs = ends
    for number in range(1000):
        outbox.add_bytes(b"%d," % number)
    assert take(theirs, sender, outbox) == b"".join(b"%d," % number for number in range(1000))


def test_a_full_socket_keeps_the_rest(ends: Ends) -> None:
    sender, outbox, theirs = ends
    data = os.urandom(4 << 20)
    outbox.add_bytes(data)
    sent = sender.send()
    assert 0 < sent < len(data)
    assert outbox.size
    assert outbox.size == len(data) - sent
    assert take(theirs, sender, outbox) == data


def test_one_turn_sends_a_bounded_share(log_file: OpenFile) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with ours, theirs:
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
        outbox = Outbox()
        sender = Sender(ours, outbox)
        outbox.add_file(stretch(log_file, 0, 3 << 20))
        assert sender.send() <= TURN_BYTES


def test_a_file_is_let_go_when_its_stretch_has_left(ends: Ends, log_file: OpenFile) -> None:
    sender, outbox, theirs = ends
    outbox.add_file(stretch(log_file, 0, 1000))
    log_file.retire()
    assert log_file.fd >= 0
    take(theirs, sender, outbox)
    assert log_file.fd == -1


def test_files_are_let_go_when_the_connection_ends(ends: Ends, log_file: OpenFile) -> None:
    sender, outbox, _ = ends
    outbox.add_file(stretch(log_file, 0, 3 << 20))
    outbox.add_file(stretch(log_file, 0, 1000))
    sender.send()
    outbox.clear()
    assert log_file.pins == 0
    assert outbox.size == 0


def test_a_stretch_that_is_not_in_memory_is_read_by_a_thread_and_leaves_from_memory(
    ends: Ends, log_file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, outbox, theirs = ends
    size = TURN_BYTES + 1000
    outbox.add_bytes(b"head")
    outbox.add_file(stretch(log_file, 0, size))
    expected = b"head" + content(Slice(log_file, 0, size))

    def cold(*_: object) -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "preadv", cold)
    sender.send()
    assert outbox.cold is not None
    assert (outbox.cold.position, outbox.cold.size) == (0, TURN_BYTES)
    assert sender.send() == 0
    received = bytearray()
    while outbox.size:
        if outbox.cold is not None:
            outbox.take(read_stretch(outbox.cold))
        sender.send()
        received += theirs.recv(1 << 20)
    while len(received) < len(expected):
        received += theirs.recv(1 << 20)
    assert bytes(received) == expected
    assert outbox.size == 0
    assert log_file.pins == 0


def test_where_something_was_cold_what_follows_is_not_believed_for_a_while(
    ends: Ends, log_file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, outbox, theirs = ends
    now = 100.0
    warm = False
    monkeypatch.setattr(sender_module, "monotonic", lambda: now)
    monkeypatch.setattr(sender_module, "in_page_cache", lambda *_: warm)

    def is_read_by_a_thread() -> bool:
        outbox.add_file(stretch(log_file, 0, 1000))
        sender.send()
        by_thread = outbox.cold is not None
        if outbox.cold is not None:
            outbox.take(read_stretch(outbox.cold))
            sender.send()
        theirs.recv(1000, socket.MSG_WAITALL)
        return by_thread

    assert is_read_by_a_thread()
    warm = True
    assert is_read_by_a_thread(), "it may be dropped again"
    now += COLD_FOR_SECONDS + 1
    assert not is_read_by_a_thread()


def test_a_file_that_shrank_cannot_be_read_by_a_thread(log_file: OpenFile) -> None:
    os.truncate(log_file.path, 1000)
    with pytest.raises(OSError, match="missing"):
        read_stretch(stretch(log_file, 500, 1000))


def test_what_a_slow_client_takes_late_is_looked_for_again(
    ends: Ends, log_file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, outbox, theirs = ends
    now = 0.0
    probed: list[int] = []

    def probe(_: int, position: int, __: int) -> bool:
        probed.append(position)
        return True

    monkeypatch.setattr(sender_module, "monotonic", lambda: now)
    monkeypatch.setattr(sender_module, "in_page_cache", probe)
    outbox.add_file(stretch(log_file, 0, 1 << 20))
    first = sender.send()
    assert 0 < first < 1 << 20
    theirs.recv(first, socket.MSG_WAITALL)
    second = sender.send()
    assert probed == [0]
    theirs.recv(second, socket.MSG_WAITALL)
    now = 2 * WARM_FOR_SECONDS
    sender.send()
    assert probed == [0, first + second]


def test_a_file_that_shrank_breaks_the_connection(ends: Ends, log_file: OpenFile) -> None:
    sender, outbox, _ = ends
    outbox.add_file(stretch(log_file, 1000, 5000))
    os.truncate(log_file.path, 1000)
    with pytest.raises(OSError, match="missing"):
        sender.send()
    outbox.clear()
    assert log_file.pins == 0


def test_a_client_that_has_gone_breaks_the_connection(ends: Ends) -> None:
    sender, outbox, theirs = ends
    theirs.close()
    outbox.add_bytes(b"too late")
    with pytest.raises(BrokenPipeError):
        sender.send()
