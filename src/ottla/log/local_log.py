"""A log's segments on disk and the offsets they span (Kafka's LocalLog): write, roll, fail.

Rules kept here:
1. Memory says what is in the log only after the file system took it. After a short write or on a
   full disk the file is truncated to its old end, and the log stays online. Any other disk failure,
   and every failed fsync, takes the log offline permanently: KAFKA_STORAGE_ERROR.
2. The recovery point is never above the log end offset.
3. Nothing here knows what a batch means: producers, epochs and transactions are appender.py's.
"""

import errno
import os
import time
from pathlib import Path
from random import Random

import structlog

from ottla.log.config import LogConfig
from ottla.log.flush import Flush
from ottla.log.segments.names import SUFFIXES, stem
from ottla.log.segments.offset_index import MAX_RELATIVE
from ottla.log.segments.scan import CorruptLog
from ottla.log.segments.segment import LogSegment
from ottla.log.segments.segments import LogSegments
from ottla.log.storage.file_cache import FileCache
from ottla.log.storage.files import DISK_IS_FULL, Files
from ottla.wire.batch import LOG_OVERHEAD, BatchHeader
from ottla.wire.errors import ErrorCode, KafkaError

_log = structlog.get_logger()

_CHANCE = Random()  # of its own: a program that embeds a broker may seed the other
ROLL_NOW = -1 << 63
"""As `LogSegment.roll_after`: the next batch, whatever its timestamp, begins a new segment."""

ReadPosition = tuple[int, LogSegment, int]
"""An offset, and the segment and position where its batch begins."""


