"""A segment's offset index: every few kilobytes, where in the file a batch begins.

Kafka's `.index`: entries of 8 bytes, big-endian, growing: the *last* offset of a batch relative to
the segment's base offset (4 bytes) and the position of that batch in the file (4 bytes). In memory
an entry is that same 64-bit number, so a lookup is one bisection of an array.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right

ENTRY_SIZE = 8
MAX_RELATIVE = 0x7FFFFFFF
"""Kafka reads both halves of an entry as signed: a segment spans fewer than 2^31 offsets."""

_LOW = 0xFFFFFFFF
_SWAP = sys.byteorder == "little"


class OffsetIndex:
    """The entries of one segment, and how many of them its file holds already."""

    __slots__ = ("entries", "is_whole", "saved")

    def __init__(self) -> None:
        self.entries = array("Q")
        self.saved = 0
        self.is_whole = True
        """False if entries of the file were left out that cannot be right."""

    @classmethod
    def from_bytes(cls, data: bytes, log_size: int) -> "OffsetIndex":
        """Read a file's entries; what cannot be right is left out, with all that follows it.

        Kafka preallocates the index of an active segment with zeros, and a crash keeps them.
        """
        index = cls()
        entries = index.entries
        entries.frombytes(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE])
        if _SWAP:
            entries.byteswap()
        keep = len(entries)
        if keep and (
            entries[-1] & _LOW >= log_size or entries[-1] <= (entries[-2] if keep > 1 else 0)
        ):
            last = keep = 0
            for entry in entries:
                if entry <= last or entry & _LOW >= log_size:
                    break
                last = entry
                keep += 1
        index.is_whole = not any(data[keep * ENTRY_SIZE :])
        del entries[keep:]
        index.saved = keep
        return index

    def position(self, relative: int) -> int:
        """Where to start looking for an offset: the batch there ends at or before it."""
        slot = bisect_right(self.entries, relative << 32 | _LOW) - 1
        return self.entries[slot] & _LOW if slot >= 0 else 0

    def noted(self, relative: int) -> tuple[int, int]:
        """The last batch noted that ends at or before an offset: where it ends, where it begins.

        (-1, 0) if there is none.
        """
        slot = bisect_right(self.entries, relative << 32 | _LOW) - 1
        if slot < 0:
            return -1, 0
        entry = self.entries[slot]
        return entry >> 32, entry & _LOW

    def position_before(self, position: int) -> int:
        """The last position noted that lies before a position."""
        slot = bisect_left(self.entries, position, key=lambda entry: entry & _LOW) - 1
        return self.entries[slot] & _LOW if slot >= 0 else 0

    def whole_before(self, position: int) -> int:
        """Where the last batch but one ends that begins before a position: it is whole there.

        -1 if no such batch is noted.
        """
        slot = bisect_left(self.entries, position, key=lambda entry: entry & _LOW) - 2
        return self.entries[slot] >> 32 if slot >= 0 else -1

    def last_offset_from(self, position: int) -> int | None:
        """Where the first batch noted at or after a position ends; None if there is none."""
        slot = bisect_left(self.entries, position, key=lambda entry: entry & _LOW)
        return self.entries[slot] >> 32 if slot < len(self.entries) else None

    def add(self, relative: int, position: int) -> None:
        """Note that the batch which ends at this offset begins at this position."""
        self.entries.append(relative << 32 | position)

    def truncate(self, relative: int) -> None:
        """Forget the batches that end at or after this offset."""
        del self.entries[bisect_left(self.entries, relative << 32) :]
        self.saved = min(self.saved, len(self.entries))

    def unsaved(self) -> bytes:
        """What the file lacks, to be written at `saved` entries."""
        tail = self.entries[self.saved :]
        if _SWAP:
            tail.byteswap()
        return tail.tobytes()
