"""Long work on the loop, in turns that others do not notice.

By the clock, since uvloop's own time stands still within a turn of the loop.
"""

import asyncio
from time import monotonic
from typing import Final

TURN_SECONDS: Final = 0.01


class Turns:
    """Say `give_way` after each piece of the work: it waits once the turn has been long enough."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends = monotonic() + TURN_SECONDS

    async def give_way(self) -> None:
        """Let all others have a turn, if this one is over."""
        if monotonic() > self._ends:
            await asyncio.sleep(0)
            self._ends = monotonic() + TURN_SECONDS
