"""Memory for large frames while they are received, shared by all connections. Pure.

Rules kept here:
1. A frame gets room for all of it or none: two half received ones cannot wait for each other.
2. Room is given in the order in which it was asked for, so a large frame is not passed over for
   ever by smaller ones.
3. One frame is always received, however large.
"""

from collections import deque
from typing import Final, Protocol

DEFAULT_BYTES: Final = 128 << 20


class BudgetWaiter(Protocol):
    """A connection that waits for room."""

    def room_freed(self) -> None:
        """Ask again, but not at once."""


class FrameBudget:
    """Counts the bytes of the large frames that are being received."""

    __slots__ = ("_limit", "_waiting", "taken")

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self._limit = limit
        self._waiting: deque[BudgetWaiter] = deque()
        self.taken = 0

    def take(self, size: int, who: BudgetWaiter) -> bool:
        """Whether there is room now; if not, `who` is called when there may be."""
        waiting = self._waiting
        is_next = not waiting or waiting[0] is who
        if is_next and (self.taken + size <= self._limit or self.taken == 0):
            self.taken += size
            if waiting:
                waiting.popleft()
                self._call_next()
            return True
        if not any(each is who for each in waiting):
            waiting.append(who)
        return False

    def give_back(self, size: int, who: BudgetWaiter) -> None:
        """A frame is handled, or its connection has ended, also while it waited (size 0)."""
        self.taken -= size
        if not size:
            self._waiting = deque(each for each in self._waiting if each is not who)
        self._call_next()

    def _call_next(self) -> None:
        if self._waiting:
            self._waiting[0].room_freed()
