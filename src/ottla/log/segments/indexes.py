"""A segment's indexes: in memory, and in the files `.index`, `.timeindex` and `.txnindex`.

Rules kept here:
1. Entries are kept in memory, and written when the log is flushed or the segment is sealed: what
   lies past the recovery point is scanned after a crash anyway.
2. Indexes are loaded on first use; those of a sealed segment are dropped when its file is closed.
   A caller that may not wait for the disk gets ColdReadError, which says what to read first.
3. Where entries were removed, their files are truncated when they are next saved.
"""

from ottla.log.segments import offset_index, time_index, txn_index
from ottla.log.segments.names import INDEX, TIME_INDEX, TXN_INDEX
from ottla.log.segments.offset_index import OffsetIndex
from ottla.log.segments.time_index import TimeIndex
from ottla.log.segments.txn_index import TransactionIndex
from ottla.log.storage.files import CREATE, DISK_IS_FULL, Files
from ottla.log.storage.page_cache import ColdFileError


class SegmentIndexes:
    """The three indexes of one segment."""

    __slots__ = ("_base_offset", "_dirty", "_files", "_path", "offset", "time", "txn")

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self._files = files
        self._path = path
        self._base_offset = base_offset
        self.offset: OffsetIndex | None = None
        """None until it is loaded, as the others."""
        self.time: TimeIndex | None = None
        self.txn: TransactionIndex | None = None
        self._dirty = False
        """True if the files may hold more than they should, or no fsync will cover them."""

    def begin(self) -> None:
        """Start with empty indexes: the segment is new."""
        self.replace(OffsetIndex(), TimeIndex())
        self.txn = TransactionIndex()
        self._dirty = False

    def replace(self, offset: OffsetIndex, time: TimeIndex) -> None:
        """Use other indexes; the files are rewritten when they are next saved."""
        self.offset = offset
        self.time = time
        self._dirty = True

    # Loading ------------------------------------------------------------------------------

    def load_offset(self, log_size: int) -> OffsetIndex:
        """Where batches are, in a log file of this size; raises OSError."""
        if self.offset is None:
            self.offset = OffsetIndex.from_bytes(self._load(INDEX), log_size)
        return self.offset

    def load_time(self) -> TimeIndex:
        """Where the largest timestamp grew; raises OSError."""
        if self.time is None:
            self.time = TimeIndex(self._load(TIME_INDEX))
        return self.time

    def load_txn(self) -> TransactionIndex:
        """The transactions aborted in the segment; raises OSError."""
        if self.txn is None:
            self.txn = TransactionIndex(self._load(TXN_INDEX))
        return self.txn

    def load_offset_without_waiting(self, log_size: int) -> None:
        """Load the offset index if it is in the page cache; raises ColdReadError if it is not."""
        if self.offset is None:
            self.offset = OffsetIndex.from_bytes(self._load_from_memory(INDEX), log_size)

    def load_time_without_waiting(self) -> None:
        """Load the time index if it is in the page cache; raises ColdReadError if it is not."""
        if self.time is None:
            self.time = TimeIndex(self._load_from_memory(TIME_INDEX))

    def _load_from_memory(self, suffix: str) -> bytes:
        try:
            return self._files.read_file_from_memory(self._path + suffix)
        except FileNotFoundError:
            return b""
        except BlockingIOError:
            raise ColdFileError(self._files, self._path + suffix) from None

    def _load(self, suffix: str) -> bytes:
        try:
            return self._files.read_file(self._path + suffix)
        except FileNotFoundError:
            return b""

    # Saving -------------------------------------------------------------------------------

    def are_full(self, limit: int, log_size: int) -> bool:
        """True if another entry would make an index larger than `segment.index.bytes`."""
        # The time index keeps room for the entry that sealing adds.
        return len(self.load_offset(log_size).entries) >= limit // offset_index.ENTRY_SIZE or (
            len(self.load_time()) >= limit // time_index.ENTRY_SIZE - 1
        )

    def save(self) -> list[int]:
        """Write what the index files lack; returns the descriptors to be fsynced and closed."""
        written: list[int] = []
        try:
            for suffix, index, entry_size in (
                (INDEX, self.offset, offset_index.ENTRY_SIZE),
                (TIME_INDEX, self.time, time_index.ENTRY_SIZE),
                (TXN_INDEX, self.txn, txn_index.ENTRY_SIZE),
            ):
                if index is None:
                    continue
                data = index.unsaved()
                # There is a transaction index only where there was an aborted transaction.
                if data or (
                    self._dirty and (suffix != TXN_INDEX or self._files.exists(self._path + suffix))
                ):
                    fd = self._files.open(self._path + suffix, CREATE, 0o600)
                    written.append(fd)
                    self._files.write_fully(fd, data, index.saved * entry_size)
                    index.saved += len(data) // entry_size
                    if self._dirty:
                        self._files.ftruncate(fd, index.saved * entry_size)
        except OSError:
            for fd in written:
                self._files.close(fd)
            raise
        self._dirty = False
        return written

    def save_again(self) -> None:
        """What was saved was not flushed: save it again."""
        self._dirty = True

    def truncate(self, offset: int, log_size: int) -> None:
        """Forget what ends at or after an offset; the files follow when saved."""
        self.load_offset(log_size).truncate(offset - self._base_offset)
        self.load_time().truncate(offset - self._base_offset)
        self.load_txn().truncate(offset)
        self._dirty = True

    def save_now(self) -> None:
        """Write the index files now, unless the disk is full; no fsync covers them yet."""
        try:
            for fd in self.save():
                self._files.close(fd)
        except OSError as error:
            if error.errno not in DISK_IS_FULL:
                raise

    @property
    def are_saved(self) -> bool:
        """True if the index files hold all that is in memory."""
        return (
            (self.offset is None or self.offset.saved == len(self.offset.entries))
            and (self.time is None or self.time.saved == len(self.time))
            and (self.txn is None or self.txn.saved == len(self.txn.entries))
        )

    def drop_if_saved(self) -> None:
        """Free the memory of indexes that can be loaded again."""
        if self.are_saved:
            self.offset = self.time = self.txn = None
