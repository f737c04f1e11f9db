"""One client's connection: frames in, replies out, in order.

Rules kept here:
1. A connection's next request starts after the previous reply, as in Kafka; only Produce may
   start behind Produce requests whose batches are appended and only wait to be safe, and only
   `MOST_PIPELINED` of them.
2. Replies leave in the order of the requests.
3. A client that does not read stops being read: what it can make us hold is bounded.
4. A client that sends many requests at once gives way to the others after some of them.
5. A frame that cannot be answered closes the connection; nothing else it says does.
6. Before replies leave, what coordinators let linger is written, or they do not leave at all.
   They leave at the end of the loop's turn, with those of all connections (`Server.send_soon`).
7. No request is handled inside of another's handler, nor inside of what made a reply ready: a
   change that answers somebody is finished before what stands behind it is looked at.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Coroutine
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import structlog

from ottla.api.registry import ENDPOINTS, Endpoint, Parts, Pending, Request, UnanswerableError
from ottla.log.files import Slice, read_stretch
from ottla.server.inbox import SIZE_BYTES, Inbox
from ottla.server.outbox import Outbox
from ottla.server.slot import Slot
from ottla.wire.apis import ApiKey
from ottla.wire.fields import DecodeError
from ottla.wire.headers import read_request_header

if TYPE_CHECKING:
    from ottla.server.server import Server

log = structlog.get_logger()

MOST_PIPELINED: Final = 64
REQUESTS_IN_ONE_TURN: Final = 32
MOST_HELD_BYTES: Final = 64 << 10
"""Received while a request waits: enough to see what comes next, or that the client has gone."""
LARGEST_WITHOUT_RECORDS: Final = 8 << 20
"""Decoding makes objects, which take far more memory than the bytes they come from."""
SEND_AT_BYTES: Final = 256 << 10
_SIZE: Final = Struct(">i")
_SIZE_CORRELATION: Final = Struct(">ii")
_SIZE_CORRELATION_TAGS: Final = Struct(">iix")
_KEY: Final = Struct(">h")
SMALLEST_REQUEST: Final = 8
_READY: Final = (tuple, list)
_PRODUCE: Final = int(ApiKey.PRODUCE)
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)


class Connection:
    """Reads requests from a socket of its own and writes the replies."""

    __slots__ = (
        "_client_host",
        "_closed",
        "_fd",
        "_inbox",
        "_listener",
        "_outbox",
        "_reading",
        "_resting",
        "_sends_soon",
        "_server",
        "_slots",
        "_socket",
        "_writing",
        "id",
        "last_active",
    )

    def __init__(
        self, server: Server, sock: socket.socket, host: str, listener: str, number: int
    ) -> None:
        self._server = server
        self._socket = sock
        self._fd = sock.fileno()
        self._client_host = host
        self._listener = listener
        self.id = number
        self._inbox = Inbox()
        self._outbox = Outbox(sock)
        self._slots: deque[Slot] = deque()
        self._writing = False
        self._reading = True
        self._resting = False
        self._sends_soon = False
        self._closed = False
        self.last_active = server.loop.time()
        server.loop.add_reader(self._fd, self._on_readable)

    @property
    def client_host(self) -> str:
        """The client's address."""
        return self._client_host

    @property
    def idle(self) -> bool:
        """True while no request waits. A reply that the client does not take changes nothing."""
        return not self._slots

    @property
    def deaf(self) -> bool:
        """True while nothing is read: the client may have gone without our learning it."""
        return not self._reading and not self._writing

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._fd

    def closed(self) -> bool:
        """True once the connection has ended; any call that sends or handles may end it."""
        return self._closed

    def release_buffer(self) -> None:
        """Give back memory that a quiet connection does not need."""
        self._inbox.release()

    # Receiving ----------------------------------------------------------------------------

    def _on_readable(self) -> None:
        server = self._server
        inbox = self._inbox
        if self._resting:
            return
        if self._holds_enough():
            self._pause_reading()
            return
        try:
            received = self._socket.recv_into(inbox.room(server.receive_buffer))
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if received == 0:
            self.close()
            return
        self.last_active = server.loop.time()
        inbox.end += received
        server.metrics.received(received)
        self._work()

    def _holds_enough(self) -> bool:
        """True while a request or reply is under way and much has arrived behind it."""
        return self._inbox.waiting > MOST_HELD_BYTES and bool(self._slots or self._writing)

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._server.loop.remove_reader(self._fd)

    def _work(self) -> None:
        """Handle what has arrived as far as the order of replies allows, then send."""
        try:
            self._handle_frames()
        except UnanswerableError as reason:
            log.info("connection closed", client=self._client_host, reason=str(reason))
            if self._outbox.size and not self._writing:
                self._send()  # what was asked before is answered, if the socket takes it
            self.close()
        except Exception:
            log.exception("a request failed and its connection was closed")
            self.close()
        if self.closed():
            return
        self._inbox.settle(self._server.receive_buffer)
        if self._resting and self._outbox.size and not self._writing:
            self._send()  # more of its requests come before the turn's end
        else:
            self._send_soon()

    def _handle_frames(self) -> None:
        inbox = self._inbox
        view = inbox.view
        largest = self._server.largest_request
        left = REQUESTS_IN_ONE_TURN
        while inbox.end - inbox.start >= SIZE_BYTES:
            start = inbox.start
            (size,) = _SIZE.unpack_from(view, start)
            if not SMALLEST_REQUEST <= size <= largest:
                raise UnanswerableError(_what_is_wrong_with_size(view, start, size, largest))
            stop = start + SIZE_BYTES + size
            if stop > inbox.end:
                return
            if self._writing:
                return
            if self._slots and not self._may_join(view, start):
                return
            if left == 0:
                self._rest()
                return
            left -= 1
            inbox.start = stop
            self._handle(view[start + SIZE_BYTES : stop])
            if self.closed():
                return
            if self._outbox.size > SEND_AT_BYTES and not self._writing:
                self._send()
                if self.closed():
                    return

    def _rest(self) -> None:
        """Let whatever goes on now be finished, and the other clients have a turn; then go on."""
        if not self._resting:
            self._resting = True
            self._server.loop.call_soon(self._after_rest)

    def _after_rest(self) -> None:
        self._resting = False
        if not self.closed() and not self._writing:
            self._go_on()

    def _may_join(self, view: memoryview, start: int) -> bool:
        (key,) = _KEY.unpack_from(view, start + SIZE_BYTES)
        last = self._slots[-1]
        return (
            key == _PRODUCE
            and last.endpoint.key == _PRODUCE
            and last.is_under_way
            and len(self._slots) < MOST_PIPELINED
        )

    # Handling -----------------------------------------------------------------------------

    def _handle(self, frame: memoryview) -> None:
        started = perf_counter()
        server = self._server
        try:
            header = read_request_header(frame)
        except DecodeError as problem:
            raise UnanswerableError(f"a malformed request header: {problem}") from None
        key, version = header.api_key, header.api_version
        endpoint = ENDPOINTS.get(key)
        if endpoint is None or not endpoint.first <= version <= endpoint.last:
            if key != _API_VERSIONS:
                raise UnanswerableError(f"api key {key} version {version} is not served")
            endpoint = ENDPOINTS[_API_VERSIONS]
        if len(frame) > LARGEST_WITHOUT_RECORDS and key != _PRODUCE:
            raise UnanswerableError(f"a {endpoint.name} request of {len(frame)} bytes")
        correlation_id = header.correlation_id
        request = Request(
            server.node,
            key,
            version,
            correlation_id,
            header.client_id,
            self._client_host,
            self._listener,
            self.id,
        )
        flexible = version >= endpoint.flexible_from and key != _API_VERSIONS
        try:
            outcome = endpoint.handle(request, frame, header.body_at)
        except DecodeError as problem:
            raise UnanswerableError(f"a malformed {endpoint.name} v{version}: {problem}") from None
        if outcome is None:
            server.metrics.answered(endpoint.key, perf_counter() - started)
            return
        if isinstance(outcome, _READY):
            parts: Parts = outcome
        else:
            # A coroutine may still have everything before it; a Pending has only its reply.
            is_under_way = isinstance(outcome, Pending)
            pending = outcome if isinstance(outcome, Pending) else self._start_task(outcome)
            if pending.parts is None:
                pending.notify = self._on_ready if is_under_way else self._on_done
                slot = Slot(endpoint, correlation_id, flexible, started, pending)
                slot.is_under_way = is_under_way
                self._slots.append(slot)
                return
            if pending.failed:
                self.close()
                return
            parts = pending.parts
        if self._slots:
            self._slots.append(Slot(endpoint, correlation_id, flexible, started, None, parts))
        else:
            self._queue(endpoint, correlation_id, flexible, started, parts)

    def _start_task(self, work: Coroutine[Any, Any, Parts]) -> Pending:
        pending = Pending()
        task = self._server.start_task(work)

        def finish(done: asyncio.Task[Parts]) -> None:
            if done.cancelled():  # the broker stops
                self.close()
                return
            problem = done.exception()
            if problem is None:
                pending.complete(done.result())
            else:
                log.error("a request failed and its connection was closed", exc_info=problem)
                self.close()

        task.add_done_callback(finish)
        return pending

    def _on_ready(self) -> None:
        """A reply is ready, said by somebody who is in the middle of something."""
        self._send_ready()
        if self.closed() or self._writing:
            return
        if self._inbox.waiting:
            self._rest()
        else:
            self._go_on()

    def _on_done(self) -> None:
        """A task has made its reply; the loop says so, and nothing else goes on meanwhile."""
        self._send_ready()
        if not self.closed() and not self._writing:
            self._go_on()

    def _send_ready(self) -> None:
        """The oldest waited-for replies may be complete now."""
        if self.closed():
            return
        slots = self._slots
        while slots:
            slot = slots[0]
            parts = slot.parts
            if parts is None and slot.pending is not None:
                if slot.pending.failed:
                    if self._outbox.size and not self._writing:
                        self._send()  # what was asked before is answered, if the socket takes it
                    self.close()
                    return
                parts = slot.pending.parts
            if parts is None:
                break
            slots.popleft()
            self._queue(slot.endpoint, slot.correlation_id, slot.flexible, slot.started, parts)
        self._send_soon()

    def _go_on(self) -> None:
        """Handle requests that were held back, and read again if reading was paused."""
        if self._inbox.waiting:
            self._work()
        # The rest of a large frame must come in, however much of it is there already.
        if not self.closed() and not self._reading and not self._holds_enough():
            self._reading = True
            self._server.loop.add_reader(self._fd, self._on_readable)

    # Sending ------------------------------------------------------------------------------

    def _queue(
        self,
        endpoint: Endpoint,
        correlation_id: int,
        flexible: bool,
        started: float,
        parts: Parts,
    ) -> None:
        outbox = self._outbox
        size = 5 if flexible else 4
        for part in parts:
            size += len(part) if isinstance(part, bytes) else part.size
        head = (_SIZE_CORRELATION_TAGS if flexible else _SIZE_CORRELATION).pack(
            size, correlation_id
        )
        for part in parts:
            if isinstance(part, bytes):
                outbox.add_bytes(head + part)
                head = b""
            else:
                assert isinstance(part, Slice)
                outbox.add_file(part)
        self._server.metrics.answered(endpoint.key, perf_counter() - started, size + SIZE_BYTES)

    def _send_soon(self) -> None:
        if self._outbox.size and not self._writing and not self._sends_soon:
            self._sends_soon = True
            self._server.send_soon(self)

    def send(self) -> None:
        """Let the replies leave: the loop's turn ends."""
        self._sends_soon = False
        if self._outbox.size and not self._writing:
            self._send()

    def _send(self) -> None:
        node = self._server.node
        if node.lingering and not self._server.write_out():
            self.close()  # the replies say what has not become true
            return
        outbox = self._outbox
        try:
            sent = outbox.send()
        except OSError:
            self.close()
            return
        if sent:
            self.last_active = self._server.loop.time()
        if outbox.cold is not None:
            self._stop_writing()
            self._writing = True
            reading = self._server.loop.run_in_executor(
                node.cold_readers, read_stretch, outbox.cold
            )
            outbox.cold.file.pin()
            reading.add_done_callback(self._on_read)
        elif outbox.size:
            if not self._writing:
                self._writing = True
                self._server.loop.add_writer(self._fd, self._on_writable)
        elif self._writing:
            self._stop_writing()

    def _on_read(self, reading: asyncio.Future[bytes]) -> None:
        outbox = self._outbox
        assert outbox.cold is not None
        outbox.cold.file.unpin()
        problem = reading.exception()
        if self.closed():
            return
        if problem is not None:
            log.error("a log file could not be read", exc_info=problem)
            self.close()
            return
        outbox.take(reading.result())
        self._writing = False
        self._send()
        if not self.closed() and not self._writing:
            self._go_on()

    def _on_writable(self) -> None:
        self._send()
        if not self.closed() and not self._writing:
            self._go_on()

    def _stop_writing(self) -> None:
        if self._writing:
            self._writing = False
            self._server.loop.remove_writer(self._fd)

    # Ending -------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection and let go of all that waits for it."""
        if self._closed:
            return
        self._closed = True
        loop = self._server.loop
        if self._reading:
            loop.remove_reader(self._fd)
        if self._writing:
            loop.remove_writer(self._fd)
        for slot in self._slots:
            if slot.pending is not None and slot.pending.abandoned is not None:
                slot.pending.abandoned()
        self._slots.clear()
        self._outbox.clear()
        self._socket.close()
        self._server.forget(self)


def _what_is_wrong_with_size(view: memoryview, start: int, size: int, largest: int) -> str:
    first = bytes(view[start : start + SIZE_BYTES])
    if first in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "this is a Kafka port and the client speaks HTTP"
    if first[:2] == b"\x16\x03":
        return "this listener is PLAINTEXT and the client speaks TLS"
    return f"a request of {size} bytes; socket.request.max.bytes allows {largest}"
