"""How long this machine did not let the harness run: such time is nobody's unavailability.

A thread sleeps a little, over and over, and notes when it was woken much later than it asked for.
What runs beside it on a crowded machine, brokers and ZooKeeper, waited as long.
"""

import threading
import time

NAP_SECONDS = 0.02
WORTH_NOTING_SECONDS = 0.1


class Stalls:
    """The stalls of one run."""

    def __init__(self) -> None:
        self._found: list[tuple[float, float]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalls", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for that."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
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
        """How many seconds of a time were stalled."""
        return sum(max(0.0, min(ended, came) - max(began, due)) for due, came in self._found)

    @property
    def total(self) -> float:
        """How many seconds were stalled in all."""
        return sum(came - due for due, came in self._found)
