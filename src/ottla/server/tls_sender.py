"""Sends an outbox through TLS: what `Sender` is for a plain socket.

Rules kept here:
1. Up to `GATHERED_BYTES` are encrypted at once, bytes and stretches of files together: fewer,
   larger calls cost far less than one for each part, and OpenSSL keeps the room for them.
2. The outbox's size counts what is encrypted and has not left, so that a full socket is noticed.
3. At most `TURN_BYTES` leave in one turn of the loop.
4. A stretch that is not in the page cache is read by a thread (`outbox.cold`): the loop never waits
   for a disk.
"""

import os
from typing import Final, Protocol

from ottla.log.storage.file_cache import Slice
from ottla.log.storage.files import NOWAIT
from ottla.server.outbox import Outbox
from ottla.server.sender import TURN_BYTES

GATHERED_BYTES: Final = 64 << 10
COLD_AT_ONCE: Final = 1 << 20


class Socket(Protocol):
    """Takes what is encrypted."""

    def send(self, data: bytes | memoryview, /) -> int:
        """Send what there is room for; raises BlockingIOError where there is none."""


class Encrypts(Protocol):
    """OpenSSL's side of a connection."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Encrypt all of it."""


class Ciphertext(Protocol):
    """Where OpenSSL puts what it encrypts."""

    def read(self) -> bytes:
        """All of it."""


class TlsSender:
    """Sends one connection's replies."""

    __slots__ = ("_gathered", "_left", "_outbox", "_outgoing", "_socket", "_tls")

    def __init__(
        self,
        sock: Socket,
        outbox: Outbox,
        tls: Encrypts,
        outgoing: Ciphertext,
        gathered: memoryview,
    ) -> None:
        self._socket = sock
        self._outbox = outbox
        self._tls = tls
        self._outgoing = outgoing
        self._gathered = gathered
        """Shared by all connections: empty between two calls."""
        self._left: bytes | memoryview = b""

    @property
    def has_unsent(self) -> bool:
        """True if the middle of a TLS record waits for the socket."""
        return len(self._left) > 0

    def send(self) -> int:
        """Send what the socket takes, up to a turn's share; returns the number of bytes.

        Zero with parts left means that the socket is full or, where `outbox.cold` is set, that the
        disk must be read first. Raises OSError when the connection is broken.
        """
        total = 0
        outbox = self._outbox
        try:
            while total < TURN_BYTES:
                if not self._left:
                    if outbox.cold is not None:
                        break
                    before = self._encrypt()
                    self._left = self._outgoing.read()
                    if not self._left:
                        break
                    outbox.size += len(self._left) - before
                sent = self._socket.send(self._left)
                total += sent
                outbox.size -= sent
                self._left = b"" if sent == len(self._left) else memoryview(self._left)[sent:]
        except BlockingIOError:
            pass
        return total

    def _encrypt(self) -> int:
        """Encrypt some of what is first in the outbox; returns how many bytes."""
        parts = self._outbox.parts
        if not parts:
            return 0
        head = parts[0]
        if not isinstance(head, Slice):
            if len(head) > GATHERED_BYTES:
                parts[0] = memoryview(head)[GATHERED_BYTES:]
                return self._tls.write(memoryview(head)[:GATHERED_BYTES])
            if len(parts) == 1:  # a small reply, as most are
                parts.clear()
                return self._tls.write(head)
        room, filled = self._gathered, 0
        while parts and filled < GATHERED_BYTES:
            head = parts[0]
            if isinstance(head, Slice):
                count = self._read(head, room[filled:])
                if count == 0:
                    break
            else:
                count = min(len(head), GATHERED_BYTES - filled)
                room[filled : filled + count] = head[:count]
                if count == len(head):
                    parts.popleft()
                else:
                    parts[0] = memoryview(head)[count:]
            filled += count
        return self._tls.write(room[:filled]) if filled else 0

    def _read(self, stretch: Slice, room: memoryview) -> int:
        """Read the beginning of a stretch if that is in the page cache."""
        file, position, left = stretch
        size = min(left, len(room))
        try:
            count = os.preadv(file.fd, (room[:size],), position, NOWAIT)
        except BlockingIOError:
            self._outbox.cold = Slice(file, position, min(left, COLD_AT_ONCE))
            return 0
        except OSError:  # a file system without RWF_NOWAIT
            count = os.preadv(file.fd, (room[:size],), position)
        if count == 0:
            raise OSError(f"{left} bytes of a log file are missing")
        if count == left:
            self._outbox.parts.popleft()
            file.unpin()
        else:
            self._outbox.parts[0] = Slice(file, position + count, left - count)
        return count
