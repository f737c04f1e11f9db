"""The segment that a compaction writes: a `.log` file and its indexes, all ending in `.cleaned`.

Rules kept here:
1. The files are new: a name that is taken is an error. So no two processes ever write to one file,
   even where one outlives the broker that started it.
2. Indexes are written as the log itself writes them (segments/segment.py).
3. finish() returns when everything is on the disk; only then may the segment be put in place.
4. The new log file gets the modification time of the last one it replaces: retention uses it for
   batches without a timestamp.
"""

import os

from ottla.log.segments.names import CLEANED, INDEX, LOG, TIME_INDEX, TXN_INDEX, stem
from ottla.log.segments.offset_index import OffsetIndex
from ottla.log.segments.time_index import TimeIndex
from ottla.log.segments.txn_index import AbortedTransaction, TransactionIndex
from ottla.log.storage.files import Bytes, Files

CREATE_NEW = os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL
WRITE_AT_ONCE = 1 << 20
LARGEST_SEGMENT = 0x7FFFFFFF
"""Positions in a segment have 31 bits."""


class SegmentTooLarge(Exception):  # noqa: N818 (it names a state of the segment)
    """Recompressed batches took more space than the old ones, and the disk is full."""


class CleanedSegment:
    """A segment being written."""

    def __init__(self, files: Files, directory: str, base_offset: int, index_interval: int) -> None:
        self._files = files
        self._path = f"{directory}/{stem(base_offset)}"
        self._base_offset = base_offset
        self._index_interval = index_interval
        self._index = OffsetIndex()
        self._time_index = TimeIndex()
        self._txn_index = TransactionIndex()
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset
        self._since_index = 0
        self._buffer = bytearray()
        self.size = 0
        self._fd = files.open(self._path + LOG + CLEANED, CREATE_NEW, 0o600)

    def append(self, batch: Bytes, last_offset: int, max_timestamp: int) -> None:
        """Add a batch behind the last one."""
        size = len(batch)
        if self.size + size > LARGEST_SEGMENT:
            raise SegmentTooLarge(f"{self._path}{LOG} would be larger than {LARGEST_SEGMENT} bytes")
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._since_index > self._index_interval:
            self._index.add(last_offset - self._base_offset, self.size)
            self._note_largest_timestamp()
            self._since_index = 0
        self._since_index += size
        self.size += size
        self._buffer += batch
        if len(self._buffer) >= WRITE_AT_ONCE:
            self._write()

    def add_aborted(self, transactions: list[AbortedTransaction]) -> None:
        """Note transactions whose abort markers are in the segment."""
        for transaction in transactions:
            self._txn_index.add(transaction)

    def _note_largest_timestamp(self) -> None:
        self._time_index.add(self._max_timestamp, self._max_timestamp_offset - self._base_offset)

    def _write(self) -> None:
        buffer, self._buffer = self._buffer, bytearray()
        self._files.write_fully(self._fd, buffer, self.size - len(buffer))

    def finish(self, modified: float) -> None:
        """Flush the segment, and set its modification time."""
        self._write()
        self._files.fsync(self._fd)
        self._note_largest_timestamp()
        self._save(INDEX, self._index.unsaved())
        self._save(TIME_INDEX, self._time_index.unsaved())
        if self._txn_index.entries:
            self._save(TXN_INDEX, self._txn_index.unsaved())
        self.close()
        self._files.utime(self._path + LOG + CLEANED, (modified, modified))

    def _save(self, suffix: str, data: bytes) -> None:
        fd = self._files.open(self._path + suffix + CLEANED, CREATE_NEW, 0o600)
        try:
            self._files.write_fully(fd, data, 0)
            self._files.fsync(fd)
        finally:
            self._files.close(fd)

    def close(self) -> None:
        """Close the log file, finished or not."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._files.close(fd)
