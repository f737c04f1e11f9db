"""Counts the records of partitions by the headers of their batches: `python -m ottla.audit.scan`.

A child of the broker: a Python loop over many headers would stall the broker's own (decision 3).

Rules kept here:
1. An order is a line of JSON (`Order`), the answer another (`Scanned` for each log, in order).
2. Only headers are read. A batch's records lie between the windows of its first record's and of its
   largest timestamp; with LogAppendTime they have one timestamp.
3. Control batches and batches of aborted transactions are not counted. The order ends at the last
   stable offset, so every transaction in it is decided.
4. A batch counts as many records as it had when it was written, also after compaction.
5. A failure of one log is reported and does not affect the others.
"""

import mmap
import os
import signal
import sys
from bisect import bisect_right
from collections.abc import Sequence
from struct import Struct

import msgspec

from ottla.wire.batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    SMALLEST_LENGTH,
    TRANSACTIONAL,
)

MOST_COUNTS = 2_000
"""Of one log in one answer: what follows is counted next time."""
NOT_PLAIN = TRANSACTIONAL | CONTROL | LOG_APPEND_TIME
SEGMENT_SUFFIX = ".log"
DIGITS_OF_A_NAME = 20

# offset length (epoch) magic (crc) | attributes lastDelta baseTs maxTs pid
_FIELDS = Struct(">qi4xb4xhiqqq")


class LogOrder(msgspec.Struct):
    """Count one log from an offset (where a batch begins, or inside one) to before another."""

    directory: str
    start: int
    end: int
    aborted: list[tuple[int, int]] = []
    """Producer id and first offset of each aborted transaction in between, by first offset."""


class ScanOrder(msgspec.Struct):
    """Count some logs."""

    window_ms: int
    logs: list[LogOrder]


class ScannedFile(msgspec.Struct):
    """What is in a log from the order's start to before `reached`."""

    reached: int
    counts: list[tuple[int, int, int]] = []
    """First window, last window, records."""
    begin: int = -1
    end: int = -1
    """The lowest offset that was counted, and the one after the highest."""
    error: str | None = None


class ScanPosition:
    """Where in a log the last scan ended."""

    __slots__ = ("inode", "offset", "position", "segment")

    def __init__(self, segment: int) -> None:
        self.segment = segment
        self.inode = 0
        """Of the segment's file: compaction puts another in its place."""
        self.position = 0
        self.offset = segment


class Scanner:
    """Scans logs, and remembers where it stopped in each."""

    def __init__(self) -> None:
        self._places: dict[str, ScanPosition] = {}

    def scan(self, order: LogOrder, window_ms: int) -> ScannedFile:
        """Count one log."""
        progress = _Progress(order, window_ms)
        try:
            segments = _segments(order.directory)
            place: ScanPosition | None = self._place(order, segments)
            while place is not None and progress.may_go_on:
                progress.read_segment(order.directory, place)
                self._places[order.directory] = place
                place = _following(place, segments, progress)
        except (OSError, ValueError) as problem:
            self._places.pop(order.directory, None)
            return ScannedFile(order.start, error=str(problem))
        return progress.result()

    def _place(self, order: LogOrder, segments: Sequence[int]) -> ScanPosition:
        place = self._places.get(order.directory)
        if place is not None and place.offset == order.start and place.segment in segments:
            return place
        at = bisect_right(segments, order.start) - 1
        if at < 0:
            raise ValueError(f"there is no segment with offset {order.start}")
        return ScanPosition(segments[at])


class _Progress:
    """How far the scan of one log has come, and what it found."""

    def __init__(self, order: LogOrder, window_ms: int) -> None:
        self._window_ms = window_ms
        self._start = order.start
        self._stop = order.end
        self._aborted = order.aborted[::-1]
        self._being_aborted: set[int] = set()
        self._counts: dict[tuple[int, int], int] = {}
        self.reached = order.start
        self._begin = -1
        self._end = -1

    @property
    def may_go_on(self) -> bool:
        return self.reached < self._stop and len(self._counts) < MOST_COUNTS

    def result(self) -> ScannedFile:
        counts = [(*windows, n) for windows, n in self._counts.items()]
        return ScannedFile(self.reached, counts, self._begin, self._end)

    def read_segment(self, directory: str, place: ScanPosition) -> None:
        """Read a segment from a place on; moves the place."""
        path = f"{directory}/{place.segment:0{DIGITS_OF_A_NAME}}{SEGMENT_SUFFIX}"
        fd = os.open(path, os.O_RDONLY)
        try:
            found = os.fstat(fd)
            if found.st_ino != place.inode:
                place.inode, place.position = found.st_ino, 0
            size = found.st_size
            if size - place.position < HEADER_SIZE:
                return
            with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as data:
                self._read(data, size, path, place)
        finally:
            os.close(fd)

    def _read(self, data: mmap.mmap, size: int, path: str, place: ScanPosition) -> None:
        position, following, stop, start = place.position, place.offset, self._stop, self._start
        length_of_window, unpack = self._window_ms, _FIELDS.unpack_from
        window, window_end = 0, 0  # of the batch before: most are in the same one
        reached, counts = self.reached, self._counts
        while position + HEADER_SIZE <= size and reached < stop and len(counts) < MOST_COUNTS:
            base, length, magic, attributes, delta, first, largest, producer = unpack(
                data, position
            )
            if base + delta >= stop:
                break
            if magic != 2 or length < SMALLEST_LENGTH or delta < 0:
                raise ValueError(f"{path} has no batch at {position}")
            position += length + LOG_OVERHEAD
            following = base + delta + 1
            if following <= start:
                continue
            reached = following
            if attributes & NOT_PLAIN:
                if attributes & TRANSACTIONAL and self._is_aborted(base, attributes, producer):
                    continue
                if attributes & CONTROL:
                    continue
                if attributes & LOG_APPEND_TIME:
                    first = largest
            begin = max(base, start)
            if not (window <= first <= largest < window_end):
                window = first - first % length_of_window
                window_end = window + length_of_window
            if largest < window_end:
                windows = window, window
            else:
                windows = window, largest - largest % length_of_window
            counts[windows] = counts.get(windows, 0) + following - begin
            if self._begin < 0:
                self._begin = begin
            self._end = following
        self.reached = reached
        place.position, place.offset = position, following

    def _is_aborted(self, base: int, attributes: int, producer: int) -> bool:
        while self._aborted and self._aborted[-1][1] <= base:
            self._being_aborted.add(self._aborted.pop()[0])
        if attributes & CONTROL:
            self._being_aborted.discard(producer)
        return producer in self._being_aborted


def _segments(directory: str) -> list[int]:
    names = (name.partition(SEGMENT_SUFFIX) for name in os.listdir(directory))
    return sorted(
        int(base)
        for base, suffix, rest in names
        if suffix and not rest and base.isdigit() and len(base) == DIGITS_OF_A_NAME
    )


def _following(
    place: ScanPosition, segments: Sequence[int], progress: _Progress
) -> ScanPosition | None:
    """The beginning of the next segment, if there is one and something of it was asked for."""
    at = bisect_right(segments, place.segment)
    if at == len(segments) or not progress.may_go_on:
        return None
    return ScanPosition(segments[at])


def main() -> None:
    """Carry out orders until there are no more, or the broker is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at a terminal it is meant for the broker
    scanner = Scanner()
    orders = msgspec.json.Decoder(ScanOrder)
    for line in sys.stdin.buffer:
        order = orders.decode(line)
        answer = [scanner.scan(log, order.window_ms) for log in order.logs]
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
