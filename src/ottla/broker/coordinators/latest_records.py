"""Records of a coordinator that are read from its log: of each key only the last is replayed.

A group that commits every second leaves thousands of records, and the last one of each partition
says all that the others said. Reading what a record says is most of the time that loading takes.

Rules kept here:
1. What is replayed has the same outcome as if all had been replayed, in their order: only records
   that replace one another wholly are gathered, and all of them are replayed before one that does
   not.
2. As many are gathered as can be replayed in a few milliseconds.
"""

from collections.abc import Callable
from typing import Final

from ottla.coordinator.shard import CoordinatorRecord

MOST: Final = 2_000


class LatestRecords:
    """The last record of each key, not replayed yet."""

    __slots__ = ("_latest", "_replay")

    def __init__(self, replay: Callable[[CoordinatorRecord], None]) -> None:
        self._replay = replay
        self._latest: dict[bytes, bytes | None] = {}

    def put(self, key: bytes, value: bytes | None) -> None:
        """A record that replaces the one with its key."""
        if key in self._latest:
            del self._latest[key]  # its place is that of the last one
        elif len(self._latest) == MOST:
            self.replay_all()
        self._latest[key] = value

    def replay_all(self) -> None:
        """Replay what was gathered."""
        latest, self._latest = self._latest, {}
        for key, value in latest.items():
            self._replay(CoordinatorRecord(key, value))
