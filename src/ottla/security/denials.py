"""Audit lines of denials, so few that a client which is denied cannot fill the disk. Pure.

The first denial of a (principal, operation, resource) is logged at once. Those that follow within
QUIET_SECONDS are counted, and logged with the next one after that. At most MOST_KEPT are
distinguished; the rest are counted together. Names are cut at LONGEST_NAME: clients choose them.
"""

from typing import Final, NamedTuple

from ottla.security.operations import Operation, ResourceType

QUIET_SECONDS: Final = 1.0
MOST_KEPT: Final = 1000
LONGEST_NAME: Final = 249


class Denial(NamedTuple):
    """What was denied to whom."""

    principal: str
    host: str
    operation: Operation
    kind: ResourceType
    name: str


class Told(NamedTuple):
    """A denial to be logged, and how many like it were not since the last one."""

    denial: Denial
    suppressed: int


class Denials:
    """Which denials were logged when."""

    __slots__ = ("_told", "total")

    def __init__(self) -> None:
        self._told: dict[Denial, tuple[float, int]] = {}
        self.total = 0

    def note(self, denial: Denial, now: float) -> Told | None:
        """Take in a denial; what to log, or None."""
        self.total += 1
        if len(denial.name) > LONGEST_NAME:
            denial = denial._replace(name=f"{denial.name[:LONGEST_NAME]}...")
        known = self._told.get(denial)
        if known is not None:
            told_at, more = known
            if now - told_at < QUIET_SECONDS:
                self._told[denial] = (told_at, more + 1)
                return None
            self._told[denial] = (now, 0)
            return Told(denial, more)
        if len(self._told) >= MOST_KEPT:
            self._drop_old(now)
            if len(self._told) >= MOST_KEPT:
                return None
        self._told[denial] = (now, 0)
        return Told(denial, 0)

    def _drop_old(self, now: float) -> None:
        self._told = {
            denial: known for denial, known in self._told.items() if now - known[0] < QUIET_SECONDS
        }
