"""How busy the event loop is: how late its timers fire, and what share of the time it is idle.

Runs only where metrics are served. The share is that of the loop's thread without the processor:
while it waits for sockets, it rests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from ottla.broker.metrics.counters import Histogram
from ottla.broker.metrics.recent import ROLL_SECONDS

TICK_SECONDS: Final = 0.25


class LoopWatch:
    """Watches the running loop; calls `on_roll` every `ROLL_SECONDS`."""

    def __init__(self, on_roll: Callable[[], None]) -> None:
        self.delay = Histogram()
        self.idle = 1.0
        """The share of the last `ROLL_SECONDS`, 0 to 1, in which the loop rested."""
        self._on_roll = on_roll
        self._timer: asyncio.TimerHandle | None = None
        self._window = (0.0, 0.0)

    def start(self) -> None:
        """Begin to watch."""
        loop = asyncio.get_running_loop()
        self._window = loop.time(), time.thread_time()
        self._timer = loop.call_later(TICK_SECONDS, self._tick, loop, loop.time() + TICK_SECONDS)

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        self.delay.observe(max(0.0, now - due))
        began, used = self._window
        if now - began >= ROLL_SECONDS:
            busy = time.thread_time()
            self.idle = min(1.0, max(0.0, 1.0 - (busy - used) / (now - began)))
            self._window = now, busy
            self._on_roll()
        self._timer = loop.call_later(TICK_SECONDS, self._tick, loop, now + TICK_SECONDS)
