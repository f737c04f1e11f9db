"""Records of coordinators that linger until the end of the loop's turn.

Many clients commit offsets in one turn of the loop. One append for all of them costs little more
than the append for one of them.

Rules kept here:
1. A reply never leaves before the records that it confirms are appended: the server calls
   `write_out` before it sends anything, if something is pending. That is all it knows of this.
2. Where an append fails, only the connections whose replies depended on its records are lost
   (`on_lost`). Each failure is reported once. All others get their replies.
3. Only records that are safe as soon as they are appended linger (`ShardRunner.may_linger`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from ottla.coordinator.shard import CoordinatorRecord


class LingeringRecords:
    """The records of one coordinator that are replayed and not appended yet."""

    __slots__ = ("connections", "lost", "records", "size")

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.size = 0
        """The most bytes that their batch takes."""
        self.connections: set[int] = set()
        """Those whose replies say that the records are written."""
        self.lost: set[int] = set()
        """Those whose records could not be appended, until that is reported."""

    def add(self, records: Iterable[CoordinatorRecord], size: int) -> None:
        """More records; with them they have this size."""
        self.records += records
        self.size = size

    def written(self) -> None:
        """They are appended."""
        self.records = []
        self.connections.clear()

    def drop(self) -> None:
        """They will not be appended."""
        if self.records:
            self.lost |= self.connections
            self.written()

    def take_lost(self) -> set[int]:
        """The connections that were lost since this was last asked."""
        lost, self.lost = self.lost, set()
        return lost


class Lingering(Protocol):
    """A coordinator with records that are not appended yet."""

    def write_out(self) -> set[int]:
        """Append them; the connections whose replies may not leave."""


class LingeringWrites:
    """The coordinators of this broker that have such records."""

    __slots__ = ("on_lost", "pending")

    def __init__(self) -> None:
        self.pending: list[Lingering] = []
        """Those with records to append. Where it is empty, replies may leave."""
        self.on_lost: Callable[[set[int]], object] = lambda _: None
        """Called with the ids of connections whose replies may not leave. The server sets it."""

    def write_out(self) -> None:
        """Append everything."""
        pending, self.pending = self.pending, []
        lost: set[int] = set()
        for each in pending:
            lost |= each.write_out()
        if lost:
            self.on_lost(lost)
