"""One client's connection: the shell that owns the socket of a `ServerProtocol`.

Rules kept here (those of requests and replies are in `protocol.py`, the states in `states.py`):
1. Readability is watched exactly while the input is open, writability exactly while the flow is
   SENDING. Nothing else is remembered here.
2. Before replies leave, what coordinators let linger is written, or they do not leave at all.
   They leave at the end of the loop's turn, with those of all connections (`Server.send_soon`).
3. A client that has finished sending is still answered; its kernel is asked whether it is there.
4. A connection is active when a frame begins to arrive, is handled, or a reply leaves. More bytes
   of the same frame do not count, and a frame has a deadline: a byte now and then keeps nothing
   open.
5. A client that failed to authenticate is answered after a while, and not read meanwhile.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog

from ottla.later import Later
from ottla.log.storage.page_cache import read_stretch
from ottla.security.principal import Principal
from ottla.server.dispatch import Dispatcher
from ottla.server.keep_alive import ask_often
from ottla.server.protocol import REQUESTS_IN_ONE_TURN, ServerProtocol
from ottla.server.sender import Sender
from ottla.server.states import CLOSED, ENDED, OPEN, READY, RESTING, SENDING
from ottla.wire.reply import Parts, UnanswerableError

if TYPE_CHECKING:
    from ottla.server.door import Door
    from ottla.server.server import Server
    from ottla.server.tls_sender import TlsSender

log = structlog.get_logger()

FRAME_SECONDS: Final = 30.0
SLOWEST_BYTES_A_SECOND: Final = 256 << 10
"""A frame has this time, and more for its size."""


class Connection:
    """Moves bytes between a socket and a protocol."""

    __slots__ = (
        "_dispatcher",
        "_fd",
        "_sender",
        "_server",
        "_socket",
        "client_host",
        "id",
        "last_active",
        "listener",
        "protocol",
    )

    def __init__(
        self, server: Server, sock: socket.socket, host: str, door: Door, number: int
    ) -> None:
        self._server = server
        self._socket = sock
        self._fd = sock.fileno()
        self.client_host = host
        self.listener = door.name
        self.id = number
        gate = door.new_gate()
        self._dispatcher = Dispatcher(
            server, host, door.name, number, self._mute, knows_client=gate is None
        )
        self.protocol = ServerProtocol(
            self._dispatcher, self, gate, server.budget, server.arrivals_budget
        )
        self._sender: Sender | TlsSender = Sender(sock, self.protocol.outbox)
        self.last_active = server.loop.time()
        self._watch()

    def _watch(self) -> None:
        """Begin to receive."""
        self._server.loop.add_reader(self._fd, self._on_readable)

    @property
    def principal(self) -> Principal:
        """Who the client is."""
        return self._dispatcher.principal

    @property
    def idle(self) -> bool:
        """True while no request waits. A reply that the client does not take changes nothing."""
        return not self.protocol.waits

    @property
    def deaf(self) -> bool:
        """True while the socket is not watched: the client may have gone unnoticed."""
        protocol = self.protocol
        return protocol.input is not OPEN and protocol.may_send

    def is_overdue(self, now: float) -> bool:
        """True if a frame has been arriving for too long."""
        protocol = self.protocol
        if protocol.input is not OPEN or protocol.waits or not protocol.may_send:
            return False
        missing = protocol.inbox.missing
        return missing > 0 and now - self.last_active > (
            FRAME_SECONDS + missing / SLOWEST_BYTES_A_SECOND
        )

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._fd

    def closed(self) -> bool:
        """True once the connection has ended; any call that sends or handles may end it."""
        return self.protocol.flow is CLOSED

    def release_buffer(self) -> None:
        """Give back memory that a quiet connection does not need."""
        self.protocol.inbox.release()

    # Receiving ----------------------------------------------------------------------------

    def _on_readable(self) -> None:
        server, protocol = self._server, self.protocol
        if not protocol.may_receive():
            if protocol.input is not OPEN:
                server.loop.remove_reader(self._fd)
            return
        try:
            received = self._socket.recv_into(protocol.inbox.room(server.receive_buffer))
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if received == 0:
            self._end_input(protocol.peer_finished)
            self._close_if_answered()
            return
        if protocol.inbox.waiting == 0:
            self.last_active = server.loop.time()
        protocol.received(received)
        server.metrics.received(received)
        self._work()

    def _end_input(self, end: Callable[[], None]) -> None:
        """Do what ends the input, and receive nothing more."""
        was_open = self.protocol.input is OPEN
        end()
        if was_open:
            self._server.loop.remove_reader(self._fd)
        if not ask_often(self._socket):
            self.close()

    # Handling -----------------------------------------------------------------------------

    def _work(self) -> None:
        """Handle what has arrived as far as the order of replies allows, then send."""
        protocol = self.protocol
        try:
            left = protocol.handle_frames(REQUESTS_IN_ONE_TURN)
            if left != REQUESTS_IN_ONE_TURN:
                self.last_active = self._server.loop.time()
            while protocol.must_send:
                self._send()
                if protocol.flow is CLOSED:
                    return
                left = protocol.handle_frames(left)
        except UnanswerableError as reason:
            log.info("connection closed", client=self.client_host, reason=str(reason))
            self._end_input(protocol.refuse_input)
        except Exception:
            log.exception("request failed; closing the connection")
            self.close()
        if protocol.flow is CLOSED:
            return
        protocol.inbox.settle(self._server.receive_buffer)
        if protocol.flow is RESTING:
            self.send()  # more of its requests come before the turn's end
        else:
            self._send_soon()
        if protocol.input is ENDED:
            self._close_if_answered()

    def _go_on(self) -> None:
        """Handle requests that were held back, and receive again if that was paused."""
        protocol = self.protocol
        if protocol.inbox.waiting:
            self._work()
        if protocol.flow is not CLOSED and protocol.resume_input():
            self.last_active = self._server.loop.time()
            self._server.loop.add_reader(self._fd, self._on_readable)
        self._close_if_answered()

    def _mute(self) -> Later[Parts | None]:
        return self.protocol.mute()

    # What the protocol asks for -----------------------------------------------------------

    def wake_soon(self) -> None:
        """Continue in the next turn of the loop."""
        self._server.loop.call_soon(self._on_wake)

    def reply_ready(self) -> None:
        """A reply is there, made by code that is in the middle of something."""
        if not self._release_replies():
            return
        if self.protocol.inbox.waiting:
            self.protocol.give_way()
        else:
            self._go_on()

    def task_done(self) -> None:
        """A task has made its reply; nothing else continues meanwhile."""
        if self._release_replies():
            self._go_on()

    def reply_failed(self, error: BaseException) -> None:
        """There is no reply where one is due."""
        if isinstance(error, UnanswerableError):
            log.info("connection closed", client=self.client_host, reason=str(error))
        elif not isinstance(error, asyncio.CancelledError):  # which says that the broker stops
            log.error("request failed; closing the connection", exc_info=error)
        self._end_input(self.protocol.refuse_input)

    def login_done(self) -> None:
        """The client has authenticated."""
        self._server.arrivals.remove(self)

    def login_failed(self, problem: str, answer: Later[Parts | None], reply: Parts | None) -> None:
        """The login failed; the error is sent after a delay."""
        server = self._server
        log.info("authentication failed", client=self.client_host, reason=problem)
        server.metrics.failed_authentications += 1
        delay = server.node.config.connection_failed_authentication_delay_ms / 1000
        self._end_input(self.protocol.refuse_input)
        server.loop.call_later(delay, answer.complete, reply)

    def room_freed(self) -> None:
        """There may be room for a large frame now."""
        self._server.loop.call_soon(self._on_room)

    def _on_room(self) -> None:
        if self.protocol.flow is not CLOSED:
            self._go_on()

    def _release_replies(self) -> bool:
        """Send the replies that are there; False where nothing more can be handled now."""
        protocol = self.protocol
        if protocol.flow is CLOSED:
            return False
        protocol.release_replies()
        self._send_soon()
        return protocol.may_send

    def _on_wake(self) -> None:
        if self.protocol.wake():
            self._go_on()

    # Sending ------------------------------------------------------------------------------

    def _send_soon(self) -> None:
        protocol = self.protocol
        if protocol.outbox.size and protocol.may_send:
            self._server.send_soon(self)

    def send(self) -> None:
        """Let the replies leave."""
        protocol = self.protocol
        if protocol.outbox.size and protocol.may_send:
            self._send()

    def _send(self) -> None:
        server, protocol = self._server, self.protocol
        if server.lingering.pending:
            server.lingering.write_out()
            if self.closed():  # its replies say what has not become true
                return
        try:
            sent = self._sender.send()
        except OSError:
            self.close()
            return
        if sent:
            self.last_active = server.loop.time()
        outbox = protocol.outbox
        if outbox.cold is not None:
            self._load()
        elif outbox.size:
            if protocol.flow is not SENDING:
                protocol.blocked()
                server.loop.add_writer(self._fd, self._on_writable)
        else:
            if protocol.flow is SENDING:
                protocol.drained()
                server.loop.remove_writer(self._fd)
            if protocol.input is ENDED:
                self._close_if_answered()

    def _on_writable(self) -> None:
        self._send()
        if self.protocol.flow is READY:
            self._go_on()

    def _load(self) -> None:
        """Let a thread read what is not in the page cache."""
        server, protocol = self._server, self.protocol
        cold = protocol.outbox.cold
        assert cold is not None
        if protocol.flow is SENDING:
            server.loop.remove_writer(self._fd)
        protocol.must_load()
        cold.file.pin()
        reading = server.loop.run_in_executor(server.node.cold_readers, read_stretch, cold)
        reading.add_done_callback(self._on_loaded)

    def _on_loaded(self, reading: asyncio.Future[bytes]) -> None:
        protocol = self.protocol
        assert protocol.outbox.cold is not None
        protocol.outbox.cold.file.unpin()
        problem = reading.exception()
        if protocol.flow is CLOSED:
            return
        if problem is not None:
            log.error("failed to read a log file; closing the connection", exc_info=problem)
            self.close()
            return
        protocol.loaded(reading.result())
        self._send()
        if protocol.flow is READY:
            self._go_on()

    # Ending -------------------------------------------------------------------------------

    def _close_if_answered(self) -> None:
        if self.protocol.is_answered:
            self.close()

    def close(self) -> None:
        """End the connection and let go of all that waits for it."""
        protocol, loop = self.protocol, self._server.loop
        if protocol.flow is CLOSED:
            return
        if protocol.input is OPEN:
            loop.remove_reader(self._fd)
        if protocol.flow is SENDING:
            loop.remove_writer(self._fd)
        protocol.close()
        self._say_goodbye()
        self._socket.close()
        self._server.forget(self)

    def _say_goodbye(self) -> None:
        """What is sent before the socket closes: nothing, but by TLS."""
