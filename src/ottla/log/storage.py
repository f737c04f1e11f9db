"""The files of a log as one thing: writing, rolling, deleting, failing.

Rules kept here:
1. Memory says what is in the log only after the file system took it. A short write or a full disk
   cuts the file back to the old end; the log stays online. Any other failure of the disk, and every
   failed fsync, takes the log offline for good: KAFKA_STORAGE_ERROR.
2. A deleted segment's files are renamed first and removed later.
"""

import errno
import os
import time
from pathlib import Path
from random import Random

import structlog

from ottla.log.config import LogConfig
from ottla.log.files import DISK_IS_FULL, FileCache, Files
from ottla.log.flush import Flush
from ottla.log.loading import Loaded
from ottla.log.offset_index import MAX_RELATIVE
from ottla.log.recompression import wanted
from ottla.log.scan import CorruptLog
from ottla.log.segment import Segment
from ottla.log.segment_names import SUFFIXES, stem
from ottla.log.snapshots import WEIGHT_OF_A_BATCH
from ottla.log.txn_index import AbortedTransaction
from ottla.wire.batch import LOG_OVERHEAD, BatchHeader
from ottla.wire.errors import ErrorCode, KafkaError

_log = structlog.get_logger()

_CHANCE = Random()  # of its own: a program that embeds a broker may seed the other
ROLL_NOW = -1 << 63
"""As `Segment.roll_after`: the next batch, whatever its timestamp, begins a new segment."""


