"""Finding records by time, and aborted transactions by range, through the indexes.

Rules kept here:
1. An index only says where to start; what is found is read from the log.
2. Only the batch that holds the answer is looked into, and no record of it is made.
3. Who looks for a time may say that it does not wait for the disk: it is told what has to be read
   first (ColdReadError), and asks again.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from ottla.log.files import ColdReadError
from ottla.log.scan import CorruptLog, Scan
from ottla.records.compression import body_of
from ottla.records.kernel import KERNEL
from ottla.records.record import INT64_MIN
from ottla.wire.batch import HEADER_SIZE, BatchHeader, crc_is_right
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.log.files import Slice
    from ottla.log.segment import Segment
    from ottla.log.storage import Storage


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
    for batch in scan.headers():
        if batch.header.max_timestamp >= timestamp and batch.header.last_offset >= start_offset:
            epoch = batch.header.leader_epoch
            try:
                found = _seek(batch.header, scan.read(batch), timestamp, start_offset)
            except KafkaError:
                # A producer wrote bytes that are no records. A batch is as near as it gets.
                first = max(batch.header.base_offset, start_offset)
                return TimestampAndOffset(batch.header.max_timestamp, first, epoch)
            if found is not None:
                return TimestampAndOffset(*found, epoch)
    if scan.problem is not None:
        raise CorruptLog(f"{segment.path}.log is damaged at {scan.position}: {scan.problem}")
    return None


def _seek(
    header: BatchHeader, batch: memoryview, timestamp: int, start_offset: int
) -> tuple[int, int] | None:
    """Timestamp and offset of a batch's first record at or after both; raises CORRUPT_MESSAGE."""
    if not crc_is_right(batch, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch's CRC does not fit its bytes")
    base = header.base_offset
    least = max(0, start_offset - base)
    if header.is_log_append_time:  # all records have the batch's own
        base_timestamp, timestamp = 0, INT64_MIN
    else:
        base_timestamp = header.base_timestamp
    body = body_of(header.codec, batch[HEADER_SIZE:])
    found = KERNEL.seek_timestamp(body, header.record_count, base_timestamp, timestamp, least)
    if found is None:
        return None
    return header.max_timestamp if header.is_log_append_time else found[0], base + found[1]


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
