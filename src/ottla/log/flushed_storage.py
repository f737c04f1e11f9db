"""Bringing a log to the disk: now and then while it lives, and when it is closed.

Rules kept here:
1. The recovery point is a log end that was captured before a successful fsync of it.
2. Index entries, leader epochs and producer snapshots that lie below the recovery point are on disk
   with it; those above are rebuilt after a crash, so nothing of them is written on the hot path.
3. Capturing and taking note do not wait for the disk; Flush.run() does, in a thread.
"""

import time

import structlog

from ottla.log.files import READ_WRITE
from ottla.log.flush import Flush
from ottla.log.leader_epochs import FILE_NAME as EPOCHS_FILE
from ottla.log.storage import Storage

_log = structlog.get_logger()

SEGMENTS_IN_ONE_FLUSH = 20
"""A flush has all files of its segments open; where more are to be flushed, another follows."""


class FlushedStorage(Storage):
    """What Log stands on."""

    __slots__ = ()

    # Flushing -----------------------------------------------------------------------------

    @property
    def unflushed_messages(self) -> int:
        """How many offsets no fsync covers yet."""
        return self.end_offset - self.recovery_point

    @property
    def flush_is_due(self) -> bool:
        """True where `flush.messages` is reached."""
        return self.unflushed_messages >= self._flush_messages

    @property
    def unflushed_bytes(self) -> int:
        """About how many bytes no fsync covers yet: what a scan after a crash would read."""
        first, *rest = self.segments.starting_with(self.recovery_point)
        covered = first.index.position(max(0, self.recovery_point - 1 - first.base_offset))
        return first.size - covered + sum(segment.size for segment in rest)

    @property
    def flushing(self) -> bool:
        """True between begin_flush() and end_flush()."""
        return self._flush is not None

    def begin_flush(self) -> Flush | None:
        """Capture what a flush has to cover; None where there is nothing, or one is under way.

        Raises KAFKA_STORAGE_ERROR where a full disk does not take the indexes.
        """
        if self.offline or self._flush is not None:
            return None
        if (
            self.recovery_point == self.end_offset
            and self.segments.active.indexes_are_saved
            and not self.directory_changed
            and not self.epochs.dirty
        ):
            return None
        unflushed = self.segments.starting_with(self.recovery_point)
        rest = unflushed[SEGMENTS_IN_ONE_FLUSH:]
        end_offset = rest[0].base_offset if rest else self.end_offset
        flush = Flush(self.files, end_offset)
        rolled = [segment for segment in self._rolled if segment.base_offset < end_offset]
        try:
            if self.snapshots.is_due:
                self.take_snapshot(self.end_offset)
            for segment in unflushed[:SEGMENTS_IN_ONE_FLUSH]:
                flush.add_log(segment.file)
                flush.add_written(segment.save_indexes())
            for segment in rolled:
                flush.add_written(segment.save_indexes())
            snapshots = [offset for offset in self.snapshots.unsynced if offset <= end_offset]
            for offset in snapshots:
                path = self.snapshots.path(offset)
                flush.add_written([self.files.open(path, READ_WRITE, 0)])
        except OSError as error:
            flush.release()
            self._flush_again()  # some of the indexes are written, and no fsync will cover them
            raise self.failed(error) from error
        self._rolled = [segment for segment in self._rolled if segment not in rolled]
        self.snapshots.unsynced.difference_update(snapshots)
        if self.epochs.dirty:
            flush.add_replacement(f"{self.directory}/{EPOCHS_FILE}", self.epochs.to_bytes())
            self.epochs.dirty = False
        if self.directory_changed:
            flush.add_directory(str(self.directory))
            self.directory_changed = False
        if self.directory_is_new:
            flush.add_directory(str(self.directory.parent))
            self.directory_is_new = False
        self._flush = flush
        return flush

    def end_flush(self, flush: Flush, now: int | None = None) -> None:
        """The flush has run: move the recovery point, or take the log offline if it failed."""
        self._flush = None
        flush.release()
        if flush.error is not None and not flush.may_be_run_again and not self.offline:
            _log.error("partition is offline", partition=str(self), reason=str(flush.error))
            self.fail(flush.error)
        if self.offline:
            return
        if not flush.done:
            if flush.error is not None:
                self.files.on_full(str(self), flush.error.strerror)
            self._flush_again()
            return
        self.recovery_point = max(self.recovery_point, flush.end_offset)
        self.last_flush_time = time.time_ns() // 1_000_000 if now is None else now
        self._remove_old_snapshots()

    def _flush_again(self) -> None:
        """A flush was not run to its end: what it would have covered is still to be."""
        for segment in (*self._rolled, *self.segments.starting_with(self.recovery_point)):
            segment.save_indexes_again()
        self.epochs.dirty = True
        self.directory_changed = self.directory_is_new = True

    def _remove_old_snapshots(self) -> None:
        snapshots = self.snapshots
        if len(snapshots.offsets) >= len(self.segments):
            keep = {segment.base_offset for segment in self.segments}
            try:
                snapshots.remove_all_but(keep | {snapshots.newest})
            except OSError:
                pass  # they only take space; opening the log removes them too

    # Closing ------------------------------------------------------------------------------

    def close(self) -> None:
        """Bring everything to the disk and let go of the files; raises where that fails."""
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
        """True where one flush does not cover all that is not on disk yet."""
        return len(self.segments.starting_with(self.recovery_point)) > SEGMENTS_IN_ONE_FLUSH

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
        """Capture what closing has to bring to the disk, for a broker that closes many at once.

        What one flush cannot cover must be flushed before. Flush.run() may wait in a thread;
        end_close() comes after it, also where this is None.
        """
        if self.offline:
            return None
        if self.flushing:
            raise RuntimeError(f"{self} cannot be closed while it is being flushed")
        try:
            self._cut_torn_write()
        except OSError as error:
            raise self.failed(error) from error
        self.segments.active.note_largest_timestamp()
        if self.end_offset > max(self.snapshots.newest, 0):
            self.take_snapshot(self.end_offset)
        return self.begin_flush()

    def end_close(self, flush: Flush | None) -> None:
        """Let go of the files."""
        if flush is not None:
            self.end_flush(flush)
        self.fail(RuntimeError(f"{self} was closed"))
