"""A segment's indexes: in memory, and in the files `.index`, `.timeindex` and `.txnindex`.

Rules kept here:
1. Entries live in memory and reach their files when the log is flushed or the segment is sealed:
   what lies past the recovery point is scanned after a crash anyway.
2. Indexes are loaded on first use; those of a sealed segment are dropped when its file is closed.
   Who does not wait for a disk asks for them first, and learns what has to be read.
3. Where entries were taken back, their files are cut when they are next saved.
"""

from ottla.log import offset_index, time_index, txn_index
from ottla.log.files import CREATE, DISK_IS_FULL, ColdFileError, Files
from ottla.log.offset_index import OffsetIndex
from ottla.log.segment_names import INDEX, TIME_INDEX, TXN_INDEX
from ottla.log.time_index import TimeIndex
from ottla.log.txn_index import TxnIndex


class SegmentIndexes:
    """What Segment stands on."""

    __slots__ = (
        "_files",
        "_index",
        "_indexes_dirty",
        "_time_index",
        "_txn_index",
        "base_offset",
        "path",
        "size",
    )

    def __init__(self, files: Files, path: str, base_offset: int, size: int) -> None:
        self._files = files
        self.path = path
        """Of all files of the segment, without what each of them is."""
        self.base_offset = base_offset
        self.size = size
        """Of the log."""
        self._index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TxnIndex | None = None
        self._indexes_dirty = False
        """True where the files may hold more than they should, or no fsync will cover them."""

    # Loading ------------------------------------------------------------------------------

    @property
    def index(self) -> OffsetIndex:
        """Where batches are, loaded on first use."""
        if self._index is None:
            self._index = OffsetIndex.from_bytes(self._load(INDEX), self.size)
        return self._index

    @property
    def time_index(self) -> TimeIndex:
        """When timestamps grew, loaded on first use."""
        if self._time_index is None:
            self._time_index = TimeIndex(self._load(TIME_INDEX))
        return self._time_index

    @property
    def txn_index(self) -> TxnIndex:
        """Transactions aborted here, loaded on first use."""
        self.load_txn_index()
        assert self._txn_index is not None
        return self._txn_index

    def load_txn_index(self) -> None:
        """Have the aborted transactions at hand; raises OSError."""
        if self._txn_index is None:
            self._txn_index = TxnIndex(self._load(TXN_INDEX))

    def load_without_waiting(self, *suffixes: str) -> None:
        """Load indexes that are in the page cache; raises ColdReadError where they are not."""
        if INDEX in suffixes and self._index is None:
            self._index = OffsetIndex.from_bytes(self._load_from_memory(INDEX), self.size)
        if TIME_INDEX in suffixes and self._time_index is None:
            self._time_index = TimeIndex(self._load_from_memory(TIME_INDEX))

    def _load_from_memory(self, suffix: str) -> bytes:
        try:
            return self._files.read_file_from_memory(self.path + suffix)
        except FileNotFoundError:
            return b""
        except BlockingIOError:
            raise ColdFileError(self._files, self.path + suffix) from None

    def _load(self, suffix: str) -> bytes:
        try:
            return self._files.read_file(self.path + suffix)
        except FileNotFoundError:
            return b""

    # Saving -------------------------------------------------------------------------------

    def indexes_are_full(self, limit: int) -> bool:
        """True where another entry would make an index larger than `segment.index.bytes`."""
        entries = len(self.index.entries)
        # The time index keeps room for the entry that sealing adds.
        return entries >= limit // offset_index.ENTRY_SIZE or (
            len(self.time_index) >= limit // time_index.ENTRY_SIZE - 1
        )

    def save_indexes(self) -> list[int]:
        """Write what the index files lack; returns the descriptors to be fsynced and closed."""
        written: list[int] = []
        try:
            for suffix, index, entry_size in (
                (INDEX, self._index, offset_index.ENTRY_SIZE),
                (TIME_INDEX, self._time_index, time_index.ENTRY_SIZE),
                (TXN_INDEX, self._txn_index, txn_index.ENTRY_SIZE),
            ):
                if index is None:
                    continue
                data = index.unsaved()
                # There is a transaction index only where there was an aborted transaction.
                if data or (
                    self._indexes_dirty
                    and (suffix != TXN_INDEX or self._files.exists(self.path + suffix))
                ):
                    fd = self._files.open(self.path + suffix, CREATE, 0o600)
                    written.append(fd)
                    self._files.write_fully(fd, data, index.saved * entry_size)
                    index.saved += len(data) // entry_size
                    if self._indexes_dirty:
                        self._files.ftruncate(fd, index.saved * entry_size)
        except OSError:
            for fd in written:
                self._files.close(fd)
            raise
        self._indexes_dirty = False
        return written

    def save_indexes_again(self) -> None:
        """What was saved was not brought to the disk."""
        self._indexes_dirty = True

    def keep_indexes_below(self, offset: int) -> None:
        """Forget in the indexes what ends at or after an offset; the files follow when saved."""
        self.index.truncate(offset - self.base_offset)
        self.time_index.truncate(offset - self.base_offset)
        self.txn_index.truncate(offset)
        self._indexes_dirty = True

    def _save_indexes_now(self) -> None:
        """Bring the indexes to their files, unless the disk is full; no flush covers them yet."""
        try:
            for fd in self.save_indexes():
                self._files.close(fd)
        except OSError as error:
            if error.errno not in DISK_IS_FULL:
                raise

    @property
    def indexes_are_saved(self) -> bool:
        """True where the index files hold all that is in memory."""
        return (
            (self._index is None or self._index.saved == len(self._index.entries))
            and (self._time_index is None or self._time_index.saved == len(self._time_index))
            and (self._txn_index is None or self._txn_index.saved == len(self._txn_index.entries))
        )

    def _drop_indexes_if_saved(self) -> None:
        if self.indexes_are_saved:
            self._index = self._time_index = self._txn_index = None
