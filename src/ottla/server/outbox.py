"""What a connection still has to send: bytes, and stretches of log files by sendfile.

Rules kept here:
1. A reply's parts leave in order; neighbouring bytes leave in one system call.
2. At most `TURN_BYTES` leave in one turn of the loop, so that one reader cannot starve the rest.
3. A stretch that is not in the page cache is read by a thread, and leaves from memory: the loop
   never waits for a disk. What was seen in the page cache is believed to be there for a moment, not
   for as long as a slow client takes. Where something was not, what follows is not believed for a
   while: the kernel that has dropped a file's pages may do so again between a look and a send.
4. A file stays open (pinned) until its stretch is sent or the connection has gone.
"""

import os
import socket
from collections import deque
from time import monotonic
from typing import Final

from ottla.log.files import Slice, in_page_cache

TURN_BYTES: Final = 1 << 20
WARM_FOR_SECONDS: Final = 0.02
COLD_FOR_SECONDS: Final = 5.0
MOST_VECTORS: Final = 64
_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)


class Outbox:
    """A queue of parts on their way into one socket."""

    __slots__ = ("_cold_until", "_parts", "_socket", "_warm_to", "_warm_until", "cold", "size")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._parts: deque[bytes | memoryview | Slice] = deque()
        self._warm_to = 0
        """The first stretch is in the page cache up to here, so it is not asked after each send."""
        self._warm_until = 0.0
        self._cold_until = 0.0
        self.size = 0
        """Bytes that have not left; 0 where there is nothing to send."""
        self.cold: Slice | None = None
        """The stretch that must be read from disk before anything more can leave."""

    def add_bytes(self, part: bytes) -> None:
        """Queue bytes."""
        self._parts.append(part)
        self.size += len(part)

    def add_file(self, part: Slice) -> None:
        """Queue a stretch of a file, which is pinned."""
        self._parts.append(part)
        self.size += part.size

    def take(self, data: bytes) -> None:
        """The cold stretch has been read: its bytes leave in its place."""
        cold, self.cold = self.cold, None
        assert cold is not None
        assert len(data) == cold.size
        file, position, left = cold.file, cold.position + cold.size, self._head_size() - cold.size
        if left:
            self._parts[0] = Slice(file, position, left)
        else:
            self._parts.popleft()
            file.unpin()
        self._parts.appendleft(data)

    def _head_size(self) -> int:
        head = self._parts[0]
        assert isinstance(head, Slice)
        return head.size

    def send(self) -> int:
        """Send what the socket takes, up to a turn's share; returns the number of bytes.

        Zero with parts left means that the socket is full or, where `cold` is set, that the
        disk must be read first. Raises OSError when the connection is broken.
        """
        total = 0
        parts = self._parts
        try:
            if len(parts) == 1 and type(parts[0]) is bytes:  # a small reply, as most are
                total = self._socket.send(parts[0])
                if total == len(parts[0]):
                    parts.clear()
                else:
                    parts[0] = memoryview(parts[0])[total:]
                self.size -= total
                return total
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
            now = monotonic()
            if now < self._cold_until:
                self.cold = Slice(file, position, size)
                return 0
            if not in_page_cache(file.fd, position, size):
                self._cold_until = now + COLD_FOR_SECONDS
                self.cold = Slice(file, position, size)
                return 0
            self._warm_to = position + size
            self._warm_until = now + WARM_FOR_SECONDS
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

    def clear(self) -> None:
        """Drop everything: the connection has gone."""
        for part in self._parts:
            if isinstance(part, Slice):
                part.file.unpin()
        self._parts.clear()
        self.size = 0
