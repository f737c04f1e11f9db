"""How long a broker's loop works without a pause, by the CPU time of its own thread.

Time on the clock says what clients feel, but on a machine with other work it says that of the
others too. The thread's CPU time does not depend on them.
"""

import asyncio
from time import perf_counter, thread_time

from ottla.embedded import Broker
from tests.server.inside import on_loop

TICK_SECONDS = 0.001


class Meter:
    """Ticks in a loop; between two ticks is what the loop did in one turn, or in very few."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._worst = 0.0
        self._worst_wall = 0.0
        self._last = self._last_wall = 0.0
        on_loop(broker, self._begin)

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last, self._last_wall = thread_time(), perf_counter()
        self._loop.call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        now, wall = thread_time(), perf_counter()
        self._worst = max(self._worst, now - self._last)
        self._worst_wall = max(self._worst_wall, wall - self._last_wall)
        self._last, self._last_wall = now, wall
        self._loop.call_later(TICK_SECONDS, self._tick)

    def take(self) -> tuple[float, float]:
        """The longest turn since the last call, in seconds of CPU and of the clock."""

        def read() -> tuple[float, float]:
            found = max(self._worst, thread_time() - self._last), self._worst_wall
            self._worst = self._worst_wall = 0.0
            return found

        return on_loop(self._broker, read)
