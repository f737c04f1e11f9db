"""Long work on the loop, divided into short turns.

Rules kept here:
1. Work that has had its turn waits until all who wait for the loop have had theirs.
2. Of all long work one piece has its turn at a time: a hundred long requests delay nobody a hundred
   times as much as one does.
By the clock, since uvloop's own time does not advance within a turn of the loop.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from time import monotonic
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

TURN_SECONDS: Final = 0.004
ELEMENTS_IN_ONE_TURN: Final = 50
"""Partitions that a walk over all of them looks at before it gives way."""
T = TypeVar("T")


async def in_turns(elements: Iterable[T]) -> AsyncIterator[T]:
    """Walk over very many elements, giving way to clients now and then."""
    for number, element in enumerate(elements, 1):
        yield element
        if number % ELEMENTS_IN_ONE_TURN == 0:
            await asyncio.sleep(0)


class Turns:
    """Say `give_way` after each piece of the work: it waits once the turn has been long enough."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends = monotonic() + TURN_SECONDS

    async def give_way(self) -> None:
        """Let all others have a turn, if this one is over."""
        if monotonic() > self._ends:
            await _next_turn()
            self._ends = monotonic() + TURN_SECONDS


class _Queue:
    """Those who wait for their next turn in a loop; each turn of the loop goes to one of them."""

    __slots__ = ("_goes_on", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._goes_on = False

    def join(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        place = loop.create_future()
        self._waiting.append(place)
        if not self._goes_on:
            self._goes_on = True
            loop.call_soon(self._call_next, loop)
        return place

    def _call_next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():  # its task may have been cancelled
                place.set_result(None)
                loop.call_soon(self._call_next, loop)
                return
        self._goes_on = False


_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()


def _next_turn() -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    queue = _queues.get(loop)
    if queue is None:
        queue = _queues[loop] = _Queue()
    return queue.join(loop)