class LocalLog:
    """The segments of one partition, its offsets, and every write to its files."""

    __slots__ = (
        "_torn",
        "cache",
        "config",
        "directory",
        "directory_changed",
        "directory_is_new",
        "doomed",
        "end_offset",
        "failure",
        "files",
        "flush",
        "high_watermark",
        "index_interval",
        "limit_position",
        "offline",
        "partition",
        "recovery_point",
        "segment_bytes",
        "segments",
        "size",
        "start_offset",
        "tail_position",
        "topic",
        "truncations",
        "unflushed_sealed",
        "writable",
    )

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        *,
        files: Files,
        cache: FileCache,
        segments: LogSegments,
        start_offset: int,
        end_offset: int,
        recovery_point: int,
    ) -> None:
        topic, _, partition = directory.name.rpartition("-")
        self.topic = topic
        self.partition = int(partition)
        self.directory = directory
        self.files = files
        self.cache = cache
        self.segments = segments
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.recovery_point = recovery_point
        self.high_watermark: int | None = None
        """What all in-sync replicas have; None without followers: all that is in the log."""
        self.size = sum(segment.size for segment in segments)
        """Bytes of all segments."""
        self.offline = False
        self.failure: BaseException | None = None
        """Why the log is offline."""
        self.doomed: list[tuple[str, int]] = []
        """Deleted segments' files that are still to be removed, and when (deletion.py)."""
        self.directory_changed = False
        """True if files were made or renamed since the last flush."""
        self.directory_is_new = False
        """True if the folder itself was made since the last flush."""
        self.truncations = 0
        """How often records were removed from the end."""
        self.flush: Flush | None = None
        """The flush under way; truncation lowers the offset it covers."""
        self.unflushed_sealed: list[LogSegment] = []
        """Segments sealed since the last flush: their indexes got a last entry."""
        self.writable: LogSegment | None = None
        """The active segment, once writable_segment() has prepared it for appends."""
        self._torn = False
        """True if part of a batch lies behind the log's end and is still to be truncated."""
        self.limit_position: ReadPosition | None = None
        """The last limit of a reader (reader.py)."""
        self.tail_position: ReadPosition | None = None
        """Where a reader that has read everything continues (reader.py)."""
        self.set_config(config)

    def __repr__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def set_config(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self.config = config
        self.segment_bytes = config.segment_bytes
        self.index_interval = config.index_interval_bytes
        if self.writable is not None:
            first_timestamp = self.writable.first_timestamp
            self.writable.begin_rolling_clock(first_timestamp, config.max_segment_ms)

    def move_to(self, cache: FileCache) -> None:
        """Open the files in another cache from now on."""
        for segment in self.segments:
            segment.file.move_to(cache)
        self.cache = cache

    @property
    def committed_offset(self) -> int:
        """The high watermark, or the log end offset where no replica follows."""
        return self.end_offset if self.high_watermark is None else self.high_watermark

    # Failing ------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Take the log offline: from now on every use of it is KAFKA_STORAGE_ERROR."""
        if not self.offline:
            self.offline = True
            self.failure = error
            self.writable = None
            for segment in self.segments:
                segment.file.retire()

    def failed(self, error: BaseException) -> KafkaError:
        """What to raise when the disk failed; takes the log offline unless it was only full."""
        if isinstance(error, OSError) and error.errno in DISK_IS_FULL:
            self.files.on_full(str(self), error.strerror)
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self}: {error.strerror}")
        if not self.offline:
            _log.error("partition is offline", partition=str(self), reason=str(error))
        self.fail(error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self} is offline: {error}")

    def check_online(self) -> None:
        """Raise KAFKA_STORAGE_ERROR if the log is offline."""
        if self.offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self} is offline: {self.failure}"
            ) from self.failure

    # Writing ------------------------------------------------------------------------------

    def writable_segment(self) -> LogSegment:
        """Read what appending needs to know of the active segment, and return it."""
        self.check_online()
        segment = self.segments.active
        try:
            self.truncate_torn_write()
            segment.largest_timestamp()
            # Now, and not when an aborted transaction is noted there: its marker is written then.
            segment.indexes.load_txn()
            if segment.size:
                first = segment.header(0)
                segment.begin_rolling_clock(first.max_timestamp, self.config.max_segment_ms)
                segment.since_index = segment.size - segment.index.position(MAX_RELATIVE)
        except (OSError, CorruptLog) as error:
            raise self.failed(error) from error
        self.writable = segment
        return segment

    def undo_write(self, segment: LogSegment, error: OSError | None) -> KafkaError:
        """A write failed or was short: truncate the file to its old end. Returns what to raise."""
        if error is None or error.errno in DISK_IS_FULL:
            try:
                if segment.file.fd >= 0:
                    self.files.ftruncate(segment.file.fd, segment.size)
            except OSError as worse:
                self._torn = True
                self.writable = None  # it is truncated before the next write
                return self.failed(worse)
            # A full disk takes what it has room for; the rest would be refused with this.
            reason = os.strerror(errno.ENOSPC) if error is None else error.strerror
            self.files.on_full(str(self), reason)
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self}: {reason}")
        return self.failed(error)

    def truncate_torn_write(self) -> None:
        """Remove what an undone write left, if it did: no segment may be closed with it."""
        if self._torn:
            active = self.segments.active
            self.files.ftruncate(active.file.descriptor(), active.size)
            self._torn = False

    def add_index_entry(self, segment: LogSegment, last_offset: int, position: int) -> None:
        """Index a batch; a segment whose indexes are full is rolled at the next one."""
        segment.add_index_entry(last_offset, position)
        if segment.indexes.are_full(self.config.segment_index_bytes, segment.size):
            segment.roll_after = ROLL_NOW

    def fits(self, segment: LogSegment, header: BatchHeader, position: int) -> bool:
        """True if a batch may follow in a segment that reaches up to a position."""
        return position == 0 or (
            position + header.length + LOG_OVERHEAD <= self.segment_bytes
            and header.max_timestamp <= segment.roll_after
            and segment.can_hold(header.last_offset)
        )

    def count(self, segment: LogSegment, header: BatchHeader) -> None:
        """A batch is in the active segment's file: index it, and move the log end offset."""
        if segment.size == 0:
            segment.begin_rolling_clock(header.max_timestamp, self.config.max_segment_ms)
        segment.note(header, self.index_interval)
        if segment.indexes.are_full(self.config.segment_index_bytes, segment.size):
            segment.roll_after = ROLL_NOW
        self.size += header.size
        self.end_offset = header.last_offset + 1

    # Segments -----------------------------------------------------------------------------

    def new_segment(self, base_offset: int, now: int | None) -> LogSegment:
        """Make the files of an empty segment."""
        if now is None:
            now = time.time_ns() // 1_000_000
        config = self.config
        jitter = _CHANCE.randint(0, min(config.segment_jitter_ms, config.max_segment_ms))
        segment = LogSegment.create(
            self.files, self.cache, str(self.directory), base_offset, now=now, jitter=jitter
        )
        self.directory_changed = True
        return segment

    def roll(self, base_offset: int, now: int | None) -> LogSegment:
        """Seal the active segment and begin the next one, at this offset or at the log's end.

        Returns the active segment as it is where it begins there already.
        """
        self.check_online()
        base_offset = max(base_offset, self.end_offset)
        active = self.segments.active
        if active.base_offset == base_offset:
            return active
        try:
            self.truncate_torn_write()
            active.seal()
            segment = self.new_segment(base_offset, now)
        except OSError as error:
            active.unseal()
            path = f"{self.directory}/{stem(base_offset)}"
            for suffix in SUFFIXES:
                try:
                    self.files.unlink_if_exists(path + suffix)
                except OSError:
                    break  # the next roll, or the next start, replaces it
            raise self.failed(error) from error
        self.segments.add(segment)
        self.unflushed_sealed.append(active)
        self.writable = segment
        return segment

    def complete_sealed(self, segment: LogSegment) -> None:
        """A segment was sealed before a crash, but perhaps not saved since."""
        segment.complete_time_index()
        self.unflushed_sealed.append(segment)

    # Ends ---------------------------------------------------------------------------------

    def truncate_active(self, end_offset: int, position: int) -> None:
        """Truncate the active segment at a position, where the log ends at this offset then."""
        active = self.segments.active
        self.size -= active.size - position
        active.truncate(end_offset, position)
        self.set_end_offset(end_offset)

    def set_end_offset(self, end_offset: int) -> None:
        """Records were removed from the end: forget all that lies past it."""
        self.truncations += 1
        self.lower_recovery_point(end_offset)
        self.end_offset = end_offset
        self.start_offset = min(self.start_offset, end_offset)
        self.writable = None
        self._torn = False
        self.forget_positions()

    def lower_recovery_point(self, offset: int) -> None:
        """Records from an offset on are about to go: no checkpoint may cover them from now on."""
        self.recovery_point = min(self.recovery_point, offset)
        if self.flush is not None:
            self.flush.end_offset = min(self.flush.end_offset, offset)

    def forget_positions(self) -> None:
        """Segments were removed: readers look up their positions again."""
        self.limit_position = self.tail_position = None
