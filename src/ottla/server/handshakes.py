"""TLS handshakes, off the loop: one takes half a millisecond to six milliseconds of CPU.

Rules kept here:
1. `THREADS` threads do them, in the order in which they were asked for.
2. At most `MOST_AT_ONCE` wait for the threads; the rest wait unread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

THREADS: Final = 2
MOST_AT_ONCE: Final = 64

Work = Callable[[], None]


class Handshakes:
    """Runs steps of handshakes in threads, and says in the loop when they are done."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads: ThreadPoolExecutor | None = None
        self._running = 0
        self._waiting: deque[tuple[Work, Callable[[asyncio.Future[None]], object]]] = deque()

    def run(self, work: Work, done: Callable[[asyncio.Future[None]], object]) -> None:
        """Do the work in a thread, then call `done` in the loop with what became of it."""
        if self._running >= MOST_AT_ONCE:
            self._waiting.append((work, done))
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tls")
        self._running += 1
        future = self._loop.run_in_executor(self._threads, work)
        future.add_done_callback(done)
        future.add_done_callback(self._go_on)

    def _go_on(self, _: object) -> None:
        self._running -= 1
        if self._waiting and self._threads is not None:
            self.run(*self._waiting.popleft())

    def stop(self) -> None:
        """Begin no new ones."""
        self._waiting.clear()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
