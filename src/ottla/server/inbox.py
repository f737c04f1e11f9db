"""The bytes a connection has received and not yet handled.

Rules kept here:
1. A frame is handled where it was received. The first bytes of a quiet connection land in a
   buffer that all connections share; only what is left over gets a buffer of its own.
2. Memory grows with what has arrived, never with what a length field promises.
3. A quiet connection holds no buffer: `release` gives it back.
"""

from typing import Final

SHARED_BYTES: Final = 128 << 10
SMALLEST_BUFFER: Final = 4 << 10
KEPT_BYTES: Final = 2 << 20
"""A buffer up to this size is kept for the next frame; a larger one was for a rare frame."""
SIZE_BYTES: Final = 4


class Inbox:
    """A connection's receive buffer. `view[start:end]` is what has arrived."""

    __slots__ = ("_own", "end", "start", "view")

    def __init__(self) -> None:
        self._own: memoryview | None = None
        self.view = _NOTHING
        self.start = 0
        self.end = 0

    @property
    def waiting(self) -> int:
        """Bytes that have arrived and are not handled."""
        return self.end - self.start

    def room(self, shared: memoryview, wanted: int) -> memoryview:
        """Where to receive to next. `wanted` is the size of the frame under way, 0 if unknown."""
        if self.start == self.end:
            self.start = self.end = 0
            self.view = shared if self._own is None else self._own
            return self.view[:SHARED_BYTES]
        if wanted > SHARED_BYTES:
            # Exactly the rest of a large frame: nothing of the next one has to be moved.
            self._reserve(min(wanted, max(2 * self.waiting, 8 * SHARED_BYTES)))
            return self.view[self.end : self.start + wanted]
        self._reserve(max(wanted, self.waiting + 1, SMALLEST_BUFFER))
        return self.view[self.end :]

    def _reserve(self, size: int) -> None:
        """Have `size` bytes from `start` on, in a buffer of our own."""
        own = self._own
        if own is not None and self.view is own and self.start + size <= len(own):
            return
        waiting = self.waiting
        if own is None or len(own) < size:
            own = memoryview(bytearray(max(size, SMALLEST_BUFFER)))
        own[:waiting] = self.view[self.start : self.end]
        self._own = self.view = own
        self.start = 0
        self.end = waiting

    def settle(self, shared: memoryview) -> None:
        """Leave the shared buffer, and a large one that is empty, before the turn ends."""
        if self.start == self.end:
            self.view = _NOTHING
            if self._own is not None and len(self._own) > KEPT_BYTES:
                self._own = None
        elif self.view is shared:
            self._reserve(self.waiting)

    def release(self) -> None:
        """Give the buffer back, if nothing is waiting in it."""
        if self.start == self.end:
            self._own = None
            self.view = _NOTHING


_NOTHING: Final = memoryview(bytearray(0))
