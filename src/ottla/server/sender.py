"""Sends an outbox into a plain socket: bytes by send, stretches of log files by sendfile.

Rules kept here:
1. Neighbouring bytes leave in one system call.
2. At most `TURN_BYTES` leave in one turn of the loop, so that one reader cannot starve the rest.
3. A stretch that is not in the page cache is read by a thread, and leaves from memory: the loop
   never waits for a disk. What was seen in the page cache is believed to be there for a moment, not
   for as long as a slow client takes. Where something was not, what follows is not believed for a
   while: the kernel that has dropped a file's pages may do so again between a look and a send.
"""

import os
import socket
from time import monotonic
from typing import Final, Protocol

from ottla.log.storage.file_cache import Slice
from ottla.log.storage.page_cache import in_page_cache
from ottla.server.outbox import Outbox

TURN_BYTES: Final = 1 << 20
WARM_FOR_SECONDS: Final = 0.02
COLD_FOR_SECONDS: Final = 5.0
MOST_VECTORS: Final = 64
_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)


class PlainSocket(Protocol):
    """What is written to it leaves as it is, or the kernel encrypts it."""

    def fileno(self) -> int:
        """The descriptor."""

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:
        """Send what there is room for; raises BlockingIOError where there is none."""

    def sendmsg(self, parts: list[bytes | memoryview], ancillary: tuple[()], flags: int, /) -> int:
        """The same with several parts."""


class Sender:
    """Sends one connection's replies."""

    has_unsent = False
    """Nothing waits for the socket outside of the outbox."""

    __slots__ = ("_cold_until", "_outbox", "_socket", "_warm_to", "_warm_until")

    def __init__(self, sock: PlainSocket, outbox: Outbox) -> None:
        self._socket = sock
        self._outbox = outbox
        self._warm_to = 0
        """The first stretch is in the page cache up to here, so it is not asked after each send."""
        self._warm_until = 0.0
        self._cold_until = 0.0

    def send(self) -> int:
        """Send what the socket takes, up to a turn's share; returns the number of bytes.

        Zero with parts left means that the socket is full or, where `outbox.cold` is set, that the
        disk must be read first. Raises OSError when the connection is broken.
        """
        total = 0
        outbox = self._outbox
        parts = outbox.parts
        try:
            if len(parts) == 1 and type(parts[0]) is bytes:  # a small reply, as most are
                total = self._socket.send(parts[0])
                if total == len(parts[0]):
                    parts.clear()
                else:
                    parts[0] = memoryview(parts[0])[total:]
                outbox.size -= total
                return total
            while parts and total < TURN_BYTES:
                head = parts[0]
                sent = self._send_file(head) if isinstance(head, Slice) else self._send_bytes()
                if sent == 0:
                    break
                total += sent
        except BlockingIOError:
            pass
        outbox.size -= total
        return total

    def _send_bytes(self) -> int:
        parts = self._outbox.parts
        run: list[bytes | memoryview] = []
        flags = 0
        for part in parts:
            if isinstance(part, Slice):
                flags = _MSG_MORE
                break
            run.append(part)
            if len(run) == MOST_VECTORS:
                break
        if len(run) == 1:
            sent = self._socket.send(run[0], flags)
        else:
            sent = self._socket.sendmsg(run, (), flags)
        left = sent
        for part in run:
            if left < len(part):
                if left:
                    parts[0] = memoryview(part)[left:]
                break
            left -= len(part)
            parts.popleft()
        return sent

    def _send_file(self, stretch: Slice) -> int:
        file, position, left = stretch
        if position >= self._warm_to or monotonic() > self._warm_until:
            size = min(left, TURN_BYTES)
            now = monotonic()
            if now < self._cold_until or not in_page_cache(file.fd, position, size):
                if now >= self._cold_until:
                    self._cold_until = now + COLD_FOR_SECONDS
                self._outbox.cold = Slice(file, position, size)
                return 0
            self._warm_to = position + size
            self._warm_until = now + WARM_FOR_SECONDS
        size = min(left, self._warm_to - position)
        sent = os.sendfile(self._socket.fileno(), file.fd, position, size)
        if sent == 0:
            raise OSError(f"{left} bytes of a log file are missing")
        if sent == left:
            self._outbox.parts.popleft()
            self._warm_to = 0
            file.unpin()
        else:
            self._outbox.parts[0] = Slice(file, position + sent, left - sent)
        return sent