class Storage:
    """A log's segments, its state, and every change of its files."""

    __slots__ = (
        "_append_time",
        "_codec",
        "_compacted",
        "_flush",
        "_flush_messages",
        "_index_interval",
        "_limit",
        "_next_expiry",
        "_rolled",
        "_seam",
        "_segment_bytes",
        "_torn",
        "_writable",
        "cache",
        "config",
        "directory",
        "directory_changed",
        "directory_is_new",
        "doomed",
        "end_offset",
        "epochs",
        "failure",
        "files",
        "high_watermark",
        "largest_batch",
        "last_flush_time",
        "offline",
        "partition",
        "producers",
        "recovery_point",
        "segments",
        "size",
        "snapshots",
        "start_offset",
        "topic",
        "truncations",
    )

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        *,
        files: Files,
        cache: FileCache,
        loaded: Loaded,
        start_offset: int,
        recovery_point: int,
        now: int,
    ) -> None:
        topic, _, partition = directory.name.rpartition("-")
        self.topic = topic
        self.partition = int(partition)
        self.directory = directory
        self.files = files
        self.cache = cache
        self.segments = loaded.segments
        self.snapshots = loaded.snapshots
        self.producers = loaded.producers
        self.epochs = loaded.epochs
        self.start_offset = start_offset
        self.end_offset = loaded.end_offset
        self.recovery_point = recovery_point
        self.size = sum(segment.size for segment in loaded.segments)
        """Bytes of all segments."""
        self.high_watermark: int | None = None
        """Where replicas follow, what all of them have; None means: whatever is in the log."""
        self.offline = False
        self.failure: BaseException | None = None
        """Why the log is offline."""
        self.doomed: list[tuple[str, int]] = []
        """Files to be removed, and when; remove_doomed() does it."""
        self.directory_changed = False
        """True where files were made or renamed since the last flush."""
        self.directory_is_new = False
        """True where the folder itself was made since the last flush."""
        self.last_flush_time = now
        self.truncations = 0
        """How often records were removed from the end."""
        self._flush: Flush | None = None
        self._rolled: list[Segment] = []
        """Segments sealed since the last flush: their indexes got a last entry."""
        self._next_expiry = now
        self._writable: Segment | None = None
        self._torn = False
        """True where a part of a batch lies behind the log's end, and could not be cut off yet."""
        self._limit: tuple[int, Segment, int] | None = None
        """The last limit of a reader, and where it is in a segment."""
        self._seam: tuple[int, Segment, int] | None = None
        """Where a reader that has read everything goes on when there is more."""
        self.set_config(config)

    def __repr__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def set_config(self, config: LogConfig) -> None:
        """Obey other settings from now on."""
        self.config = config
        self._segment_bytes = config.segment_bytes
        self.largest_batch = min(config.max_message_bytes, config.segment_bytes)
        self._index_interval = config.index_interval_bytes
        self._flush_messages = config.flush_messages
        self._append_time = config.message_timestamp_type == "LogAppendTime"
        self._compacted = "compact" in config.cleanup_policy
        self._codec = wanted(config)
        if self._writable is not None:
            first_timestamp = self._writable.first_timestamp
            self._writable.begin_rolling_clock(first_timestamp, config.max_segment_ms)

    def move_to(self, cache: FileCache) -> None:
        """Have the files open in another cache from now on."""
        for segment in self.segments:
            segment.file.move_to(cache)
        self.cache = cache

    # Failing ------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Take the log offline: from now on every use of it is KAFKA_STORAGE_ERROR."""
        if not self.offline:
            self.offline = True
            self.failure = error
            self._close_files()

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
        """Raise KAFKA_STORAGE_ERROR where the log is offline."""
        if self.offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self} is offline: {self.failure}"
            ) from self.failure

    def _close_files(self) -> None:
        self._writable = None
        for segment in self.segments:
            segment.file.retire()

    # Writing ------------------------------------------------------------------------------

    def _make_writable(self) -> Segment:
        """Read what appending needs to know of the last segment."""
        self.check_online()
        segment = self.segments.active
        try:
            self._cut_torn_write()
            segment.largest_timestamp()
            # Now, and not when an aborted transaction is noted there: its marker is written then.
            segment.load_txn_index()
            if segment.size:
                first = segment.header(0)
                segment.begin_rolling_clock(first.max_timestamp, self.config.max_segment_ms)
                segment.since_index = segment.size - segment.index.position(MAX_RELATIVE)
        except (OSError, CorruptLog) as error:
            raise self.failed(error) from error
        self._writable = segment
        return segment

    def _undo_write(self, segment: Segment, error: OSError | None) -> KafkaError:
        """A write failed, or wrote less than all: cut the file back to where it ended before."""
        if error is None or error.errno in DISK_IS_FULL:
            try:
                if segment.file.fd >= 0:
                    self.files.ftruncate(segment.file.fd, segment.size)
            except OSError as worse:
                self._torn = True
                self._writable = None  # it is cut off before the next write
                return self.failed(worse)
            # A full disk takes what it has room for; the rest would be refused with this.
            reason = os.strerror(errno.ENOSPC) if error is None else error.strerror
            self.files.on_full(str(self), reason)
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self}: {reason}")
        return self.failed(error)

    def _cut_torn_write(self) -> None:
        """Remove what an undone write has left, if it has: no segment may be closed with it."""
        if self._torn:
            active = self.segments.active
            self.files.ftruncate(active.file.descriptor(), active.size)
            self._torn = False

    def _index(self, segment: Segment, last_offset: int, position: int) -> None:
        segment.add_index_entry(last_offset, position)
        if segment.indexes_are_full(self.config.segment_index_bytes):
            segment.roll_after = ROLL_NOW

    def _fits(self, segment: Segment, header: BatchHeader, position: int) -> bool:
        return position == 0 or (
            position + header.length + LOG_OVERHEAD <= self._segment_bytes
            and header.max_timestamp <= segment.roll_after
            and segment.can_hold(header.last_offset)
        )

    def write_batches(
        self, view: memoryview, batches: list[tuple[int, BatchHeader]], now: int | None
    ) -> None:
        """Write checked batches, which lie one behind the other in the view, and note them.

        As many as fit a segment go in one write.
        """
        at = 0
        while at < len(batches):
            segment = self._writable or self._make_writable()
            if not self._fits(segment, batches[at][1], segment.size) or (
                segment.size == 0 and not segment.can_hold(batches[at][1].last_offset)
            ):
                segment = self._roll(batches[at][1].base_offset, now)
            start = batches[at][0]
            upto = at
            while upto < len(batches) and (
                upto == at
                or self._fits(segment, batches[upto][1], segment.size + batches[upto][0] - start)
            ):
                upto += 1
            end = batches[upto - 1][0] + batches[upto - 1][1].size
            try:
                written = segment.write(view[start:end], segment.size)
            except OSError as error:
                raise self._undo_write(segment, error) from error
            if written != end - start:
                raise self._undo_write(segment, None)
            for position, header in batches[at:upto]:
                self.note_batch(segment, header, view[position : position + header.size], now)
            at = upto

    def note_batch(
        self, segment: Segment, header: BatchHeader, batch: memoryview, now: int | None
    ) -> None:
        """A batch is in the file: bring everything else up to it."""
        last_offset = header.last_offset
        size = header.size
        if segment.size == 0:
            segment.begin_rolling_clock(header.max_timestamp, self.config.max_segment_ms)
        segment.note(header, self._index_interval)
        if segment.indexes_are_full(self.config.segment_index_bytes):
            segment.roll_after = ROLL_NOW
        self.size += size
        self.snapshots.behind += size + WEIGHT_OF_A_BATCH
        self.end_offset = last_offset + 1
        if header.leader_epoch > self.epochs.latest:
            self.epochs.assign(header.leader_epoch, header.base_offset)
        completed = self.producers.replay(header, lambda: batch, now)
        if completed is not None and completed.aborted:
            stable = self.producers.first_undecided_offset()
            segment.txn_index.add(
                AbortedTransaction(
                    completed.producer_id,
                    completed.first_offset,
                    completed.last_offset,
                    last_offset + 1 if stable is None else stable,
                )
            )
        if completed is not None:
            # Here, not only where readers ask: a follower has none, and would keep them for ever.
            committed = self.high_watermark
            self.producers.forget_decided(self.end_offset if committed is None else committed)

    # Rolling ------------------------------------------------------------------------------

    def _new_segment(self, base_offset: int, now: int | None) -> Segment:
        if now is None:
            now = time.time_ns() // 1_000_000
        config = self.config
        jitter = _CHANCE.randint(0, min(config.segment_jitter_ms, config.max_segment_ms))
        segment = Segment.create(
            self.files, self.cache, str(self.directory), base_offset, now=now, jitter=jitter
        )
        self.directory_changed = True
        return segment

    def roll(self, now: int | None = None) -> None:
        """Begin a new segment, unless the active one is empty."""
        self._roll(self.end_offset, now)

    def _roll(self, base_offset: int, now: int | None) -> Segment:
        """Seal the active segment and begin the next one, at this offset or at the log's end."""
        self.check_online()
        base_offset = max(base_offset, self.end_offset)
        active = self.segments.active
        if active.base_offset == base_offset:
            return active
        try:
            self._cut_torn_write()
            active.seal()
            segment = self._new_segment(base_offset, now)
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
        self._rolled.append(active)
        self._writable = segment
        self.take_snapshot(base_offset)
        return segment

    def complete_sealed(self, segment: Segment) -> None:
        """A segment was sealed before a crash, but perhaps not saved since."""
        segment.complete_time_index()
        self._rolled.append(segment)

    def begin_recovered_segment(self, segment: Segment) -> None:
        """The next segment that was found after a crash; its batches are noted one by one."""
        self.segments.add(segment)
        self.end_offset = segment.base_offset
        self.take_snapshot(segment.base_offset)

    def take_snapshot(self, offset: int) -> None:
        """Save the producers as they are at an offset."""
        try:
            self.snapshots.write(offset, self.producers, sync=False)
        except OSError as error:
            if error.errno not in DISK_IS_FULL:
                raise self.failed(error) from error
            self.files.on_full(str(self), error.strerror)
            return  # a snapshot only saves reading; an older one will do
        self.directory_changed = True

    # Deleting -----------------------------------------------------------------------------

    def cut_active(self, end_offset: int, position: int) -> None:
        """Make the log end at this offset, which is this position in the active segment."""
        active = self.segments.active
        self.size -= active.size - position
        active.cut(end_offset, position)
        self._ends_at(end_offset)

    def restart_at(self, offset: int, now: int) -> None:
        """Remove all that is in the log; the next batch gets this offset or a later one."""
        self.lower_recovery_point(0 if len(self.segments) else offset)
        self.doom(self.segments.remove_from(0), now)
        self.segments.add(self._new_segment(offset, now))
        self.epochs.clear()
        self.producers.clear()
        self.snapshots.remove_all_but(set())
        self._ends_at(offset)

    def end_at_least_at_start(self, now: int) -> None:
        """Where all that is left lies below the start offset, begin again at the start offset."""
        if self.end_offset < self.start_offset:
            start_offset = self.start_offset
            if self.size:  # as in Kafka; no record may go without a word
                _log.warning(
                    "log ends before its log start offset; deleting its segments",
                    partition=str(self),
                    end_offset=self.end_offset,
                    start_offset=start_offset,
                    bytes=self.size,
                )
            self.restart_at(start_offset, now)
            self.start_offset = start_offset

    def lower_recovery_point(self, offset: int) -> None:
        """What lies at or after an offset is about to go: no checkpoint may promise it any more."""
        self.recovery_point = min(self.recovery_point, offset)
        if self._flush is not None:
            self._flush.end_offset = min(self._flush.end_offset, offset)

    def _ends_at(self, end_offset: int) -> None:
        self.truncations += 1
        self.lower_recovery_point(end_offset)
        self.end_offset = end_offset
        self.start_offset = min(self.start_offset, end_offset)
        self._writable = None
        self._torn = False
        self._limit = self._seam = None

    def doom(self, segments: list[Segment], now: int) -> None:
        """Rename the files of segments that are no longer in the log; their removal comes later."""
        due = now + self.config.file_delete_delay_ms
        for segment in segments:
            if segment in self._rolled:
                self._rolled.remove(segment)
            self.size -= segment.size
            paths: list[str | None] = [*segment.rename_as_deleted()]
            paths.append(self.snapshots.rename_as_deleted(segment.base_offset))
            self.doomed += [(path, due) for path in paths if path is not None]
        self.directory_changed = True
        self._limit = self._seam = None

    def remove_doomed(self, now: int) -> int | None:
        """Remove the files whose time has come; returns when the next one's is."""
        while self.doomed and self.doomed[0][1] <= now:
            path, _ = self.doomed.pop(0)
            try:
                self.files.unlink_if_exists(path)
            except OSError:
                pass  # opening the log removes what is left
        return self.doomed[0][1] if self.doomed else None
