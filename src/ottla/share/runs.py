"""The records in flight of a share partition, as runs: neighbours in one state are one element.

Rules kept here:
1. Runs are sorted and do not overlap. Offsets between them are holes: not known to be in flight.
2. A run belongs to one delivery (`Delivery`): the range that was acquired for the first time by one
   fetch, or stored as one batch. Runs of different deliveries are not joined, because a delivery is
   the unit that is offered again and throttled, as Kafka's in-flight batch.
3. ACQUIRED means a member and a lock. A run whose change is being written (`write`) is neither
   acquirable nor acknowledgeable; it remembers the member for the case that the write fails.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter

from ottla.share.states import ACQUIRED, AVAILABLE, NOBODY, TERMINAL, RecordState

NO_WRITE = 0

_FIRST = attrgetter("first")


class Delivery:
    """The range that runs were cut from."""

    __slots__ = ("first", "last")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last

    @property
    def size(self) -> int:
        """How many offsets it has."""
        return self.last - self.first + 1


class Run:
    """Neighbouring records of one delivery in the same state."""

    __slots__ = (
        "available_at",
        "count",
        "delivery",
        "first",
        "last",
        "locked_until",
        "member",
        "previous_member",
        "state",
        "write",
    )

    def __init__(
        self, first: int, last: int, state: RecordState, count: int, delivery: Delivery
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        self.delivery = delivery
        self.member = NOBODY
        self.locked_until = 0
        self.available_at = 0
        """Before this an AVAILABLE run is not offered."""
        self.write = NO_WRITE
        """The number of the write that decides about the last change."""
        self.previous_member = NOBODY
        """Who gets the run back if that write fails."""

    def __repr__(self) -> str:
        return f"{self.first}-{self.last} {self.state.name} x{self.count} {self.member}"

    @property
    def size(self) -> int:
        """How many offsets it has."""
        return self.last - self.first + 1

    @property
    def is_terminal(self) -> bool:
        """True if it will not be delivered again."""
        return self.state in TERMINAL

    @property
    def is_settled(self) -> bool:
        """True if it will not be delivered again, whatever becomes of a write."""
        return self.write == NO_WRITE and self.state in TERMINAL

    def is_acquirable(self, now: int) -> bool:
        """True if a member may get it."""
        return self.state is AVAILABLE and self.write == NO_WRITE and self.available_at <= now

    def is_held_by(self, member: str) -> bool:
        """True if the member may acknowledge it."""
        return self.state is ACQUIRED and self.write == NO_WRITE and self.member == member

    def acquire(self, member: str, locked_until: int) -> None:
        """Give it to a member."""
        assert self.state is AVAILABLE
        assert self.write == NO_WRITE
        self.state = ACQUIRED
        self.count += 1
        self.member = member
        self.locked_until = locked_until
        self.available_at = 0

    def change(self, state: RecordState, write: int) -> None:
        """Change its state; with a write, until its outcome is known."""
        if write != NO_WRITE:
            self.previous_member = self.member
            self.write = write
        else:
            self.locked_until = 0
        self.state = state
        self.member = NOBODY

    def settle(self) -> None:
        """The write succeeded, or its outcome does not matter."""
        self.write = NO_WRITE
        self.previous_member = NOBODY
        self.locked_until = 0

    def restore(self) -> None:
        """The write failed: the member has it as before."""
        self.state = ACQUIRED
        self.member = self.previous_member
        self.write = NO_WRITE
        self.previous_member = NOBODY

    def cut(self, first: int) -> Run:
        """Cut it before an offset; returns the second part."""
        rest = Run(first, self.last, self.state, self.count, self.delivery)
        rest.member = self.member
        rest.locked_until = self.locked_until
        rest.available_at = self.available_at
        rest.write = self.write
        rest.previous_member = self.previous_member
        self.last = first - 1
        return rest

    def is_like(self, other: Run) -> bool:
        """True if both can be one run."""
        return (
            self.delivery is other.delivery
            and self.last + 1 == other.first
            and self.state is other.state
            and self.count == other.count
            and self.member == other.member
            and self.locked_until == other.locked_until
            and self.available_at == other.available_at
            and self.write == other.write
            and self.previous_member == other.previous_member
        )


class Runs:
    """All runs of a share partition, by offset."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def last(self) -> int | None:
        """The last offset in flight."""
        return self._runs[-1].last if self._runs else None

    def floor(self, offset: int) -> Run | None:
        """The last run that begins at or before an offset."""
        at = bisect_right(self._runs, offset, key=_FIRST)
        return self._runs[at - 1] if at else None

    def within(self, first: int, last: int) -> list[Run]:
        """The runs inside a range; those that reach across its ends are cut there."""
        runs = self._runs
        start = self._cut_before(first)
        end = self._cut_before(last + 1)
        return runs[start:end]

    def overlapping(self, first: int, last: int) -> list[Run]:
        """The runs that have offsets of a range, as they are."""
        runs = self._runs
        at = bisect_right(runs, first, key=_FIRST)
        if at and runs[at - 1].last >= first:
            at -= 1
        return runs[at : bisect_right(runs, last, key=_FIRST)]

    def add(self, run: Run) -> None:
        """Add a run into a hole."""
        at = bisect_left(self._runs, run.first, key=_FIRST)
        assert not at or self._runs[at - 1].last < run.first
        assert at == len(self._runs) or self._runs[at].first > run.last
        self._runs.insert(at, run)

    def drop_below(self, offset: int) -> None:
        """Forget everything below an offset."""
        del self._runs[: self._cut_before(offset)]

    def join(self, first: int, last: int) -> None:
        """Join neighbours that are alike, in and around a range."""
        runs = self._runs
        at = max(1, bisect_left(runs, first, key=_FIRST))
        while at < len(runs) and runs[at].first <= last + 1:
            before, run = runs[at - 1], runs[at]
            if before.is_like(run):
                before.last = run.last
                del runs[at]
            else:
                at += 1

    def _cut_before(self, offset: int) -> int:
        """Where in the list the runs begin that have no offset below this one."""
        runs = self._runs
        at = bisect_left(runs, offset, key=_FIRST)
        if at and runs[at - 1].last >= offset:
            runs.insert(at, runs[at - 1].cut(offset))
        return at
