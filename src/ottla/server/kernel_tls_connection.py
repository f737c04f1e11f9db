"""A client's connection through TLS that the kernel encrypts: OpenSSL has the socket.

Rules kept here (beside those of `tls_connection.py`):
1. OpenSSL shakes hands and decrypts. Once the kernel encrypts, replies leave as they do without
   TLS, log files by sendfile.
2. Where it does not for a connection (by the cipher, or the kernel's version), OpenSSL encrypts.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

from ottla.server.kernel_tls import encrypts
from ottla.server.sender import Sender
from ottla.server.states import OPEN
from ottla.server.tls_connection import TLS_HANDSHAKE, TlsConnection
from ottla.server.tls_sender import TlsSender

_PLAIN: Final = socket.socket


class KernelTlsConnection(TlsConnection):
    """Moves bytes between a socket that OpenSSL reads from, and a protocol."""

    __slots__ = ()

    def _on_hello(self) -> None:
        """Bytes of the handshake have come."""
        tls = self._tls
        if tls is None:
            try:
                first = self._socket.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return
            except OSError:
                self.close()
                return
            if not first:
                self.close()
                return
            if first[0] != TLS_HANDSHAKE:
                self._refuse("client sent plaintext to a TLS listener")
                return
            context = self._door.context
            assert context is not None
            self._server.loop.remove_reader(self._fd)
            try:
                tls = context.wrap_socket(
                    self._socket,
                    server_side=True,
                    do_handshake_on_connect=False,
                    suppress_ragged_eofs=True,
                )
            except OSError:  # the client has gone
                self.close()
                return
            self._socket = self._tls = tls
        else:
            self._server.loop.remove_reader(self._fd)
        self._server.handshakes.run(tls.do_handshake, self._on_step)

    def _new_sender(self, tls: ssl.SSLObject | ssl.SSLSocket) -> Sender | TlsSender:
        assert isinstance(tls, ssl.SSLSocket)
        outbox = self.protocol.outbox
        if encrypts(tls):
            self._server.metrics.offloaded += 1
            return Sender(_Encrypted(tls), outbox)
        through = _ThroughOpenssl(tls)
        return TlsSender(through, outbox, through, through, self._server.gathered)

    def _flush(self) -> bool:
        """OpenSSL sends by itself."""
        return True

    def _on_readable(self) -> None:
        protocol = self.protocol
        if not protocol.may_receive():
            if protocol.input is not OPEN:
                self._server.loop.remove_reader(self._fd)
            return
        self._drain()

    def _decrypted(self, count: int) -> None:
        self._server.metrics.received(count)

    def _say_goodbye(self) -> None:
        if not self._handshaken or not isinstance(self._tls, ssl.SSLSocket):
            return
        if self._sender.has_unsent:
            return
        try:
            self._tls.unwrap()
        except (ssl.SSLError, ValueError, OSError):
            pass  # it wants the client's close_notify, which is not waited for


class _Encrypted:
    """The socket as the kernel has it: what is written is encrypted there, not by OpenSSL."""

    __slots__ = ("_socket",)

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._socket = sock

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        return _PLAIN.send(self._socket, data, flags)

    def sendmsg(self, parts: list[bytes | memoryview], ancillary: tuple[()], flags: int) -> int:
        return _PLAIN.sendmsg(self._socket, parts, ancillary, flags)


class _ThroughOpenssl:
    """What `TlsSender` needs, where encrypting and sending are one step."""

    __slots__ = ("_gathered", "_socket")

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._socket = sock
        self._gathered: bytes = b""

    def write(self, data: bytes | memoryview) -> int:
        """Keep a copy: OpenSSL wants the same again where the socket was full."""
        self._gathered = bytes(data)
        return len(self._gathered)

    def read(self) -> bytes:
        """What was written."""
        gathered, self._gathered = self._gathered, b""
        return gathered

    def send(self, data: bytes | memoryview) -> int:
        """Encrypt and send; raises BlockingIOError where the socket is full."""
        try:
            return self._socket.send(data)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None
