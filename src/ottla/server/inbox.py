"""The bytes a connection has received and not yet handled.

Rules kept here:
1. A frame is handled where it was received. The first bytes of a quiet connection land in a
   buffer that all connections share; only what is left over gets a buffer of its own.
2. Memory grows with what has arrived, never with what a length field promises; it grows by a
   factor, so that many small receives do not copy the same bytes again and again.
3. A quiet connection holds no buffer: `release` gives it back.
4. The buffer of a frame above KEPT_FRAME_BYTES is its handler's: `give_up` leaves it.
"""

from struct import Struct
from typing import Final

from ottla.wire.headers import KEPT_FRAME_BYTES

SHARED_BYTES: Final = 128 << 10
SMALLEST_BUFFER: Final = 4 << 10
KEPT_BYTES: Final = KEPT_FRAME_BYTES
"""A buffer up to this size is kept for the next frame; a larger one was for a rare frame."""
GROWS_FAST_TO: Final = 1 << 20
SIZE_BYTES: Final = 4
_SIZE: Final = Struct(">i")


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

    @property
    def holds_frame(self) -> bool:
        """True if a whole frame has arrived and is not handled."""
        return 0 < self._frame() <= self.waiting

    @property
    def missing(self) -> int:
        """Bytes that the first frame lacks; 0 where none has begun, or it is all there."""
        if self.start == self.end:
            return 0
        return max(self._frame() - self.waiting, 0) or int(self.waiting < SIZE_BYTES)

    def room(self, shared: memoryview) -> memoryview:
        """Where to receive to next: never nothing."""
        if self.start == self.end:
            self.start = self.end = 0
            own = self._own
            self.view = shared if own is None or len(own) < SHARED_BYTES else own
            return self.view[:SHARED_BYTES]
        frame = self._frame()
        if self.view is not self._own or self.end == len(self.view):
            self._reserve(self._wanted(frame))
        if frame > self.waiting:
            # Exactly the rest of the frame: nothing of the next one has to be moved.
            return self.view[self.end : self.start + frame]
        return self.view[self.end :]

    def settle(self, shared: memoryview) -> None:
        """Leave the shared buffer, and a large one that is empty, before the turn ends."""
        if self.start == self.end:
            self.view = _NOTHING
            if self._own is not None and len(self._own) > KEPT_BYTES:
                self._own = None
        elif self.view is shared:
            self._reserve(self._wanted(self._frame()))

    def give_up(self) -> None:
        """Never receive into this buffer again: what was handled there may still be read."""
        rest = self.view[self.start : self.end]
        self._own = None
        self.view = _NOTHING
        self.start = self.end = 0
        if rest:
            self.view, self.end = rest, len(rest)
            self._reserve(len(rest))

    def drop(self) -> None:
        """Forget what has arrived and is not handled."""
        self.start = self.end

    def release(self) -> None:
        """Give the buffer back, if nothing is waiting in it."""
        if self.start == self.end:
            self._own = None
            self.view = _NOTHING

    def _frame(self) -> int:
        """The size of the first frame with its length field, 0 while that is not all there."""
        if self.end - self.start < SIZE_BYTES:
            return 0
        size: int = _SIZE.unpack_from(self.view, self.start)[0]
        return size + SIZE_BYTES

    def _wanted(self, frame: int) -> int:
        """How large a buffer should be for what waits and what will come."""
        waiting = self.end - self.start
        if frame <= waiting:
            return 2 * waiting
        return min(frame, max(2 * waiting, min(4 * waiting, GROWS_FAST_TO)))

    def _reserve(self, size: int) -> None:
        """Move what waits to the front of a buffer of our own that has `size` bytes."""
        own = self._own
        waiting = self.waiting
        if own is None or len(own) < size:
            own = memoryview(bytearray(max(size, SMALLEST_BUFFER)))
        own[:waiting] = self.view[self.start : self.end]
        self._own = self.view = own
        self.start = 0
        self.end = waiting


_NOTHING: Final = memoryview(bytearray(0))


def what_is_wrong_with_size(view: memoryview, start: int, size: int, largest: int) -> str:
    """Why a frame of this size is not one, for the log."""
    first = bytes(view[start : start + SIZE_BYTES])
    if first in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "client sent an HTTP request to a Kafka port"
    if first[:2] == b"\x16\x03":
        return "client sent a TLS handshake to a PLAINTEXT listener"
    return f"invalid request size {size}; socket.request.max.bytes is {largest}"
