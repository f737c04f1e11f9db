"""One pass of compaction over one log: from the segments on disk to new files beside them.

Rules kept here:
1. Nothing that belongs to the log is changed: the pass reads segments that are sealed and writes
   files that end in `.cleaned`. The broker puts these in place (swap.py).
2. First the dirty part is read, for the latest offset of each key; then all up to where the map of
   keys reaches is rewritten. A log with more keys than fit the map takes more than one pass.
3. Neighbouring segments become one as long as their sizes, their indexes and 31-bit offsets allow
   it, so small segments do not pile up. Groups come in the order of their offsets and must be put
   in place in that order: a tombstone may go only after what it deletes.
4. Files are read in pieces; memory does not depend on the size of the log.

It is Python work of seconds or minutes, so it runs in a child process (child.py).
"""

import os
import time
from collections.abc import Iterator

from ottla.log.compaction.cleaned_segment import CleanedSegment
from ottla.log.compaction.filter import Filter
from ottla.log.compaction.offset_map import OffsetMap
from ottla.log.compaction.order import Cleaned, Finished, Order
from ottla.log.compaction.records import read_records
from ottla.log.compaction.transactions import CleanedTransactions
from ottla.log.segments.names import INDEX, LOG, TIME_INDEX, TXN_INDEX, stem
from ottla.log.segments.offset_index import MAX_RELATIVE, OffsetIndex
from ottla.log.segments.scan import CorruptLog, Scan, Scanned
from ottla.log.segments.txn_index import AbortedTransaction, TransactionIndex
from ottla.log.storage.files import Files
from ottla.wire.batch import BatchHeader
from ottla.wire.errors import KafkaError

SEGMENTS_IN_A_GROUP = 30
"""The broker renames all files of a group in one turn of its loop."""
READ_ONLY = os.O_RDONLY | os.O_CLOEXEC


def compact(order: Order, files: Files) -> Iterator[Cleaned | Finished]:
    """Do what is ordered. Each group of segments is reported as soon as its files are on the disk.

    Raises CorruptLog, KafkaError, SegmentTooLarge and OSError; `.cleaned` files may be left then.
    """
    return _Pass(order, files).run()


