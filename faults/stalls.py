"""How long this machine did not let the harness run: such time is nobody's unavailability.

A thread on each core sleeps a little, over and over, and notes when it was woken much later than it
asked for. What runs beside it on a crowded machine, brokers and ZooKeeper, waited as long. On each,
because a virtual machine may lose one of its cores for seconds while the others go on.
"""

import math
import os
import threading
import time

NAP_SECONDS = 0.02
WORTH_NOTING_SECONDS = 0.1


class Stalls:
    """The stalls of one run."""

    def __init__(self) -> None:
        self._found: list[tuple[float, float]] = []
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(core,), name=f"stalls-{core}", daemon=True)
            for core in os.sched_getaffinity(0)
        ]

    def start(self) -> None:
        """Begin to watch."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End, and wait for that."""
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _run(self, core: int) -> None:
        os.sched_setaffinity(threading.get_native_id(), {core})
        before = time.monotonic()
        while not self._end.wait(NAP_SECONDS):
            now = time.monotonic()
            self.note(before + NAP_SECONDS, now)
            before = now

    def note(self, due: float, came: float) -> None:
        """A moment came later than it was due."""
        if came - due > WORTH_NOTING_SECONDS:
            self._found.append((due, came))

    def within(self, began: float, ended: float) -> float:
        """How many seconds of a time were stalled, on one core or on several."""
        seconds = 0.0
        for due, came in sorted(self._found):
            due, came = max(due, began), min(came, ended)
            if came > due:
                seconds += came - due
                began = came
        return seconds

    @property
    def total(self) -> float:
        """How many seconds were stalled in all."""
        return self.within(-math.inf, math.inf)
