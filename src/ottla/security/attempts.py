"""How often a password may be tried: failed logins by who tries, and by whom they name (pure).

Rules kept here:
1. After some failures within a window the next attempts are refused, right password or not, until
   the oldest of them is forgotten. A success forgets those of its address and user.
2. Memory is bounded: of many who failed, those who failed last are remembered.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Final

WINDOW_SECONDS: Final = 60.0
MOST_BY_ADDRESS: Final = 20
MOST_BY_USER: Final = 40
"""Higher: somebody who knows a name must not lock out its owner with few attempts."""
REMEMBERED: Final = 10_000


class Attempts:
    """The failed logins of the last while; threads may share it."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._lock = Lock()
        self._failures: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    def wait(self, address: str, user: str) -> float:
        """Seconds until the next attempt is looked at; 0: now."""
        with self._lock:
            return max(
                self._wait(("address", address), MOST_BY_ADDRESS),
                self._wait(("user", user), MOST_BY_USER),
            )

    def _wait(self, key: tuple[str, str], most: int) -> float:
        failed = self._recent(key)
        return 0.0 if len(failed) < most else failed[-most] + WINDOW_SECONDS - self._now()

    def _recent(self, key: tuple[str, str]) -> list[float]:
        since = self._now() - WINDOW_SECONDS
        return [at for at in self._failures.get(key, ()) if at > since]

    def failed(self, address: str, user: str) -> None:
        """A password was wrong."""
        with self._lock:
            for key in (("address", address), ("user", user)):
                self._failures[key] = [*self._recent(key), self._now()]
                self._failures.move_to_end(key)
            while len(self._failures) > REMEMBERED:
                self._failures.popitem(last=False)

    def succeeded(self, address: str, user: str) -> None:
        """A password was right."""
        with self._lock:
            self._failures.pop(("address", address), None)
            self._failures.pop(("user", user), None)
