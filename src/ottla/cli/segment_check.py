"""Going through a segment's files: every batch of the log, and whether its indexes fit it.

Rules kept here:
1. A batch is handed out only if it is whole and its CRC is right; one that is not is a problem that
   names its position. Behind a wrong CRC the check continues; bytes that are no batch end it.
2. An entry of the offset index must point at a batch that ends with the entry's offset. An entry of
   the time index must name the largest timestamp up to the batch that holds the entry's offset.
3. The unused rest of an index that was preallocated (zeros) is no problem.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from ottla.log.segments.scan import Scan, Scanned
from ottla.log.storage.files import Files

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


class SegmentCheck:
    """One pass over a segment. `problems` and the sums are complete when batches() has ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.base_offset = int(path.stem)
        self.next_offset = self.base_offset
        self.batch_count = 0
        self.record_count = 0
        self.good_bytes = 0
        self.problems: list[str] = []

    def batches(self) -> Iterator[Scanned]:
        """Every good batch; its bytes are there until the next is asked for."""
        offsets = _OffsetEntries(self.path.with_suffix(".index"), self.base_offset)
        times = _TimeEntries(self.path.with_suffix(".timeindex"), self.base_offset)
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            scan = Scan(Files(), fd, 0, os.fstat(fd).st_size, self.base_offset)
            while True:
                for found in scan.batches():
                    self.batch_count += 1
                    self.record_count += found.header.record_count
                    self.good_bytes += found.header.size
                    offsets.see(found)
                    times.see(found)
                    yield found
                self.next_offset = scan.next_offset
                if scan.problem is None:
                    break
                self.problems.append(f"{self.path.name}: position {scan.position}: {scan.problem}")
                if scan.damaged is not None:
                    offsets.see(scan.damaged)
                    times.see(scan.damaged)
                if not scan.pass_over():
                    break
        finally:
            os.close(fd)
        self.problems += offsets.finish() + times.finish()


class _Entries(ABC):
    """An index whose entries are compared with the batches as they come by, in order."""

    def __init__(self, path: Path, base_offset: int, entry: Struct) -> None:
        self.name = path.name
        self.base_offset = base_offset
        self.problems: list[str] = []
        data = path.read_bytes() if path.exists() else b""
        if len(data) % entry.size:
            self.problems.append(f"{self.name}: its size is not a multiple of {entry.size}")
        used = len(data.rstrip(b"\0"))
        count = min(-(-used // entry.size), len(data) // entry.size)
        self.waiting: list[tuple[int, tuple[int, int]]] = []
        previous = (-1, -1)
        for number in range(count):
            found: tuple[int, int] = entry.unpack_from(data, number * entry.size)
            if found[0] <= previous[0] or found[1] < previous[1]:
                self.complain(number, found, "it is not increasing")
                break
            previous = found
            self.waiting.append((number, found))
        # The next to be met is the last.
        self.waiting.reverse()

    def complain(self, number: int, found: tuple[int, int], what: str) -> None:
        self.problems.append(f"{self.name}: entry {number} ({self.describe(found)}): {what}")

    @abstractmethod
    def describe(self, found: tuple[int, int]) -> str: ...

    def finish(self) -> list[str]:
        for number, found in reversed(self.waiting):
            self.complain(number, found, "the log has no such batch")
        return self.problems


class _OffsetEntries(_Entries):
    def __init__(self, path: Path, base_offset: int) -> None:
        super().__init__(path, base_offset, _OFFSET_ENTRY)

    def describe(self, found: tuple[int, int]) -> str:
        return f"offset {self.base_offset + found[0]} at position {found[1]}"

    def see(self, batch: Scanned) -> None:
        while self.waiting and self.waiting[-1][1][1] <= batch.position:
            number, found = self.waiting.pop()
            if found[1] != batch.position:
                self.complain(number, found, "no batch begins there")
            elif self.base_offset + found[0] != batch.header.last_offset:
                self.complain(
                    number, found, f"the batch there ends with offset {batch.header.last_offset}"
                )


class _TimeEntries(_Entries):
    def __init__(self, path: Path, base_offset: int) -> None:
        super().__init__(path, base_offset, _TIME_ENTRY)
        self._largest = -1

    def describe(self, found: tuple[int, int]) -> str:
        return f"timestamp {found[0]} at offset {self.base_offset + found[1]}"

    def see(self, batch: Scanned) -> None:
        self._largest = max(self._largest, batch.header.max_timestamp)
        while (
            self.waiting and self.base_offset + self.waiting[-1][1][1] <= batch.header.last_offset
        ):
            number, found = self.waiting.pop()
            if found[0] != self._largest:
                self.complain(
                    number, found, f"the largest timestamp up to there is {self._largest}"
                )
