"""Gates: open, silent and refusing."""

import socket
import threading
from collections.abc import Iterator

import pytest

from testkit.proxy import Gate, Gates, Mode

PATIENCE_SECONDS = 5.0
SILENCE_SECONDS = 0.2


class Far:
    """The other end: takes connections and says what it was sent."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.connections: list[socket.socket] = []
        self.came = threading.Semaphore(0)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            connection.settimeout(PATIENCE_SECONDS)
            self.connections.append(connection)
            self.came.release()

    def next(self) -> socket.socket:
        assert self.came.acquire(timeout=PATIENCE_SECONDS)
        return self.connections[-1]

    def close(self) -> None:
        self._server.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture
def far() -> Iterator[Far]:
    other_end = Far()
    yield other_end
    other_end.close()


@pytest.fixture
def gate(far: Far) -> Iterator[Gate]:
    with Gates() as gates:
        yield gates.gate(far.port)


def connect(gate: Gate) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gate.port), timeout=PATIENCE_SECONDS)


def test_an_open_gate_passes_bytes_both_ways(gate: Gate, far: Far) -> None:
    with connect(gate) as near:
        near.sendall(b"there")
        other = far.next()
        assert other.recv(10) == b"there"
        other.sendall(b"back")
        assert near.recv(10) == b"back"


def test_a_silent_gate_delivers_when_it_opens(gate: Gate, far: Far) -> None:
    with connect(gate) as near:
        near.sendall(b"1")
        other = far.next()
        assert other.recv(10) == b"1"
        gate.set(Mode.SILENT)
        near.sendall(b"2")
        other.settimeout(SILENCE_SECONDS)
        with pytest.raises(TimeoutError):
            other.recv(10)
        gate.set(Mode.OPEN)
        other.settimeout(PATIENCE_SECONDS)
        assert other.recv(10) == b"2"


def test_nothing_arrives_late_from_who_gave_up(gate: Gate, far: Far) -> None:
    with connect(gate) as near:
        near.sendall(b"1")
        other = far.next()
        assert other.recv(10) == b"1"
        gate.set(Mode.SILENT)
        near.sendall(b"2")
    try:
        assert other.recv(10) == b""
    except ConnectionResetError:
        pass
    gate.set(Mode.OPEN)


def test_a_refusing_gate_resets_connections_old_and_new(gate: Gate, far: Far) -> None:
    with connect(gate) as near:
        near.sendall(b"1")
        far.next()
        gate.set(Mode.REFUSING)
        with pytest.raises(ConnectionResetError):
            near.recv(10)
    with pytest.raises(ConnectionResetError), connect(gate) as late:
        late.recv(10)
    gate.set(Mode.OPEN)
    with connect(gate) as again:
        again.sendall(b"2")
        assert far.next().recv(10) == b"2"
