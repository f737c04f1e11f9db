"""The one place of a broker where logs wait for the disk.

Rules kept here:
1. A flush that comes while nothing is under way begins with the end of the loop's turn, and those
   that came in the same turn go with it. What comes while all threads are busy waits, and the next
   thread that is free takes as many as there are: they share the commits of the file system.
2. Every flush gets its own answer: one that fails is not the others' failure.
3. None is lost where the system gives no thread: it waits for one.
"""

from __future__ import annotations

import asyncio
from typing import Final, TypeAlias

import structlog

from ottla.log.flush import Flush, run_together

log = structlog.get_logger()

THREADS: Final = 4
TOGETHER: Final = 64
"""Flushes that share a thread: each of them has some files open."""

THREAD_AGAIN_SECONDS: Final = 1.0

Group: TypeAlias = list[tuple[Flush, "asyncio.Future[None]"]]


class Flusher:
    """Runs the flushes of many logs, in threads."""

    def __init__(self) -> None:
        self._waiting: Group = []
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
            try:
                loop.run_in_executor(None, self._run, loop, group)
            except RuntimeError:
                # The system gives no thread now. The executor has the group in its queue all the
                # same: one of its threads takes it, or the next that it can start.
                log.warning("no thread available; flushes are waiting", flushes=len(group))
                loop.call_later(THREAD_AGAIN_SECONDS, self._ask_for_a_thread)

    def _ask_for_a_thread(self) -> None:
        """The executor starts one only where it is given work."""
        loop = asyncio.get_running_loop()
        try:
            loop.run_in_executor(None, _nothing)
        except RuntimeError:
            loop.call_later(THREAD_AGAIN_SECONDS, self._ask_for_a_thread)

    def _run(self, loop: asyncio.AbstractEventLoop, group: Group) -> None:
        """Runs in a thread."""
        unexpected: BaseException | None = None
        try:
            run_together([flush for flush, _ in group])
        except BaseException as problem:  # noqa: BLE001 it is raised to the callers that wait
            unexpected = problem
        loop.call_soon_threadsafe(self._end, group, unexpected)

    def _end(self, group: Group, unexpected: BaseException | None) -> None:
        self._running -= 1
        for flush, answer in group:
            problem = flush.error or unexpected
            if answer.done():
                continue
            if problem is None:
                answer.set_result(None)
            else:
                answer.set_exception(problem)
        self._begin()


def _nothing() -> None:
    """What a thread does that is started for what waits already."""