class _Pass:
    """One pass."""

    def __init__(self, order: Order, files: Files) -> None:
        self._order = order
        self._files = files
        names = set(files.listdir(order.directory))
        bases = [base for base, _ in order.segments]
        self._with_aborted = [
            base for base in (*bases, *order.later) if stem(base) + TXN_INDEX in names
        ]
        self._ends = dict(zip(bases, (*bases[1:], order.end), strict=True))
        self._bytes_read = self._bytes_written = 0
        self._messages_read = self._messages_written = 0

    def run(self) -> Iterator[Cleaned | Finished]:
        """Read, then write group by group."""
        begin = time.monotonic()
        order = self._order
        offsets = self._read_keys()
        transactions = CleanedTransactions()
        filter_ = Filter(
            offsets,
            transactions,
            order.producers,
            end=order.end,
            now=order.now,
            delete_retention_ms=order.delete_retention_ms,
        )
        reached = [each for each in order.segments if each[0] <= offsets.latest]
        for group in self._grouped(reached):
            yield self._clean(group, filter_, transactions)
        yield Finished(
            offsets.latest + 1,
            self._bytes_read,
            self._bytes_written,
            self._messages_read,
            self._messages_written,
            offsets.fullness,
            time.monotonic() - begin,
            filter_.unread,
        )

    def _path(self, base_offset: int, suffix: str) -> str:
        return f"{self._order.directory}/{stem(base_offset)}{suffix}"

    def _batches(self, base_offset: int, size: int, from_offset: int = 0) -> Iterator[Scanned]:
        """The batches of a segment from the one on that holds an offset, or some before it."""
        position = 0
        if from_offset > base_offset:
            index = OffsetIndex.from_bytes(self._read(base_offset, INDEX), size)
            position = index.position(from_offset - base_offset)
        path = self._path(base_offset, LOG)
        fd = self._files.open(path, READ_ONLY, 0)
        try:
            scan = Scan(self._files, fd, position, size, base_offset)
            yield from scan.batches()
        finally:
            self._files.close(fd)
        if scan.problem is not None:
            raise CorruptLog(f"{path} is corrupt at {scan.position}: {scan.problem}")

    def _read(self, base_offset: int, suffix: str) -> bytes:
        try:
            return self._files.read_file(self._path(base_offset, suffix))
        except FileNotFoundError:
            return b""

    def _aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """Aborted transactions with batches in a range; their markers may lie behind it."""
        found: list[AbortedTransaction] = []
        for base_offset in self._with_aborted:
            if self._ends.get(base_offset, end) > start:
                some, complete = TransactionIndex(self._read(base_offset, TXN_INDEX)).overlapping(
                    start, end
                )
                found += some
                if complete:
                    break
        return found

    # Reading ------------------------------------------------------------------------------

    def _read_keys(self) -> OffsetMap:
        """The latest offset of each key of the dirty part, as far as memory allows."""
        order = self._order
        offsets = OffsetMap(order.memory)
        transactions = CleanedTransactions()
        transactions.will_abort(self._aborted(order.first_dirty, order.end))
        for base_offset, size in order.segments:
            end = self._ends[base_offset]
            if end <= order.first_dirty:
                continue
            for found in self._batches(base_offset, size, order.first_dirty):
                header = found.header
                if header.is_control:
                    transactions.meet_marker(header, found.batch)
                elif not (
                    transactions.meet_batch(header) or self._put_keys(offsets, header, found.batch)
                ):
                    return offsets
                offsets.latest = max(offsets.latest, header.last_offset)
            offsets.latest = end - 1
        return offsets

    def _put_keys(self, offsets: OffsetMap, header: BatchHeader, batch: memoryview) -> bool:
        """Note the keys of a batch; False if the map was full before the last of them."""
        first_dirty = self._order.first_dirty
        base_offset, last_offset = header.base_offset, header.last_offset
        try:
            _, records = read_records(header, batch)
        except KafkaError:
            return True  # it stays as it is, and replaces nothing
        for _, _, _, _, offset_delta, key, _ in records:
            offset = base_offset + offset_delta
            if offset > last_offset:  # a producer may have written any delta
                offset = last_offset
            if offset >= first_dirty and key is not None:
                if not offsets.put(key, offset):
                    return False
                offsets.latest = offset
        return True

    # Writing ------------------------------------------------------------------------------

    def _grouped(self, segments: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
        """Segments that may become one, together."""
        order = self._order
        group: list[tuple[int, int]] = []
        total = index_total = time_total = 0
        for base_offset, size in segments:
            index = self._size(base_offset, INDEX)
            time_index = self._size(base_offset, TIME_INDEX)
            if group and (
                total + size > order.segment_bytes
                or index_total + index > order.segment_index_bytes
                or time_total + time_index > order.segment_index_bytes
                or (size and self._ends[base_offset] - 1 - group[0][0] > MAX_RELATIVE)
                or len(group) == SEGMENTS_IN_A_GROUP
            ):
                yield group
                group = []
                total = index_total = time_total = 0
            group.append((base_offset, size))
            total += size
            index_total += index
            time_total += time_index
        if group:
            yield group

    def _size(self, base_offset: int, suffix: str) -> int:
        try:
            return self._files.stat(self._path(base_offset, suffix)).st_size
        except FileNotFoundError:
            return 0

    def _clean(
        self, group: list[tuple[int, int]], filter_: Filter, transactions: CleanedTransactions
    ) -> Cleaned:
        order = self._order
        new = CleanedSegment(self._files, order.directory, group[0][0], order.index_interval_bytes)
        try:
            for base_offset, size in group:
                transactions.will_abort(self._aborted(base_offset, self._ends[base_offset]))
                for found in self._batches(base_offset, size):
                    self._messages_read += found.header.record_count
                    kept = filter_.apply(found.header, found.batch)
                    if kept is not None:
                        new.append(kept.batch, found.header.last_offset, kept.max_timestamp)
                        self._messages_written += kept.records
                new.add_aborted(transactions.retained)
                transactions.retained.clear()
                self._bytes_read += size
            new.finish(self._files.stat(self._path(group[-1][0], LOG)).st_mtime)
        finally:
            new.close()
        self._bytes_written += new.size
        return Cleaned([base_offset for base_offset, _ in group], new.size)
