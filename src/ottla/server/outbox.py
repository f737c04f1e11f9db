"""What a connection still has to send: bytes, and stretches of log files by sendfile.

Rules kept here:
1. A reply's parts leave in order; neighbouring bytes leave in one system call.
2. At most `TURN_BYTES` leave in one turn of the loop, so that one reader cannot starve the rest.
3. A stretch that is not in the page cache is read by a thread first: the loop never waits for
   a disk. What was seen in the page cache is believed to be there for a moment, not for as long as
   a slow client takes.
4. A file stays open (pinned) until its stretch is sent or the connection has gone.
"""

import os
import socket
from collections import deque
from time import monotonic
from typing import Final

from ottla.log.files import Slice

TURN_BYTES: Final = 1 << 20
PROBE_EVERY: Final = 128 << 10
"""A read ahead by the kernel is of this order: a probe a stretch finds what it did not bring."""
WARM_FOR_SECONDS: Final = 0.02
MOST_VECTORS: Final = 64
_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)


class Outbox:
    """A queue of parts on their way into one socket."""

    __slots__ = ("_parts", "_socket", "_warm_to", "_warm_until", "cold", "size")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._parts: deque[bytes | memoryview | Slice] = deque()
        self._warm_to = 0
        """The first stretch is in the page cache up to here, so it is not asked after each send."""
        self._warm_until = 0.0
        self.size = 0
        self.cold: Slice | None = None
        """The stretch that must be read from disk before anything more can leave."""

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add_bytes(self, part: bytes) -> None:
        """Queue bytes."""
        self._parts.append(part)
        self.size += len(part)

    def add_file(self, part: Slice) -> None:
        """Queue a stretch of a file, which is pinned."""
        self._parts.append(part)
        self.size += part.size

    def warmed(self) -> None:
        """The cold stretch has been read: it can leave."""
        assert self.cold is not None
        self._is_warm_to(self.cold.position + self.cold.size)
        self.cold = None

    def send(self) -> int:
        """Send what the socket takes, up to a turn's share; returns the number of bytes.

        Zero with parts left means that the socket is full or, where `cold` is set, that the
        disk must be read first. Raises OSError when the connection is broken.
        """
        total = 0
        parts = self._parts
        try:
            while parts and total < TURN_BYTES:
                head = parts[0]
                sent = self._send_file(head) if isinstance(head, Slice) else self._send_bytes()
                if sent == 0:
                    break
                total += sent
        except BlockingIOError:
            pass
        self.size -= total
        return total

    def _send_bytes(self) -> int:
        parts = self._parts
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
            if not _in_page_cache(file.fd, position, size):
                self.cold = Slice(file, position, size)
                return 0
            self._is_warm_to(position + size)
        size = min(left, self._warm_to - position)
        sent = os.sendfile(self._socket.fileno(), file.fd, position, size)
        if sent == 0:
            raise OSError(f"{left} bytes of a log file are gone")
        if sent == left:
            self._parts.popleft()
            self._warm_to = 0
            file.unpin()
        else:
            self._parts[0] = Slice(file, position + sent, left - sent)
        return sent

    def _is_warm_to(self, position: int) -> None:
        self._warm_to = position
        self._warm_until = monotonic() + WARM_FOR_SECONDS

    def clear(self) -> None:
        """Drop everything: the connection has gone."""
        for part in self._parts:
            if isinstance(part, Slice):
                part.file.unpin()
        self._parts.clear()
        self.size = 0


def _in_page_cache(fd: int, position: int, size: int) -> bool:
    if not _NOWAIT:
        return True
    byte = bytearray(1)
    last = position + size - 1
    try:
        while position < last:
            os.preadv(fd, (byte,), position, _NOWAIT)
            position += PROBE_EVERY
        os.preadv(fd, (byte,), last, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError:  # a file system without RWF_NOWAIT: sendfile will tell what is wrong
        return True
    return True
