"""A segment's time index: the largest timestamp up to an offset, at each point where it grew.

Kafka's `.timeindex`: entries of 12 bytes, big-endian, both halves growing: a timestamp (8 bytes)
and the last offset, relative to the segment's base offset, of the batch that has it (4 bytes).
Every later batch that has a larger timestamp comes after that offset.
"""

from bisect import bisect_right
from struct import Struct

ENTRY_SIZE = 12

_ENTRY = Struct(">qi")
_TIMESTAMP = Struct(">q")


class TimeIndex:
    """The entries of one segment, kept as the file's own bytes, and how many of them it holds."""

    __slots__ = ("data", "is_whole", "last_timestamp", "saved")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        """The entries, in the bytes of the file."""
        size = self._sane_entries() * ENTRY_SIZE
        self.is_whole = not any(self.data[size:])
        """False if entries of the file were left out that cannot be right."""
        self._drop(size)
        self.saved = len(self.data) // ENTRY_SIZE
        """How many entries the file holds."""

    def __len__(self) -> int:
        return len(self.data) // ENTRY_SIZE

    def _sane_entries(self) -> int:
        """Entries before the first that does not grow: a crash leaves Kafka's zeros behind."""
        count = len(self)
        if count == 1 or (count > 1 and self.entry(count - 1) > self.entry(count - 2)):
            return count
        previous = (-1, -1)
        for slot in range(count):
            entry = self.entry(slot)
            if entry[0] <= previous[0] or entry[1] < previous[1]:
                return slot if previous != (0, 0) else 0
            previous = entry
        return count

    def _drop(self, size: int) -> None:
        del self.data[size:]
        self.last_timestamp: int = (
            _TIMESTAMP.unpack_from(self.data, size - ENTRY_SIZE)[0] if size else -1
        )

    def entry(self, slot: int) -> tuple[int, int]:
        """Timestamp and relative offset of one entry."""
        timestamp, relative = _ENTRY.unpack_from(self.data, slot * ENTRY_SIZE)
        return timestamp, relative

    def last(self) -> tuple[int, int]:
        """The newest entry; (-1, 0) if there is none."""
        count = len(self)
        return self.entry(count - 1) if count else (-1, 0)

    def noted(self, timestamp: int) -> tuple[int, int]:
        """The last entry that is not after a timestamp; (-1, 0) if there is none.

        Up to its offset every batch's timestamp is at most this one.
        """
        data = self.data
        slot = bisect_right(
            range(len(self)),
            timestamp,
            key=lambda slot: _TIMESTAMP.unpack_from(data, slot * ENTRY_SIZE)[0],
        )
        return self.entry(slot - 1) if slot else (-1, 0)

    def add(self, timestamp: int, relative: int) -> None:
        """Note the largest timestamp so far, if it is larger than the last one noted."""
        if timestamp > self.last_timestamp:
            self.data += _ENTRY.pack(timestamp, relative)
            self.last_timestamp = timestamp

    def truncate(self, relative: int) -> None:
        """Forget the batches that end at or after this offset."""
        keep = bisect_right(range(len(self)), relative - 1, key=lambda slot: self.entry(slot)[1])
        self._drop(keep * ENTRY_SIZE)
        self.saved = min(self.saved, keep)

    def unsaved(self) -> bytes:
        """What the file lacks, to be written at `saved` entries."""
        return bytes(self.data[self.saved * ENTRY_SIZE :])
