"""The large frames of one connection: which are received, and the memory each needs. Pure.

Rules kept here:
1. A large frame is received once there is room for all of it (`budget.py`), and not while another
   request of the connection waits for its answer.
2. One that would be refused for its size is refused before it is received.
3. Clients that are not authenticated share a budget of their own and do not wait for room: a frame
   of theirs that is not small and finds none is refused.
"""

from struct import Struct
from typing import Final

from ottla.server.budget import BudgetWaiter, FrameBudget
from ottla.server.inbox import SHARED_BYTES, SIZE_BYTES
from ottla.wire.apis import ApiKey
from ottla.wire.reply import UnanswerableError

LARGEST_WITHOUT_RECORDS: Final = 8 << 20
"""A request without records, decoded, takes far more memory than the bytes it comes from."""
LARGE_FRAME: Final = SHARED_BYTES
UNKNOWN_CLIENTS_FRAME: Final = 16 << 10
"""What a client that is not authenticated may send without asking for room."""
_KEY: Final = Struct(">h")
_PRODUCE: Final = int(ApiKey.PRODUCE)


class LargeFrame:
    """One frame that is being received."""

    __slots__ = ("_budget", "_is_reserved", "_size", "_waiter")

    def __init__(self, size: int, budget: FrameBudget, waiter: BudgetWaiter) -> None:
        self._size = size
        self._budget = budget
        self._waiter = waiter
        self._is_reserved = False

    def reserve(self, behind_another: bool = False) -> bool:
        """Take room for all of it, once; False while there is none, and the waiter is called.

        Behind another request that waits none is taken: it might wait for long.
        """
        if not self._is_reserved and not behind_another:
            self._is_reserved = self._budget.take(self._size, self._waiter)
        return self._is_reserved

    def end(self) -> None:
        """Give the room back: the frame is handled, or will not be."""
        self._budget.give_back(self._size if self._is_reserved else 0, self._waiter)


class FrameAdmission:
    """Decides about each frame of a connection that has begun to arrive."""

    __slots__ = ("_arrivals", "_budget", "_waiter")

    def __init__(
        self, waiter: BudgetWaiter, budget: FrameBudget | None, arrivals: FrameBudget | None
    ) -> None:
        """`arrivals` is the budget until the client is authenticated; None where it need not be."""
        self._waiter = waiter
        self._budget = budget or FrameBudget()
        self._arrivals = arrivals

    def authenticated(self) -> None:
        """The client is known from now on."""
        self._arrivals = None

    def begin(self, view: memoryview, start: int, end: int, size: int) -> LargeFrame | None:
        """The frame of this size that starts here, if it is a large one.

        Raises UnanswerableError where it is refused.
        """
        if self._arrivals is not None:
            frame = LargeFrame(size, self._arrivals, self._waiter)
            if not frame.reserve():
                frame.end()
                raise UnanswerableError("too many large requests before authentication")
            return frame
        if size <= LARGE_FRAME:
            return None
        key_at = start + SIZE_BYTES
        if (
            size > LARGEST_WITHOUT_RECORDS
            and end >= key_at + _KEY.size
            and _KEY.unpack_from(view, key_at)[0] != _PRODUCE
        ):
            raise UnanswerableError(f"request of {size} bytes without records is too large")
        return LargeFrame(size, self._budget, self._waiter)
