"""Reading from the disk what is not in the page cache, in a thread: the loop waits for no disk.

Rules kept here:
1. What was read is looked for again, by the caller. A disk error is raised then.
2. Where the same place is cold twice in a row (the kernel has dropped it again), it is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from ottla.log.storage.page_cache import ColdReadError

T = TypeVar("T")


def begin_to_read(readers: Executor, cold: ColdReadError) -> asyncio.Future[None]:
    """Let a thread read it."""
    cold.hold()
    reading = asyncio.get_running_loop().run_in_executor(readers, cold.read)
    reading.add_done_callback(lambda _: cold.release())
    return reading


async def look_again(readers: Executor, cold: ColdReadError, look: Callable[[bool], T]) -> T:
    """What `look`, which found something cold, finds now; it gets whether it may wait."""
    while True:
        await asyncio.wait((begin_to_read(readers, cold),))
        try:
            return look(False)
        except ColdReadError as next_one:
            if str(next_one) == str(cold):
                return look(True)
            cold = next_one
