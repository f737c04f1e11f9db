"""Kafka's protocol on a bare socket, for claims that no client library would let a test make.

Rules kept here:
1. A connection sends exactly what it is told, valid or not, and reads whole frames.
2. Whatever a test waits for has a deadline; running past it fails the test with TimeoutError.
3. A connection that the broker has ended raises ClosedError, however the end shows (FIN or RST).
"""

import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypeVar

from ottla.wire import codec
from ottla.wire.headers import read_response_header, write_request_header
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from testkit.waiting import stretched

R = TypeVar("R", bound=Message)

SIZE = struct.Struct(">i")
PATIENCE_SECONDS = 20.0


class ClosedError(Exception):
    """The broker ended the connection."""


def address(bootstrap: str) -> tuple[str, int]:
    """Host and port of a `host:port`."""
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def frame(data: bytes) -> bytes:
    """A request or response with its size before it."""
    return SIZE.pack(len(data)) + data


def request_bytes(
    request: Message, version: int, correlation_id: int = 0, client_id: str | None = "raw"
) -> bytes:
    """A whole request without its size: header and body."""
    header = write_request_header(request.API_KEY, version, correlation_id, client_id)
    return header + codec.encode(request, version)


class Connection:
    """One connection to a broker."""

    def __init__(self, bootstrap: str, patience: float | None = None) -> None:
        if patience is None:
            patience = stretched(PATIENCE_SECONDS)
        self.socket = socket.create_connection(address(bootstrap), timeout=patience)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection from this side."""
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as problem:
            raise ClosedError(str(problem)) from None

    def send(self, request: Message, version: int, client_id: str | None = "raw") -> int:
        """Send a request; return its correlation id."""
        self._correlation_id += 1
        self.send_bytes(frame(request_bytes(request, version, self._correlation_id, client_id)))
        return self._correlation_id

    def send_together(self, requests: Sequence[tuple[Message, int]]) -> list[int]:
        """Send several requests in one write, without waiting in between."""
        frames = []
        ids = []
        for request, version in requests:
            self._correlation_id += 1
            ids.append(self._correlation_id)
            frames.append(frame(request_bytes(request, version, self._correlation_id)))
        self.send_bytes(b"".join(frames))
        return ids

    def receive_frame(self) -> bytes:
        """The next reply without its size."""
        (size,) = SIZE.unpack(self._take(SIZE.size))
        return self._take(size)

    def receive(self, response: type[R], version: int) -> tuple[int, R]:
        """The next reply: its correlation id and its message."""
        data = self.receive_frame()
        correlation_id, at = read_response_header(memoryview(data), response.API_KEY, version)
        message, end = codec.decode_prefix(response, version, data, at)
        assert end == len(data), f"{len(data) - end} bytes too many in {response.__name__}"
        return correlation_id, message

    def ask(self, request: Message, response: type[R], version: int) -> R:
        """Send a request and wait for its reply."""
        sent = self.send(request, version)
        answered, message = self.receive(response, version)
        assert answered == sent, f"reply to {answered}, not to {sent}"
        return message

    def finish_sending(self) -> None:
        """Close this side's half; replies can still be read."""
        self.socket.shutdown(socket.SHUT_WR)

    def wait_until_closed(self) -> bytes:
        """Wait for the broker to end the connection; return what it still said before."""
        try:
            while chunk := self.socket.recv(65536):
                self._received += chunk
        except ConnectionResetError:
            pass
        return bytes(self._received)

    def has_reply(self, within: float) -> bool:
        """True if any byte of a reply is there, now or within some seconds."""
        if self._received:
            return True
        patience = self.socket.gettimeout()
        self.socket.settimeout(within)
        try:
            chunk = self.socket.recv(65536)
        except (TimeoutError, BlockingIOError):
            return False
        except ConnectionResetError as problem:
            raise ClosedError(str(problem)) from None
        finally:
            self.socket.settimeout(patience)
        if not chunk:
            raise ClosedError("end of stream")
        self._received += chunk
        return True

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            try:
                chunk = self.socket.recv(max(65536, size - len(self._received)))
            except ConnectionResetError as problem:
                raise ClosedError(str(problem)) from None
            if not chunk:
                raise ClosedError("end of stream")
            self._received += chunk
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken


def served(bootstrap: str) -> dict[int, tuple[int, int]]:
    """The versions of each API that a broker says it has."""
    with Connection(bootstrap) as connection:
        answer = connection.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
