"""What a connection still has to send: bytes, and stretches of log files.

Rules kept here:
1. Parts leave in the order in which they were queued.
2. A file stays open (pinned) until its stretch is sent or the connection has gone.
"""

from collections import deque

from ottla.log.storage.file_cache import Slice
from ottla.wire.fetch import FileSlice


class Outbox:
    """A queue of parts. A sender takes them from the front of `parts` and lowers `size`."""

    __slots__ = ("cold", "parts", "size")

    def __init__(self) -> None:
        self.parts: deque[bytes | memoryview | Slice] = deque()
        self.size = 0
        """Bytes that have not left; 0 where there is nothing to send."""
        self.cold: Slice | None = None
        """The beginning of the first part, where that must be read from disk before it leaves."""

    def add_bytes(self, part: bytes) -> None:
        """Queue bytes."""
        self.parts.append(part)
        self.size += len(part)

    def add_file(self, part: FileSlice) -> None:
        """Queue a stretch of a file, which is pinned."""
        assert isinstance(part, Slice)
        self.parts.append(part)
        self.size += part.size

    def take(self, data: bytes) -> None:
        """The cold stretch has been read: its bytes leave in its place."""
        cold, self.cold = self.cold, None
        head = self.parts[0]
        assert cold is not None
        assert isinstance(head, Slice)
        assert len(data) == cold.size
        left = head.size - cold.size
        if left:
            self.parts[0] = Slice(cold.file, cold.position + cold.size, left)
        else:
            self.parts.popleft()
            cold.file.unpin()
        self.parts.appendleft(data)

    def clear(self) -> None:
        """Drop everything: the connection has gone."""
        for part in self.parts:
            if isinstance(part, Slice):
                part.file.unpin()
        self.parts.clear()
        self.size = 0
