"""A segment's index of aborted transactions: those whose abort marker lies in the segment.

Kafka's `.txnindex`: entries of 34 bytes, big-endian: version 0 (2 bytes), producer id, first offset
of the transaction, offset of its marker, and the last stable offset right after the marker was
written (8 bytes each). Entries are in the order of the markers. The file exists only where it has
entries.
"""

from struct import Struct
from typing import NamedTuple

_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
VERSION = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction of one producer."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The entries of one segment, and how many of them its file holds already."""

    __slots__ = ("entries", "saved")

    def __init__(self, data: bytes = b"") -> None:
        self.entries: list[AbortedTransaction] = []
        for at in range(0, len(data) - ENTRY_SIZE + 1, ENTRY_SIZE):
            version, *fields = _ENTRY.unpack_from(data, at)
            entry = AbortedTransaction(*fields)
            if version != VERSION or (
                self.entries and entry.last_offset <= self.entries[-1].last_offset
            ):
                break
            self.entries.append(entry)
        self.saved = len(self.entries)

    def add(self, entry: AbortedTransaction) -> None:
        """Note a transaction whose abort marker was just written."""
        self.entries.append(entry)

    def overlapping(self, start: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """Aborted transactions with records in [start, end), and whether later segments have none.

        Once a marker left the last stable offset at or past `end`, no transaction that is aborted
        later can reach below it.
        """
        found = []
        for entry in self.entries:
            if entry.last_offset >= start and entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return found, True
        return found, False

    def truncate(self, offset: int) -> None:
        """Forget the transactions whose marker lies at or after this offset."""
        entries = self.entries
        while entries and entries[-1].last_offset >= offset:
            entries.pop()
        self.saved = min(self.saved, len(entries))

    def unsaved(self) -> bytes:
        """What the file lacks, to be written at `saved` entries."""
        return b"".join(_ENTRY.pack(VERSION, *entry) for entry in self.entries[self.saved :])
