"""Waiting for what nobody announces: a file, an answer, a state of another process or thread.

Rules kept here:
1. Who waits says what for, and gives up after a time.
2. It is looked often enough that nobody is slower for it, and seldom enough that the one who is
   waited for gets the processor.
3. Whatever a look raises ends the waiting: so a claim can say that it will never come true.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
LOOK_AGAIN_SECONDS = 0.02
LOOK_AGAIN_ON_LOOP_SECONDS = 0.002
"""What shares our process is nearer."""


def until(
    claim: Callable[[], T],
    what: str,
    seconds: float = PATIENCE_SECONDS,
    look_again: float = LOOK_AGAIN_SECONDS,
) -> T:
    """What the claim says once that is something; raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not (said := claim()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so in {seconds:.0f} s: {what}")
        time.sleep(look_again)
    return said


async def until_on_loop(claim: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """The same beside what runs on the loop; raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not claim():  # noqa: ASYNC110 (nobody sets an event)
            await asyncio.sleep(LOOK_AGAIN_ON_LOOP_SECONDS)
