"""A client's connection through TLS: another shell around the same protocol.

Rules kept here:
1. The handshake runs in threads (`handshakes.py`); until it is done nothing reaches the protocol.
2. What OpenSSL has received and not given out causes no event: it is asked after every pause.
3. A client that does not speak TLS, or whose certificate is refused, gets an alert, and the log
   says in one line what was wrong.
4. A client whose name cannot be found out, for whatever reason, is not let in.
5. A connection ends with a close_notify that nobody waits for.
6. OpenSSL never gives back the room that it needed for what came at once: it gets `PIECE_BYTES` at
   a time, and little before the client has shaken hands.
7. At most `TURN_BYTES` are decrypted in one turn of the loop.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, Final, cast

import structlog

from ottla.security.principal import ANONYMOUS, USER, Principal
from ottla.security.x509 import parse_certificate
from ottla.server.connection import Connection
from ottla.server.sender import Sender
from ottla.server.states import CLOSED, OPEN, READY
from ottla.server.tls_sender import TlsSender

if TYPE_CHECKING:
    from ottla.server.door import Door
    from ottla.server.server import Server

log = structlog.get_logger()

HANDSHAKE_BYTES: Final = 16 << 10
PIECE_BYTES: Final = 64 << 10
LARGEST_RECORD: Final = (18 << 10) + 5
TURN_BYTES: Final = 256 << 10
MOST_HANDSHAKE_BYTES: Final = 256 << 10
"""A client's certificates and everything else that it may send before it is known."""
TLS_HANDSHAKE: Final = 0x16


_NOTHING: Final = ssl.MemoryBIO()


