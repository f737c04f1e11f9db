"""Finding records by time, and aborted transactions by range, through the indexes.

Rules kept here:
1. An index only says where to start; what is found is read from the log.
2. Only the batch that holds the answer is looked into, and no record of it is made. Headers that
   promise a record that is not there are believed after MOST_MISSES of them.
3. Who looks for a time may say that it does not wait for the disk: it learns what has to be read
   first (ColdReadError), and asks again. The same where a long batch has to be decompressed
   (LongBatchError).
"""

from __future__ import annotations

from collections import OrderedDict
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.log.files import ColdReadError
from ottla.log.looking import SHORT_BATCH, SHORT_BODY
from ottla.log.scan import CorruptLog, Scan
from ottla.records.compression import LARGEST_BODY, BodyTooLargeError, body_of
from ottla.records.kernel import KERNEL
from ottla.records.record import INT64_MIN
from ottla.wire.batch import HEADER_SIZE, BatchHeader, crc_is_right
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.log.files import Slice
    from ottla.log.segment import Segment
    from ottla.log.storage import Storage


MOST_MISSES: Final = 16
MOST_SOUGHT: Final = 64

Key = tuple[int, int, int, int, int]
"""What is looked for, and in which bytes: crc, size, base timestamp of a batch, timestamp, least
offset delta."""
_sought: OrderedDict[Key, tuple[int, int] | KafkaError | None] = OrderedDict()
"""What threads have found of late."""


class LongBatchError(ColdReadError):
    """What is looked for is in a batch that takes long to decompress: a thread has to do it."""

    def __init__(self, key: Key, header: BatchHeader, batch: memoryview) -> None:
        Exception.__init__(
            self, f"a batch of {len(batch)} bytes at {header.base_offset}, {id(self)}"
        )
        self._key = key
        self._header = header
        self._batch = memoryview(bytes(batch))
        self._found: tuple[int, int] | KafkaError | None = None

    def hold(self) -> None:
        """It has a copy of its own."""

    def read(self) -> None:
        """Look for the record. Runs in a thread."""
        try:
            self._found = _sought_in(self._header, self._batch, *self._key[3:], LARGEST_BODY)
        except KafkaError as problem:
            self._found = problem

    def release(self) -> None:
        """Let it be found by who asks again."""
        _sought[self._key] = self._found
        while len(_sought) > MOST_SOUGHT:
            _sought.popitem(last=False)


class TimestampAndOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(
    log: Storage, timestamp: int, limit: int, *, may_wait: bool
) -> TimestampAndOffset | None:
    """The first record at or after a timestamp, if its offset is below the limit."""
    log.check_online()
    try:
        for segment in log.segments:
            segment.largest_timestamp(may_wait=may_wait)
            if segment.age_timestamp() >= timestamp:
                found = _search(log, segment, timestamp, log.start_offset, may_wait)
                if found is not None:  # compaction leaves batches without records
                    return found if found.offset < limit else None
    except (OSError, CorruptLog) as error:
        raise log.failed(error) from error
    return None


def _search(
    log: Storage, segment: Segment, timestamp: int, start_offset: int, may_wait: bool
) -> TimestampAndOffset | None:
    offset = segment.offset_before(timestamp, may_wait=may_wait)
    relative = max(offset, start_offset) - segment.base_offset
    position = segment.start_of_search(relative, may_wait=may_wait)
    fd, pread = segment.file.descriptor(), segment.reader(may_wait=may_wait)
    scan = Scan(log.files, fd, position, segment.size, 0, pread)
    misses = 0
    for batch in scan.headers():
        if batch.header.max_timestamp >= timestamp and batch.header.last_offset >= start_offset:
            epoch = batch.header.leader_epoch
            try:
                if misses >= MOST_MISSES:
                    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "headers that are not true")
                found = _seek(batch.header, scan.read(batch), timestamp, start_offset, may_wait)
            except KafkaError:
                # A producer wrote bytes that are no records. A batch is as near as it gets.
                first = max(batch.header.base_offset, start_offset)
                return TimestampAndOffset(batch.header.max_timestamp, first, epoch)
            if found is not None:
                return TimestampAndOffset(*found, epoch)
            misses += 1
    if scan.problem is not None:
        raise CorruptLog(f"{segment.path}.log is corrupt at {scan.position}: {scan.problem}")
    return None


