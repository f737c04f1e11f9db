"""One segment of a log: a `.log` file with its `.index`, `.timeindex` and `.txnindex`.

Rules kept here:
1. The `.log` file is the truth; indexes only say where to start looking in it.
2. An index entry is compared with its batch whenever it is used: one that does not match would hide
   records, or make retention remove them too early, so the index is rebuilt.
3. Bytes below `size` never change, except that truncation lowers `size`.
"""

from collections.abc import Callable
from typing import NamedTuple

import structlog

from ottla.log.config import FOREVER
from ottla.log.segments.index_rebuild import make_indexes
from ottla.log.segments.indexes import SegmentIndexes
from ottla.log.segments.names import DELETED, INDEX, LOG, SUFFIXES, TIME_INDEX, TXN_INDEX, stem
from ottla.log.segments.offset_index import MAX_RELATIVE, OffsetIndex
from ottla.log.segments.scan import BASE_LENGTH_DELTA, NEARBY, CorruptLog, Scan
from ottla.log.segments.time_index import TimeIndex
from ottla.log.segments.txn_index import AbortedTransaction, TransactionIndex
from ottla.log.storage.file_cache import FileCache, OpenFile, Slice
from ottla.log.storage.files import CREATE_EMPTY, Bytes, Files
from ottla.log.storage.page_cache import ColdReadError
from ottla.wire.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, SMALLEST_LENGTH, BatchHeader

READ_AHEAD = 256 << 10
"""How much to read from disk for a reader whose bytes are not cached: it will want more."""

_BASE_LENGTH_DELTA_SIZE = BASE_LENGTH_DELTA.size

_log = structlog.get_logger()


class FoundBatch(NamedTuple):
    """A batch in a segment's file."""

    position: int
    base_offset: int
    size: int