class TlsConnection(Connection):
    """Moves bytes between a socket, OpenSSL and a protocol."""

    __slots__ = (
        "_door",
        "_drains",
        "_handshaken",
        "_incoming",
        "_outgoing",
        "_piece",
        "_shaken",
        "_tls",
    )

    def __init__(
        self, server: Server, sock: socket.socket, host: str, door: Door, number: int
    ) -> None:
        self._door = door
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | ssl.SSLSocket | None = None
        self._shaken = 0
        """Bytes of the handshake that were received."""
        self._handshaken = False
        self._drains = False
        self._piece = HANDSHAKE_BYTES
        super().__init__(server, sock, host, door, number)

    # The handshake ------------------------------------------------------------------------

    def _watch(self) -> None:
        self._server.loop.add_reader(self._fd, self._on_hello)

    def _on_hello(self) -> None:
        """Bytes of the handshake have come."""
        try:
            data = self._socket.recv(HANDSHAKE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not data:
            self.close()
            return
        if self._tls is None and data[0] != TLS_HANDSHAKE:
            self._refuse("client sent plaintext to a TLS listener")
            return
        self._shaken += len(data)
        if self._shaken > MOST_HANDSHAKE_BYTES:
            self._refuse("TLS handshake is too long")
            return
        self._incoming.write(data)
        if self._tls is None:
            context = self._door.context
            assert context is not None
            self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._server.loop.remove_reader(self._fd)
        self._server.handshakes.run(self._tls.do_handshake, self._on_step)

    def _on_step(self, step: asyncio.Future[None]) -> None:
        """A thread has done what could be done with the bytes so far."""
        problem = None if step.cancelled() else step.exception()
        if self.protocol.flow is CLOSED:
            return
        if isinstance(problem, ssl.SSLWantReadError):
            if self._flush():
                self._server.loop.add_reader(self._fd, self._on_hello)
            return
        # The base class takes it that the socket is watched while the input is open.
        self._server.loop.add_reader(self._fd, self._on_readable)
        if problem is not None or step.cancelled():
            self._refuse(_why(problem))
            return
        try:
            self._finish()
        except Exception:
            log.exception("TLS handshake failed; closing the connection")
            self.close()

    def _finish(self) -> None:
        """The handshake is done."""
        tls = self._tls
        assert tls is not None
        self._handshaken = True
        self._sender = self._new_sender(tls)
        if not self._flush():
            return
        if not self._door.has_sasl:
            principal = self._principal(tls.getpeercert(binary_form=True))
            if principal is None:
                return
            self._dispatcher.authenticated(principal)
            self.login_done()
        if self._holds_more:
            self._drain_soon()

    def _new_sender(self, tls: ssl.SSLObject | ssl.SSLSocket) -> Sender | TlsSender:
        return TlsSender(
            self._socket, self.protocol.outbox, tls, self._outgoing, self._server.gathered
        )

    @property
    def _holds_more(self) -> bool:
        """Whether something was received and not decrypted, or not given out."""
        tls = self._tls
        return self._incoming.pending > 0 or (tls is not None and tls.pending() > 0)

    def _principal(self, certificate: bytes | None) -> Principal | None:
        """Who shows this certificate; None where no rule maps its name, and the connection ends."""
        if certificate is None:
            return ANONYMOUS
        try:
            subject = parse_certificate(certificate).subject
        except ValueError as problem:
            self._refuse(str(problem))
            return None
        user = self._door.mapped(subject)
        if user is None:
            self._refuse(f"no rule of ssl.principal.mapping.rules matches {subject}")
            return None
        return Principal(USER, user)

    def _flush(self) -> bool:
        """Send what the handshake has to say; False where the connection has ended.

        It is a few kilobytes at the beginning of a connection: they fit the socket's buffer.
        """
        data = self._outgoing.read()
        if data:
            try:
                if self._socket.send(data) != len(data):
                    raise OSError
            except OSError:
                self.close()
                return False
        return True

    def _refuse(self, reason: str) -> None:
        log.info("TLS handshake failed", client=self.client_host, reason=reason)
        self._server.metrics.failed_authentications += 1
        self._flush()  # the alert
        self.close()

    def login_done(self) -> None:
        """The client has authenticated."""
        super().login_done()
        self._piece = PIECE_BYTES

    # Receiving ----------------------------------------------------------------------------

    def _on_readable(self) -> None:
        server, protocol = self._server, self.protocol
        if not protocol.may_receive():
            if protocol.input is not OPEN:
                server.loop.remove_reader(self._fd)
            return
        received = piece = self._piece
        left = TURN_BYTES
        while received == piece and left > 0 and protocol.input is OPEN:
            buffer = server.ciphertext[:piece]
            try:
                received = self._socket.recv_into(buffer)
            except BlockingIOError:
                return
            except OSError:
                self.close()
                return
            if received == 0:
                self._drain()
                if protocol.flow is not CLOSED and protocol.input is OPEN:
                    self._end_input(protocol.peer_finished)
                    self._close_if_answered()
                return
            left -= received
            self._incoming.write(buffer[:received])
            self._drain()
            if protocol.flow is CLOSED or self._incoming.pending > LARGEST_RECORD:
                return  # what is there has to wait

    def _receives(self) -> bool:
        return self.protocol.input is OPEN

    def _drain(self) -> None:
        """Decrypt what has come, and handle it, as far as the protocol takes it."""
        tls, protocol, server = self._tls, self.protocol, self._server
        assert tls is not None
        left = TURN_BYTES
        while not self.closed() and self._receives():
            if left <= 0:
                self._drain_soon()
                break
            if not protocol.may_receive():
                if not self._receives():
                    server.loop.remove_reader(self._fd)
                return
            if protocol.inbox.waiting == 0:
                self.last_active = server.loop.time()
            room = protocol.inbox.room(server.receive_buffer)
            filled, more, size = 0, True, len(room)
            try:
                while filled < size:
                    filled += _read_into(tls, room[filled:])
            except ssl.SSLWantReadError:
                more = False
            except ssl.SSLZeroReturnError:  # the client's close_notify
                self._end_input(protocol.peer_finished)
                more = False
            except ssl.SSLError as problem:
                log.info("connection closed", client=self.client_host, reason=_why(problem))
                self.close()
                return
            except OSError:
                self.close()
                return
            if filled:
                left -= filled
                self._decrypted(filled)
                protocol.received(filled)
                self._work()
            elif not self.closed():
                protocol.inbox.settle(server.receive_buffer)
                self._close_if_answered()
            if not more:
                break
        if protocol.flow is READY:
            self._answer_tls()

    def _decrypted(self, count: int) -> None:
        """Bytes have been counted when they were received."""

    def _answer_tls(self) -> None:
        """Send what TLS itself has to say, such as the answer to a KeyUpdate."""
        if self._outgoing.pending and not self.protocol.outbox.size:
            self._flush()

    def _go_on(self) -> None:
        super()._go_on()
        protocol = self.protocol
        is_open = protocol.flow is not CLOSED and protocol.input is OPEN
        if is_open and self._handshaken and self._holds_more:
            self._drain_soon()

    def _drain_soon(self) -> None:
        """In the next turn: what continues now may be in the middle of a request."""
        if not self._drains:
            self._drains = True
            self._server.loop.call_soon(self._on_drain)

    def _on_drain(self) -> None:
        self._drains = False
        if self.protocol.flow is not CLOSED:
            self._drain()

    # Ending -------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection; OpenSSL's memory goes now, not when garbage is looked for.

        The collector counts objects, and these few are large: a flood would leave most of them.
        """
        super().close()
        self._tls = None
        self._incoming = self._outgoing = _NOTHING
        self._sender = Sender(self._socket, self.protocol.outbox)

    def _say_goodbye(self) -> None:
        if not self._handshaken or self._tls is None or not isinstance(self._sender, TlsSender):
            return
        try:
            self._tls.unwrap()
        except (ssl.SSLError, ValueError, OSError):
            pass  # it wants the client's close_notify, which is not waited for
        try:
            if not self._sender.has_unsent:
                self._socket.send(self._outgoing.read())
        except OSError:
            pass


def _read_into(tls: ssl.SSLObject | ssl.SSLSocket, room: memoryview) -> int:
    """Decrypt into memory; raises SSLWantReadError where nothing has come."""
    count = cast(int, tls.read(len(room), room))
    if not count:
        raise ssl.SSLZeroReturnError
    return count


def _why(problem: BaseException | None) -> str:
    """What went wrong, in words that people search for."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"client certificate refused: {problem.verify_message}"
    reason = getattr(problem, "reason", None)
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "client sent no certificate (ssl.client.auth=required)"
    if isinstance(problem, ssl.SSLEOFError):
        return "client closed the connection"
    if isinstance(reason, str):
        return f"TLS: {reason.lower().replace('_', ' ')}"
    return f"TLS: {problem}" if problem is not None else "broker is stopping"