def _seek(
    header: BatchHeader, batch: memoryview, timestamp: int, start_offset: int, may_wait: bool
) -> tuple[int, int] | None:
    """Timestamp and offset of a batch's first record at or after both; raises CORRUPT_MESSAGE."""
    if not crc_is_right(batch, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch has an invalid CRC")
    least = max(0, start_offset - header.base_offset)
    if header.is_log_append_time:  # all records have the batch's own
        timestamp = INT64_MIN
    limit = SHORT_BODY if header.codec and not may_wait else LARGEST_BODY
    key = (header.crc, len(batch), header.base_timestamp, timestamp, least)
    if limit == SHORT_BODY and key in _sought:
        found = _sought[key]
        if isinstance(found, KafkaError):
            raise KafkaError(found.code, found.message)
    elif limit == SHORT_BODY and len(batch) > SHORT_BATCH:
        raise LongBatchError(key, header, batch)
    else:
        try:
            found = _sought_in(header, batch, timestamp, least, limit)
        except BodyTooLargeError:
            if limit == SHORT_BODY:
                raise LongBatchError(key, header, batch) from None
            raise
    if found is None:
        return None
    stamp = header.max_timestamp if header.is_log_append_time else found[0]
    return stamp, header.base_offset + found[1]


def _sought_in(
    header: BatchHeader, batch: memoryview, timestamp: int, least: int, limit: int
) -> tuple[int, int] | None:
    """Timestamp and offset delta of a batch's first record at or after both."""
    body = body_of(header.codec, batch[HEADER_SIZE:], limit)
    base = 0 if header.is_log_append_time else header.base_timestamp
    return KERNEL.seek_timestamp(body, header.record_count, base, timestamp, least)


def max_timestamp_offset(log: Storage, limit: int, *, may_wait: bool) -> TimestampAndOffset | None:
    """The first record with the largest timestamp of the log, if its offset is below the limit."""
    log.check_online()
    try:
        for each in log.segments:
            each.largest_timestamp(may_wait=may_wait)
        segment = max(log.segments, key=lambda segment: segment.largest_timestamp())
        largest = segment.largest_timestamp()
        if largest < 0:
            return None
        found = _search(log, segment, largest, max(log.start_offset, segment.base_offset), may_wait)
    except (OSError, CorruptLog) as error:
        raise log.failed(error) from error
    return found if found is not None and found.offset < limit else None


def end_of(log: Storage, offset: int, read: Slice) -> int:
    """The offset after the last whole batch of a stretch that a reader at an offset was given.

    Nobody waits for the disk for it: where the last batches are not in memory the index says about
    where it is, and never too much.
    """
    segment = _segment_of(log, offset, read)
    if segment is None:
        return offset
    stop = read.position + read.size
    if stop == segment.size:
        following = log.segments.after(segment)
        return log.end_offset if following is None else following.base_offset
    try:
        return max(offset, segment.end_before_cut(read.position, stop))
    except ColdReadError:
        return max(offset, segment.base_offset + segment.index.whole_before(stop) + 1)
    except (OSError, CorruptLog):
        return offset


def _segment_of(log: Storage, offset: int, read: Slice) -> Segment | None:
    segment: Segment | None = log.segments.floor(offset)
    while segment is not None and segment.file is not read.file:
        segment = log.segments.after(segment)
    return segment


def aborted_in(log: Storage, offset: int, read: Slice, limit: int) -> list[tuple[int, int]]:
    """The aborted transactions that a reader of a stretch, which began at an offset, must know of.

    As in Kafka they are those up to the next batch that the index knows behind the stretch, not all
    up to the reader's limit: a reader that is far behind would be told of all of them every time.
    """
    segment = _segment_of(log, offset, read)
    if segment is not None:
        try:
            relative = segment.index.last_offset_from(read.position + read.size)
        except OSError as error:
            raise log.failed(error) from error
        following = log.segments.after(segment)
        if relative is not None:
            limit = min(limit, segment.base_offset + relative)
        elif following is not None:
            limit = min(limit, following.base_offset)
    return aborted_transactions(log, offset, limit)


def aborted_transactions(log: Storage, start: int, end: int) -> list[tuple[int, int]]:
    """Producer id and first offset of each aborted transaction with records in [start, end).

    In the order of first offsets: a reader can then pass over them as it goes along.
    """
    log.check_online()
    result: list[tuple[int, int]] = []
    try:
        for segment in log.segments.starting_with(start):
            found, complete = segment.aborted(start, end)
            result += [(each.producer_id, each.first_offset) for each in found]
            if complete:
                break
    except OSError as error:
        raise log.failed(error) from error
    result.sort(key=itemgetter(1))
    return result