class LogSegment:
    """The segment that begins at `base_offset`. Only the last segment of a log is appended to."""

    __slots__ = (
        "_files",
        "base_offset",
        "created",
        "file",
        "first_timestamp",
        "indexes",
        "jitter",
        "max_timestamp",
        "max_timestamp_offset",
        "path",
        "roll_after",
        "sealed",
        "since_index",
        "size",
    )

    def __init__(
        self,
        files: Files,
        file: OpenFile,
        base_offset: int,
        *,
        size: int,
        now: int,
        jitter: int = 0,
    ) -> None:
        self._files = files
        self.path = file.path.removesuffix(LOG)
        """Of all files of the segment, without their suffixes."""
        self.file = file
        self.base_offset = base_offset
        self.size = size
        """Bytes of the log file."""
        self.indexes = SegmentIndexes(files, self.path, base_offset)
        self.created = now
        """When this process first saw the segment: `segment.ms` for batches without a timestamp."""
        self.first_timestamp = -1
        """The largest timestamp of the first batch: `segment.ms` counts from it."""
        self.roll_after = FOREVER
        """A batch with a later timestamp begins a new segment."""
        self.jitter = jitter
        self.max_timestamp: int | None = None
        """The largest timestamp in the segment, -1 if there is none; None until it is read."""
        self.max_timestamp_offset = base_offset
        """Last offset of the first batch that has it."""
        self.since_index = 0
        """Bytes since the last entry of the offset index."""
        self.sealed = False

    @classmethod
    def create(
        cls,
        files: Files,
        cache: FileCache,
        directory: str,
        base_offset: int,
        *,
        now: int,
        jitter: int,
    ) -> "LogSegment":
        """Make the files of an empty segment; what had these names before is replaced."""
        path = f"{directory}/{stem(base_offset)}"
        files.unlink_if_exists(path + TXN_INDEX)
        for suffix in (INDEX, TIME_INDEX):
            files.close(files.open(path + suffix, CREATE_EMPTY, 0o600))
        segment = cls(files, cache.create(path + LOG), base_offset, size=0, now=now, jitter=jitter)
        segment.max_timestamp = -1
        segment.indexes.begin()
        return segment

    def __repr__(self) -> str:
        return f"LogSegment({self.path}{LOG}, {self.size} bytes)"

    # Indexes ------------------------------------------------------------------------------

    @property
    def index(self) -> OffsetIndex:
        """Where batches are, loaded on first use."""
        return self.indexes.load_offset(self.size)

    @property
    def time_index(self) -> TimeIndex:
        """Where the largest timestamp grew, loaded on first use."""
        return self.indexes.load_time()

    @property
    def txn_index(self) -> TransactionIndex:
        """Transactions aborted here, loaded on first use."""
        return self.indexes.load_txn()

    def add_index_entry(self, last_offset: int, position: int) -> None:
        """Note the batch at a position, and the largest timestamp so far."""
        self.index.add(last_offset - self.base_offset, position)
        assert self.max_timestamp is not None
        self.time_index.add(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self.since_index = 0

    def begin_new_indexes(self) -> None:
        """Empty the offset and time indexes; the batches are about to be noted again."""
        self.indexes.replace(OffsetIndex(), TimeIndex())
        self.shrink(0)

    def note_largest_timestamp(self) -> None:
        """Give the time index its last entry, which retention and the next start use."""
        if self.max_timestamp is not None:
            offset = self.max_timestamp_offset - self.base_offset
            self.time_index.add(self.max_timestamp, offset)

    def complete_time_index(self) -> None:
        """Give the time index the last entry that a crash kept from being saved."""
        self._find_largest_timestamp()
        self.note_largest_timestamp()

    def seal(self) -> None:
        """Allow no more appends."""
        self.note_largest_timestamp()
        self.sealed = True
        self.file.on_close = self.indexes.drop_if_saved

    def mark_as_sealed(self) -> None:
        """The segment was sealed before this process began."""
        self.sealed = True
        self.file.on_close = self.indexes.drop_if_saved

    def unseal(self) -> None:
        """The segment is the active one again."""
        self.sealed = False
        self.file.on_close = None

    # Time ---------------------------------------------------------------------------------

    def largest_timestamp(self, *, may_wait: bool = True) -> int:
        """The largest timestamp of any batch, -1 if no batch has one.

        Raises ColdReadError if the disk would have to be read and `may_wait` is False.
        """
        if self.max_timestamp is None:
            if not may_wait:
                self.indexes.load_time_without_waiting()
            timestamp, relative = self.time_index.last()
            if not self._has_timestamp(timestamp, relative, may_wait):
                self._rebuild_indexes(TIME_INDEX)
                timestamp, relative = self.time_index.last()
            self.max_timestamp = timestamp
            self.max_timestamp_offset = self.base_offset + relative
        return self.max_timestamp

    def offset_before(self, timestamp: int, *, may_wait: bool) -> int:
        """An offset up to which every batch's timestamp is at most this one."""
        if not may_wait:
            self.indexes.load_time_without_waiting()
        noted, relative = self.time_index.noted(timestamp)
        if noted >= 0 and not self._has_timestamp(noted, relative, may_wait):
            self._rebuild_indexes(TIME_INDEX)
            _, relative = self.time_index.noted(timestamp)
        return self.base_offset + relative

    def _has_timestamp(self, timestamp: int, relative: int, may_wait: bool) -> bool:
        """True if an entry of the time index, or the absence of one, matches the log."""
        if not self.time_index.is_whole:
            return False
        if timestamp >= 0:
            found = self.find(self.base_offset + relative, may_wait=may_wait)
            if found is None:
                return False
            header = self.header(found.position, may_wait=may_wait)
            return header.last_offset == self.base_offset + relative and (
                header.max_timestamp == timestamp
            )
        return self.size == 0 or self.header(0, may_wait=may_wait).max_timestamp < 0

    def age_timestamp(self) -> int:
        """What `retention.ms` counts from: the largest timestamp, or when the file was written."""
        largest = self.largest_timestamp()
        if largest >= 0:
            return largest
        return int(self._files.stat(self.path + LOG).st_mtime * 1000)

    def begin_rolling_clock(self, first_timestamp: int, segment_ms: int) -> None:
        """The first batch was appended, or `segment.ms` changed: set when the segment rolls."""
        self.first_timestamp = first_timestamp
        if first_timestamp >= 0:
            self.roll_after = first_timestamp + segment_ms - self.jitter

    # Finding ------------------------------------------------------------------------------

    def find(self, offset: int, *, may_wait: bool = True) -> FoundBatch | None:
        """The first batch that ends at or after an offset: the one that holds it, or the next.

        Raises ColdReadError if the disk would have to be read and `may_wait` is False.
        """
        index = self.indexes.offset
        if index is None:
            if not may_wait:
                self.indexes.load_offset_without_waiting(self.size)
            index = self.index
        if not index.is_whole:
            self._rebuild_indexes(INDEX)
            index = self.index
        noted, position = index.noted(offset - self.base_offset)
        fd = self.file.descriptor()
        pread = self.reader(may_wait=may_wait)
        unpack = BASE_LENGTH_DELTA.unpack_from
        end = self.size
        while position < end:
            chunk = pread(fd, NEARBY, position)
            at = 0
            last = min(len(chunk), end - position) - _BASE_LENGTH_DELTA_SIZE
            if noted >= 0:
                if not self._is_noted(chunk, noted):
                    self._rebuild_indexes(INDEX)
                    return self.find(offset, may_wait=may_wait)
                noted = -1
            while at <= last:
                base, length, delta = unpack(chunk, at)
                size = length + LOG_OVERHEAD
                if length < SMALLEST_LENGTH or position + at + size > end:
                    raise self._no_batch(position + at)
                if base + delta >= offset:
                    return FoundBatch(position + at, base, size)
                at += size
            if at == 0:
                raise self._no_batch(position)
            position += at
        return None

    def start_of_search(self, relative: int, *, may_wait: bool = True) -> int:
        """Where to start looking for an offset: the batch there ends at or before it.

        Raises ColdReadError as find() does.
        """
        if not may_wait:
            self.indexes.load_offset_without_waiting(self.size)
        if not self.index.is_whole:
            self._rebuild_indexes(INDEX)
        noted, position = self.index.noted(relative)
        if noted >= 0:
            pread = self.reader(may_wait=may_wait)
            if not self._is_noted(pread(self.file.descriptor(), HEADER_SIZE, position), noted):
                self._rebuild_indexes(INDEX)
                return self.index.position(relative)
        return position

    def _is_noted(self, data: bytes, noted: int) -> bool:
        """True if the bytes begin with the batch of an offset index entry."""
        if len(data) < _BASE_LENGTH_DELTA_SIZE:
            return False
        base, _, delta = BASE_LENGTH_DELTA.unpack_from(data)
        return bool(base + delta == self.base_offset + noted)

    def _rebuild_indexes(self, suffix: str) -> None:
        """An index does not match its log: rebuild both from its batches.

        That waits for the disk even where the caller may not: a damaged index is rare.
        """
        _log.warning("index does not match its log; rebuilding", file=self.path + suffix)
        scan = Scan(self._files, self.file.descriptor(), 0, self.size, self.base_offset)
        index, time_index = make_indexes(scan, self.base_offset)
        self.indexes.replace(index, time_index)
        self.since_index = self.size - index.position(MAX_RELATIVE)
        if self.sealed:
            self.indexes.save_now()

    def _no_batch(self, position: int) -> CorruptLog:
        return CorruptLog(f"{self.path}{LOG} is corrupt: it has no batch at {position}")

    def reader(self, *, may_wait: bool) -> Callable[[int, int, int], bytes]:
        """What reads the log's file; raises ColdReadError if it may not wait for the disk."""
        return self._files.pread if may_wait else self._read_without_waiting

    def _read_without_waiting(self, fd: int, size: int, position: int) -> bytes:
        buffer = bytearray(size)
        try:
            got = self._files.read_from_memory(fd, buffer, position)
        except BlockingIOError:
            got = -1
        if got < min(size, self.size - position):
            # The rest is not in memory; a batch's header may be in it.
            raise ColdReadError(Slice(self.file, position, max(size, READ_AHEAD)))
        return bytes(buffer[:got])

    def end_before(self, offset: int, position: int) -> int:
        """The offset after the last batch that lies before a position and below an offset."""
        end_offset = self.base_offset
        at = self.start_of_search(offset - 1 - self.base_offset)
        while at < position:
            header = self.header(at)
            end_offset = header.next_offset
            at += header.size
        return end_offset

    def end_before_stop(self, position: int, stop: int) -> int:
        """The offset after the last whole batch of a byte range that begins with a whole one.

        Raises ColdReadError if the disk would have to be read.
        """
        end_offset = self.base_offset
        fd = self.file.descriptor()
        # An incomplete header says nothing; the batch before it ends where it begins.
        position = max(position, self.index.position_before(stop - HEADER_SIZE))
        while position < stop:
            chunk = self._read_without_waiting(fd, min(NEARBY, stop - position), position)
            at = 0
            while at <= len(chunk) - _BASE_LENGTH_DELTA_SIZE:
                base, length, delta = BASE_LENGTH_DELTA.unpack_from(chunk, at)
                if position + at + length + LOG_OVERHEAD > stop:
                    return int(base)
                if length < SMALLEST_LENGTH:
                    raise self._no_batch(position + at)
                end_offset = base + delta + 1
                at += length + LOG_OVERHEAD
            if at == 0:
                break
            position += at
        return end_offset

    def header(self, position: int, *, may_wait: bool = True) -> BatchHeader:
        """The header of the batch at a position; raises ColdReadError as find() does."""
        pread = self.reader(may_wait=may_wait)
        data = pread(self.file.descriptor(), HEADER_SIZE, position)
        if len(data) < HEADER_SIZE:
            raise self._no_batch(position)
        header = BatchHeader._make(HEADER.unpack(data))
        if header.length < SMALLEST_LENGTH:
            raise self._no_batch(position)
        return header

    def batch(self, position: int, size: int) -> memoryview:
        """The bytes of the batch at a position."""
        return memoryview(self._files.pread(self.file.descriptor(), size, position))

    def aborted(self, start: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """Aborted transactions that overlap a range, and whether later segments have none."""
        return self.txn_index.overlapping(start, end)

    # Changing -----------------------------------------------------------------------------

    def note(self, header: BatchHeader, index_interval: int) -> None:
        """A batch was appended: count it, and index it if the index interval has passed."""
        last_offset = header.last_offset
        if header.max_timestamp > self.largest_timestamp():
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_offset
        if self.since_index > index_interval:
            self.add_index_entry(last_offset, self.size)
        self.since_index += header.size
        self.size += header.size

    def can_hold(self, last_offset: int) -> bool:
        """False if an index entry's 32 bits cannot hold this offset."""
        return last_offset - self.base_offset <= MAX_RELATIVE

    def write(self, data: Bytes, position: int) -> int:
        """Write at a position; returns how many bytes were written."""
        return self._files.pwrite(self.file.descriptor(), data, position)

    def truncate(self, offset: int, position: int) -> None:
        """Truncate the file at a position, where the batch that reaches this offset begins."""
        self.indexes.truncate(offset, self.size)
        self.indexes.save_now()
        self.indexes.save_again()  # the next flush covers them; a crash before has them rebuilt
        self._files.ftruncate(self.file.descriptor(), position)
        self.unseal()
        self.shrink(position)

    def shrink(self, position: int) -> None:
        """Set the size to a position, and recompute what is derived from it."""
        self.size = position
        self.since_index = position - self.index.position(MAX_RELATIVE)
        self._find_largest_timestamp()
        self.first_timestamp = -1
        self.roll_after = FOREVER

    def _find_largest_timestamp(self) -> None:
        """Read the largest timestamp from the last index entry and the batches after it."""
        timestamp, relative = self.time_index.last()
        is_noted = timestamp >= 0 or len(self.index.entries) > 0
        if is_noted and not self._has_timestamp(timestamp, relative, may_wait=True):
            self._rebuild_indexes(TIME_INDEX)
            timestamp, relative = self.time_index.last()
        offset = self.base_offset + relative
        position = self.start_of_search(relative)
        while position < self.size:
            header = self.header(position)
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
            position += header.size
        self.max_timestamp = timestamp
        self.max_timestamp_offset = offset

    def rename_as_deleted(self) -> list[str]:
        """Mark the files as deleted; returns their new names. Readers keep what they have open."""
        paths = [self.path + suffix for suffix in SUFFIXES]
        renamed = [self._files.set_aside(path, path + DELETED) for path in paths]
        self.file.path += DELETED
        self.file.retire()
        return [path for path in renamed if path is not None]
