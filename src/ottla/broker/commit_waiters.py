"""Who waits for records of a partition to be committed.

Rules kept here:
1. An action is called once: when the high watermark has reached its offset, or when it is lost.
2. Those with lower offsets come first; among equals, who asked first.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

Action = Callable[[], object]


class _Waiter(NamedTuple):
    offset: int
    number: int
    committed: Action
    lost: Action | None


class CommitWaiters:
    """The waiters of one partition."""

    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[_Waiter] = []
        self._count = 0

    def add(self, offset: int, committed: Action, lost: Action | None) -> None:
        """Call `committed` once everything below an offset is."""
        self._count += 1
        heappush(self._waiting, _Waiter(offset, self._count, committed, lost))

    def committed(self, high_watermark: int) -> None:
        """Everything below an offset is committed."""
        waiting = self._waiting
        while waiting and waiting[0].offset <= high_watermark:
            heappop(waiting).committed()

    def lost(self) -> None:
        """This broker cannot say any more whether the rest will be."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if waiter.lost is not None:
                waiter.lost()
