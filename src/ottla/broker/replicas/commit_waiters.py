"""Requests that wait for records of a partition to be committed.

Rules kept here:
1. An action is called once: when the high watermark has reached its offset, or when it is lost.
2. Those with lower offsets come first; among equals, who asked first.
3. Who gives up is not called, and is forgotten: the high watermark may not move for hours, and
   clients that ask again all the while must not fill the memory.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

Action = Callable[[], object]

NOBODY: Final = 0
"""The number of no waiter."""
FEW: Final = 32
"""This many places of those who gave up are kept whatever happens."""


class _Waiter(NamedTuple):
    committed: Action
    lost: Action | None


class CommitWaiters:
    """The waiters of one partition."""

    __slots__ = ("_count", "_places", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, _Waiter] = {}
        self._places: list[tuple[int, int]] = []
        """Offset and number of each waiter, as a heap; and of some who gave up."""
        self._count = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def size(self) -> int:
        """How many places are kept in memory."""
        return len(self._places)

    def add(self, offset: int, committed: Action, lost: Action | None) -> int:
        """Call `committed` once everything below an offset is; a number to give up by."""
        self._count += 1
        self._waiting[self._count] = _Waiter(committed, lost)
        heappush(self._places, (offset, self._count))
        return self._count

    def give_up(self, number: int) -> None:
        """Call nothing for this one, if it still waits."""
        if self._waiting.pop(number, None) is None:
            return
        if len(self._places) > 2 * len(self._waiting) + FEW:
            self._places = [place for place in self._places if place[1] in self._waiting]
            heapify(self._places)

    def committed(self, high_watermark: int) -> None:
        """Everything below an offset is committed."""
        while self._places and self._places[0][0] <= high_watermark:
            waiter = self._waiting.pop(heappop(self._places)[1], None)
            if waiter is not None:
                waiter.committed()

    def lost(self) -> None:
        """This broker can no longer say whether the rest will be."""
        places, self._places = self._places, []
        waiting, self._waiting = self._waiting, {}
        for _, number in sorted(places):
            waiter = waiting.get(number)
            if waiter is not None and waiter.lost is not None:
                waiter.lost()
