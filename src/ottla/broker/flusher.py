"""The one place of a broker where logs wait for the disk.

Rules kept here:
1. A flush that comes while nothing is under way begins with the end of the loop's turn, and those
   that came in the same turn go with it. What comes while all threads are busy waits, and the next
   thread that is free takes as many as there are: they share the commits of the file system.
2. Every flush gets its own answer: one that fails is not the others' failure.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from ottla.log.flush import Flush, run_together

THREADS: Final = 4
TOGETHER: Final = 64
"""Flushes that share a thread: each of them has some files open."""


class Flusher:
    """Runs the flushes of many logs, in threads."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Flush, asyncio.Future[None]]] = []
        self._running = 0

    def flushed(self, flush: Flush) -> asyncio.Future[None]:
        """Run a flush; raises OSError where it fails."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[None] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._begin)
        self._waiting.append((flush, answer))
        return answer

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and self._running < THREADS:
            group = self._waiting[:TOGETHER]
            del self._waiting[:TOGETHER]
            self._running += 1
            run = loop.run_in_executor(None, run_together, [flush for flush, _ in group])
            run.add_done_callback(partial(self._end, group))

    def _end(
        self, group: list[tuple[Flush, asyncio.Future[None]]], run: asyncio.Future[None]
    ) -> None:
        self._running -= 1
        unexpected = None if run.cancelled() else run.exception()
        for flush, answer in group:
            problem = flush.error or unexpected
            if answer.done():
                continue
            if problem is None:
                answer.set_result(None)
            else:
                answer.set_exception(problem)
        self._begin()
