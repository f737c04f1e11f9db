"""Waiting for what nobody announces: a file, an answer, a state of another process or thread.

Rules kept here:
1. Who waits says what for, and gives up after a time.
2. It is looked often enough that nobody is slower for it, and seldom enough that the one who is
   waited for gets the processor.
3. Whatever a look raises ends the waiting: so a claim can say that it will never come true.
4. Patience is for a machine with a core to spare. Where more processes want to run than there are
   cores, each gets its share of the time only, and the wait is as many times as long, up to
   `MOST_STRETCH` times. A claim that is wrong fails all the same, later.
"""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
LOOK_AGAIN_SECONDS = 0.02
LOOK_AGAIN_ON_LOOP_SECONDS = 0.002
"""What shares our process is nearer."""
MOST_STRETCH: Final = 4.0


def stretch() -> float:
    """How many times as long as on a quiet machine anything may take now."""
    wanting_to_run, _, _ = os.getloadavg()
    return min(max(wanting_to_run / (os.cpu_count() or 1), 1.0), MOST_STRETCH)


def stretched(seconds: float) -> float:
    """So many seconds of a quiet machine, as seconds of this one."""
    return seconds * stretch()


class Deadline:
    """The end of a wait that begins now. The load counts that the machine has when it is over."""

    def __init__(self, seconds: float = PATIENCE_SECONDS) -> None:
        self._seconds = seconds
        self._began = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether to give up."""
        waited = time.monotonic() - self._began
        return waited > self._seconds and waited > stretched(self._seconds)


def until(
    claim: Callable[[], T],
    what: str,
    seconds: float = PATIENCE_SECONDS,
    look_again: float = LOOK_AGAIN_SECONDS,
) -> T:
    """What the claim says once that is something; raises TimeoutError."""
    deadline = Deadline(seconds)
    while not (said := claim()):
        if deadline.is_over:
            raise TimeoutError(f"not true within {seconds:.0f} s: {what}")
        time.sleep(look_again)
    return said


async def until_on_loop(claim: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """The same beside what runs on the loop; raises TimeoutError."""
    deadline = Deadline(seconds)
    while not claim():
        if deadline.is_over:
            raise TimeoutError(f"not true within {seconds:.0f} s")
        await asyncio.sleep(LOOK_AGAIN_ON_LOOP_SECONDS)
