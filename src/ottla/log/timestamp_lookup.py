"""Finding records by timestamp, through the time index.

Rules kept here:
1. An index only says where to start; what is found is read from the log.
2. Only the batch that holds the record is decoded. After MOST_MISSES batches whose headers promise
   a record that they do not have, the next header is trusted.
3. A caller that may not wait for the disk gets ColdReadError, which says what to read first, and
   asks again. For a long batch that has to be decompressed it gets LongBatchError.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from ottla.log.local_log import LocalLog
from ottla.log.segments.scan import CorruptLog, Scan
from ottla.log.segments.segment import LogSegment
from ottla.log.storage.page_cache import ColdReadError
from ottla.log.validation.inspection import SHORT_BATCH, SHORT_BODY
from ottla.records.compression import LARGEST_BODY, BodyTooLargeError, body_of
from ottla.records.kernel import KERNEL
from ottla.records.record import INT64_MIN
from ottla.wire.batch import HEADER_SIZE, BatchHeader, crc_is_right
from ottla.wire.errors import ErrorCode, KafkaError

MOST_MISSES: Final = 16
MOST_SOUGHT: Final = 64

Key = tuple[int, int, int, int, int]
"""What is looked for, and in which bytes: crc, size, base timestamp of a batch, timestamp, least
offset delta."""
_sought: OrderedDict[Key, tuple[int, int] | KafkaError | None] = OrderedDict()
"""Results of threads, newest last."""


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
        """Nothing: it has its own copy."""

    def read(self) -> None:
        """Look for the record. Runs in a thread."""
        try:
            self._found = _sought_in(self._header, self._batch, *self._key[3:], LARGEST_BODY)
        except KafkaError as problem:
            self._found = problem

    def release(self) -> None:
        """Keep the result for the caller that asks again."""
        _sought[self._key] = self._found
        while len(_sought) > MOST_SOUGHT:
            _sought.popitem(last=False)


class TimestampAndOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(
    local: LocalLog, timestamp: int, limit: int, *, may_wait: bool
) -> TimestampAndOffset | None:
    """The first record at or after a timestamp, if its offset is below the limit."""
    local.check_online()
    try:
        for segment in local.segments:
            segment.largest_timestamp(may_wait=may_wait)
            if segment.age_timestamp() >= timestamp:
                found = _search(local, segment, timestamp, local.start_offset, may_wait)
                if found is not None:  # compaction leaves batches without records
                    return found if found.offset < limit else None
    except (OSError, CorruptLog) as error:
        raise local.failed(error) from error
    return None


def _search(
    local: LocalLog, segment: LogSegment, timestamp: int, start_offset: int, may_wait: bool
) -> TimestampAndOffset | None:
    offset = segment.offset_before(timestamp, may_wait=may_wait)
    relative = max(offset, start_offset) - segment.base_offset
    position = segment.start_of_search(relative, may_wait=may_wait)
    fd, pread = segment.file.descriptor(), segment.reader(may_wait=may_wait)
    scan = Scan(local.files, fd, position, segment.size, 0, pread)
    misses = 0
    for batch in scan.headers():
        if batch.header.max_timestamp >= timestamp and batch.header.last_offset >= start_offset:
            epoch = batch.header.leader_epoch
            try:
                if misses >= MOST_MISSES:
                    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "headers that are not true")
                found = _seek(batch.header, scan.read(batch), timestamp, start_offset, may_wait)
            except KafkaError:
                # A producer wrote bytes that are not records: the batch is the best answer.
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


def max_timestamp_offset(
    local: LocalLog, limit: int, *, may_wait: bool
) -> TimestampAndOffset | None:
    """The first record with the largest timestamp of the log, if its offset is below the limit."""
    local.check_online()
    try:
        for each in local.segments:
            each.largest_timestamp(may_wait=may_wait)
        segment = max(local.segments, key=lambda segment: segment.largest_timestamp())
        largest = segment.largest_timestamp()
        if largest < 0:
            return None
        found = _search(
            local, segment, largest, max(local.start_offset, segment.base_offset), may_wait
        )
    except (OSError, CorruptLog) as error:
        raise local.failed(error) from error
    return found if found is not None and found.offset < limit else None
