"""Flushing a log: while it is open, and when it is closed.

Rules kept here:
1. The recovery point is a log end that was captured before a successful fsync of it.
2. Index entries, leader epochs and producer snapshots that lie below the recovery point are on disk
   with it; those above are rebuilt after a crash, so nothing of them is written on the hot path.
3. Beginning and ending a flush do not wait for the disk; Flush.run() does, in a thread.
"""

import time

import structlog

from ottla.log.flush import Flush
from ottla.log.leader_epochs import FILE_NAME as EPOCHS_FILE
from ottla.log.leader_epochs import LeaderEpochFileCache
from ottla.log.local_log import LocalLog
from ottla.log.producers.manager import ProducerStateManager
from ottla.log.storage.files import READ_WRITE

_log = structlog.get_logger()

SEGMENTS_IN_ONE_FLUSH = 20
"""A flush has all files of its segments open; where more are to be flushed, another follows."""


class LogFlusher:
    """Flushes one log."""

    __slots__ = ("_epochs", "_local", "_producers", "last_flush_time")

    def __init__(
        self,
        local: LocalLog,
        epochs: LeaderEpochFileCache,
        producers: ProducerStateManager,
        now: int,
    ) -> None:
        self._local = local
        self._epochs = epochs
        self._producers = producers
        self.last_flush_time = now

    # Flushing -----------------------------------------------------------------------------

    @property
    def unflushed_messages(self) -> int:
        """How many offsets no fsync covers yet."""
        local = self._local
        return local.end_offset - local.recovery_point

    @property
    def flush_is_due(self) -> bool:
        """True if `flush.messages` is reached."""
        return self.unflushed_messages >= self._local.config.flush_messages

    @property
    def unflushed_bytes(self) -> int:
        """About how many bytes no fsync covers yet: what a scan after a crash would read."""
        local = self._local
        first, *rest = local.segments.starting_with(local.recovery_point)
        covered = first.index.position(max(0, local.recovery_point - 1 - first.base_offset))
        return first.size - covered + sum(segment.size for segment in rest)

    @property
    def flushing(self) -> bool:
        """True between begin_flush() and end_flush()."""
        return self._local.flush is not None

    def begin_flush(self) -> Flush | None:
        """Capture what a flush has to cover; None if there is nothing, or one is under way.

        Raises KAFKA_STORAGE_ERROR if a full disk does not take the indexes.
        """
        local = self._local
        if local.offline or local.flush is not None:
            return None
        if (
            local.recovery_point == local.end_offset
            and local.segments.active.indexes.are_saved
            and not local.directory_changed
            and not self._epochs.dirty
        ):
            return None
        unflushed = local.segments.starting_with(local.recovery_point)
        rest = unflushed[SEGMENTS_IN_ONE_FLUSH:]
        end_offset = rest[0].base_offset if rest else local.end_offset
        flush = Flush(local.files, end_offset)
        snapshots = self._producers.snapshots
        sealed = [segment for segment in local.unflushed_sealed if segment.base_offset < end_offset]
        try:
            if snapshots.is_due:
                self._producers.take_snapshot(local.end_offset)
            for segment in unflushed[:SEGMENTS_IN_ONE_FLUSH]:
                flush.add_log(segment.file)
                flush.add_written(segment.indexes.save())
            for segment in sealed:
                flush.add_written(segment.indexes.save())
            unsynced = [offset for offset in snapshots.unsynced if offset <= end_offset]
            for offset in unsynced:
                fd = local.files.open(snapshots.path(offset), READ_WRITE, 0)
                flush.add_written([fd])
        except OSError as error:
            flush.release()
            self._flush_again()  # some of the indexes are written, and no fsync will cover them
            raise local.failed(error) from error
        local.unflushed_sealed = [each for each in local.unflushed_sealed if each not in sealed]
        snapshots.unsynced.difference_update(unsynced)
        if self._epochs.dirty:
            flush.add_replacement(f"{local.directory}/{EPOCHS_FILE}", self._epochs.to_bytes())
            self._epochs.dirty = False
        if local.directory_changed:
            flush.add_directory(str(local.directory))
            local.directory_changed = False
        if local.directory_is_new:
            flush.add_directory(str(local.directory.parent))
            local.directory_is_new = False
        local.flush = flush
        return flush

    def end_flush(self, flush: Flush, now: int | None = None) -> None:
        """The flush has run: move the recovery point, or take the log offline if it failed."""
        local = self._local
        local.flush = None
        flush.release()
        if flush.error is not None and not flush.may_be_run_again and not local.offline:
            _log.error("partition is offline", partition=str(local), reason=str(flush.error))
            local.fail(flush.error)
        if local.offline:
            return
        if not flush.done:
            if flush.error is not None:
                local.files.on_full(str(local), flush.error.strerror)
            self._flush_again()
            return
        local.recovery_point = max(local.recovery_point, flush.end_offset)
        self.last_flush_time = time.time_ns() // 1_000_000 if now is None else now
        self._remove_old_snapshots()

    def _flush_again(self) -> None:
        """A flush did not complete: what it would have covered is still to be flushed."""
        local = self._local
        unflushed = local.segments.starting_with(local.recovery_point)
        for segment in (*local.unflushed_sealed, *unflushed):
            segment.indexes.save_again()
        self._epochs.dirty = True
        local.directory_changed = local.directory_is_new = True

    def _remove_old_snapshots(self) -> None:
        local = self._local
        snapshots = self._producers.snapshots
        if len(snapshots.offsets) >= len(local.segments):
            keep = {segment.base_offset for segment in local.segments}
            try:
                snapshots.remove_all_but(keep | {snapshots.newest})
            except OSError:
                pass  # they only take space; opening the log removes them too

    # Closing ------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush everything and close the files; raises if that fails."""
        flush = None
        try:
            self._flush_all_but_the_last()
            flush = self.begin_close()
            if flush is not None:
                flush.run()
        finally:
            self.end_close(flush)

    @property
    def needs_several_flushes(self) -> bool:
        """True if one flush does not cover all that is not on disk yet."""
        local = self._local
        return len(local.segments.starting_with(local.recovery_point)) > SEGMENTS_IN_ONE_FLUSH

    def _flush_all_but_the_last(self) -> None:
        while self.needs_several_flushes:
            flush = self.begin_flush()
            if flush is None:
                return
            try:
                flush.run()
            finally:
                self.end_flush(flush)

    def begin_close(self) -> Flush | None:
        """Capture what closing has to flush, for a broker that closes many logs at once.

        What one flush cannot cover must be flushed before. Flush.run() may wait in a thread;
        end_close() comes after it, also where this is None.
        """
        local = self._local
        if local.offline:
            return None
        if self.flushing:
            raise RuntimeError(f"{local} cannot be closed while it is being flushed")
        try:
            local.truncate_torn_write()
        except OSError as error:
            raise local.failed(error) from error
        local.segments.active.note_largest_timestamp()
        if local.end_offset > max(self._producers.snapshots.newest, 0):
            self._producers.take_snapshot(local.end_offset)
        return self.begin_flush()

    def end_close(self, flush: Flush | None) -> None:
        """Close the files."""
        local = self._local
        if flush is not None:
            self.end_flush(flush)
        local.fail(RuntimeError(f"{local} was closed"))
