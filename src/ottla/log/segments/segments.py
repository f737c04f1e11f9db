"""The segments of a log, by base offset. The last one is active: it alone is appended to."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from ottla.log.segments.segment import LogSegment


class LogSegments:
    """A log's segments, oldest first; there is always at least one once the log is open."""

    __slots__ = ("_bases", "_segments", "active")

    active: LogSegment
    """The last segment."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: list[LogSegment] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    @property
    def first(self) -> LogSegment:
        """The oldest segment."""
        return self._segments[0]

    def add(self, segment: LogSegment) -> None:
        """Add a segment after the last one; it becomes the active one."""
        self._bases.append(segment.base_offset)
        self._segments.append(segment)
        self.active = segment

    def floor(self, offset: int) -> LogSegment:
        """The segment that holds an offset, if any does: the last that begins at or before it."""
        return self._segments[max(0, bisect_right(self._bases, offset) - 1)]

    def after(self, segment: LogSegment) -> LogSegment | None:
        """The next segment."""
        at = bisect_right(self._bases, segment.base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def starting_with(self, offset: int) -> list[LogSegment]:
        """The segment that holds an offset, and all after it."""
        return self._segments[max(0, bisect_right(self._bases, offset) - 1) :]

    def remove_first(self, count: int) -> list[LogSegment]:
        """Remove the oldest segments from the list; at least one must stay."""
        removed = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        return removed

    def remove_from(self, base_offset: int) -> list[LogSegment]:
        """Remove the segments that begin at or after an offset from the list."""
        at = bisect_left(self._bases, base_offset)
        removed = self._segments[at:]
        del self._segments[at:], self._bases[at:]
        if self._segments:
            self.active = self._segments[-1]
        return removed

    def holds(self, run: list[LogSegment]) -> bool:
        """True if the log has exactly these segments, in this order."""
        at = bisect_left(self._bases, run[0].base_offset) if run else 0
        return self._segments[at : at + len(run)] == run

    def replace(self, run: list[LogSegment], new: LogSegment) -> None:
        """Replace a run of segments that holds() is true for, without the active one."""
        at = bisect_left(self._bases, new.base_offset)
        self._segments[at : at + len(run)] = [new]
        self._bases[at : at + len(run)] = [new.base_offset]
