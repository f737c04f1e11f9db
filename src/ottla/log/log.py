"""One partition's log: the contract the broker works against (Kafka's UnifiedLog).

Rules kept here:
1. Offsets only grow. A batch gets the next offset, or is refused and leaves no trace.
2. Records never change. Only truncation (a follower that diverged from its leader) removes any from
   the end; retention, compaction and DeleteRecords remove from the start or between.
3. A reader gets batches from the one that holds its offset on, none that reaches the limit it is
   given, and its file stays open until it is done, whatever happens to the segment.
4. Nothing here waits for the disk except opening, closing and truncating: begin_flush() captures,
   Flush.run() waits (in a thread), end_flush() moves the recovery point.
5. One thread calls a log's methods.

What a log is made of, each part knowing only those named before it:

| part | what it does |
|---|---|
| `local` | LocalLog: segments, offsets, files; write, roll, fail |
| `epochs`, `producer_states` | leader epochs; producers and their snapshots |
| `appender`, `reader` | append and read |
| `truncation`, `retention` | remove from the end; remove from the start |
| `flusher` | flush and close |

append() and read() are those of the parts, not methods that call them: they are the hot path.
"""

from pathlib import Path

from ottla.log import deletion, timestamp_lookup
from ottla.log.appended import Appended
from ottla.log.appender import Append, LogAppender
from ottla.log.compaction import swap as compaction_swap
from ottla.log.config import LogConfig
from ottla.log.flush import Flush
from ottla.log.flusher import LogFlusher
from ottla.log.follower_append import append_as_follower
from ottla.log.local_log import LocalLog
from ottla.log.producers.manager import ProducerStateManager
from ottla.log.reader import LogReader, Read
from ottla.log.recovery.loader import (
    Inventory,
    LoadedLog,
    closing_after_failure,
    load_clean,
    load_nothing,
)
from ottla.log.retention import Retention
from ottla.log.segments.segment import LogSegment
from ottla.log.storage.file_cache import FileCache, Slice
from ottla.log.storage.files import Files
from ottla.log.storage.folder import deleted_name, stray_name
from ottla.log.timestamp_lookup import TimestampAndOffset
from ottla.log.truncation import Truncation
from ottla.wire.errors import KafkaError

EXPIRY_EVERY_MS = 600_000
"""How often maintain() looks for expired producers."""


class Log:
    """One partition's log. Log.open() makes one."""

    __slots__ = (
        "_next_expiry",
        "append",
        "appender",
        "epochs",
        "files",
        "flusher",
        "local",
        "partition",
        "producer_states",
        "producers",
        "read",
        "reader",
        "retention",
        "segments",
        "snapshots",
        "topic",
        "truncation",
    )

    append: Append
    """Append the one batch of a produce request: LogAppender.append()."""
    read: Read
    """The batches from an offset on: LogReader.read()."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        *,
        files: Files,
        cache: FileCache,
        loaded: LoadedLog,
        start_offset: int,
        recovery_point: int,
        now: int,
    ) -> None:
        self.local = local = LocalLog(
            directory,
            config,
            files=files,
            cache=cache,
            segments=loaded.segments,
            start_offset=start_offset,
            end_offset=loaded.end_offset,
            recovery_point=recovery_point,
        )
        self.epochs = epochs = loaded.epochs
        self.producer_states = states = ProducerStateManager(
            local, loaded.producers, loaded.snapshots
        )
        self.appender = LogAppender(local, epochs, states)
        self.reader = LogReader(local)
        self.truncation = Truncation(local, epochs, states)
        self.retention = Retention(local, self.appender, epochs, loaded.snapshots)
        self.flusher = LogFlusher(local, epochs, states, now)
        self.append = self.appender.append
        self.read = self.reader.read
        self.topic = local.topic
        self.partition = local.partition
        self.files = files
        self.segments = loaded.segments
        self.producers = loaded.producers
        self.snapshots = loaded.snapshots
        self._next_expiry = now

    def __repr__(self) -> str:
        return repr(self.local)

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        files: Files,
        cache: FileCache,
        recovery_point: int,
        start_offset: int,
        clean: bool,
        now: int,
    ) -> "Log":
        """Open the log in a folder, or begin one there.

        After a clean stop only names, sizes and the last segment's end are read. Otherwise
        what lies past the recovery point is scanned first. Raises CorruptLog if what should be
        on disk is not, and OSError.
        """
        if not clean:
            from ottla.log.recovery.recovery import recover

            return recover(
                directory,
                config,
                files=files,
                cache=cache,
                recovery_point=recovery_point,
                start_offset=start_offset,
                now=now,
            )[0]
        inventory = Inventory(files, directory)
        if not inventory.bases:
            inventory.check_end(start_offset, recovery_point)
            return cls.begin(
                directory, config, files=files, cache=cache, start_offset=start_offset, now=now
            )
        loaded = load_clean(inventory, config, cache, start_offset, now)
        with closing_after_failure(loaded.segments):
            inventory.check_end(max(loaded.end_offset, start_offset), recovery_point)
            log = cls(
                directory,
                config,
                files=files,
                cache=cache,
                loaded=loaded,
                start_offset=max(start_offset, loaded.segments.first.base_offset),
                recovery_point=loaded.end_offset,
                now=now,
            )
            log.truncation.restart_if_end_is_below_start(now)
        return log

    @classmethod
    def begin(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        files: Files,
        cache: FileCache,
        start_offset: int,
        now: int,
    ) -> "Log":
        """Make an empty log in a folder that holds no segment."""
        log = cls(
            directory,
            config,
            files=files,
            cache=cache,
            loaded=load_nothing(files, directory, start_offset),
            start_offset=start_offset,
            recovery_point=start_offset,
            now=now,
        )
        log.truncation.restart_at(start_offset, now)
        log.local.directory_is_new = True
        return log

    # State --------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """The log start offset."""
        return self.local.start_offset

    @property
    def end_offset(self) -> int:
        """The log end offset: what the next record gets."""
        return self.local.end_offset

    @property
    def recovery_point(self) -> int:
        """The offset up to which the log is known to be on disk."""
        return self.local.recovery_point

    @property
    def high_watermark(self) -> int | None:
        """What all in-sync replicas have; None without followers: all that is in the log."""
        return self.local.high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int | None) -> None:
        self.local.high_watermark = offset

    @property
    def last_stable_offset(self) -> int:
        """What read_committed readers may read up to: no transaction below it is undecided."""
        local, producers = self.local, self.producers
        stable = local.end_offset if local.high_watermark is None else local.high_watermark
        if producers.ongoing or producers.completed:
            stable = producers.last_stable_offset(stable)
        start_offset = local.start_offset
        return max(start_offset, stable)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self.local.size

    @property
    def offline(self) -> bool:
        """True if the disk failed, or the log was closed or deleted."""
        return self.local.offline

    @property
    def failure(self) -> BaseException | None:
        """Why the log is offline."""
        return self.local.failure

    @property
    def directory(self) -> Path:
        """The log's folder."""
        return self.local.directory

    @property
    def directory_is_new(self) -> bool:
        """True if the folder itself was made since the last flush."""
        return self.local.directory_is_new

    @directory_is_new.setter
    def directory_is_new(self, is_new: bool) -> None:
        self.local.directory_is_new = is_new

    @property
    def truncations(self) -> int:
        """How often records were removed from the end."""
        return self.local.truncations

    @property
    def config(self) -> LogConfig:
        """The log's settings."""
        return self.local.config

    @property
    def largest_batch(self) -> int:
        """The largest batch that may be appended."""
        return self.appender.largest_batch

    def set_config(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self.local.set_config(config)
        self.appender.set_config(config)

    def move_to(self, cache: FileCache) -> None:
        """Open the files in another cache from now on."""
        self.local.move_to(cache)

    def fail(self, error: BaseException) -> None:
        """Take the log offline: from now on every use of it is KAFKA_STORAGE_ERROR."""
        self.local.fail(error)

    def failed(self, error: BaseException) -> KafkaError:
        """What to raise when the disk failed; takes the log offline unless it was only full."""
        return self.local.failed(error)

    # Appending ----------------------------------------------------------------------------

    def append_marker(
        self, batch: memoryview, *, now: int, leader_epoch: int, transaction_version: int = 0
    ) -> Appended:
        """Append the control batch that ends a producer's transaction here."""
        return self.appender.append_marker(
            batch, now=now, leader_epoch=leader_epoch, transaction_version=transaction_version
        )

    def append_as_follower(
        self, batches: memoryview, now: int | None = None, *, leader_epoch: int | None = None
    ) -> bool:
        """Append a leader's batches byte for byte, with its offsets and epochs.

        False if some were of a newer epoch than the leader's: those are left out.
        """
        return append_as_follower(
            self.local, self.appender, self.truncation, batches, now, leader_epoch
        )

    def roll(self, now: int | None = None) -> None:
        """Begin a new segment, unless the active one is empty."""
        self.appender.roll(self.local.end_offset, now)

    # Reading ------------------------------------------------------------------------------

    def offset_for_timestamp(
        self, timestamp: int, limit: int, *, may_wait: bool = True
    ) -> TimestampAndOffset | None:
        """The first record at or after a timestamp, if its offset is below a limit.

        Raises ColdReadError if the disk would have to be read and `may_wait` is False.
        """
        return timestamp_lookup.offset_for_timestamp(
            self.local, timestamp, limit, may_wait=may_wait
        )

    def max_timestamp_offset(
        self, limit: int, *, may_wait: bool = True
    ) -> TimestampAndOffset | None:
        """The first record with the largest timestamp of the log, if it is below a limit.

        Raises ColdReadError as offset_for_timestamp() does.
        """
        return timestamp_lookup.max_timestamp_offset(self.local, limit, may_wait=may_wait)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """Producer id and first offset of each aborted transaction with records in [start, end)."""
        return self.reader.aborted_transactions(start, end)

    def end_of(self, offset: int, read: Slice) -> int:
        """The offset after the last whole batch of what read() gave for an offset."""
        return self.reader.end_of(offset, read)

    def aborted_in(self, offset: int, read: Slice, limit: int) -> list[tuple[int, int]]:
        """The aborted transactions for what read() gave for an offset and a limit."""
        return self.reader.aborted_in(offset, read, limit)

    # Truncating ---------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Remove the batches that reach past an offset; returns whether there were any.

        The caller first lowers the recovery point checkpoint to end_if_truncated_to(offset): a log
        that ends before its recovery point counts as damaged.
        """
        return self.truncation.truncate_to(offset)

    def end_if_truncated_to(self, offset: int) -> int:
        """Where truncate_to(offset) would make the log end."""
        return self.truncation.end_if_truncated_to(offset)

    def truncate_fully_and_start_at(self, offset: int, start_offset: int | None = None) -> None:
        """Remove everything; the next batch gets this offset or a later one.

        The caller first lowers the recovery point checkpoint to 0.
        """
        self.truncation.truncate_fully_and_start_at(offset, start_offset)

    def lower_recovery_point(self, offset: int) -> None:
        """Records from an offset on are about to go: no checkpoint may cover them from now on."""
        self.local.lower_recovery_point(offset)

    # Deleting -----------------------------------------------------------------------------

    def raise_start_offset(self, offset: int) -> None:
        """DeleteRecords: records below this offset can no longer be read."""
        self.retention.raise_start_offset(offset)

    def maintain(self, now: int) -> bool:
        """Roll, retain and expire as the configuration says; True if the log changed."""
        if self.local.offline:
            return False
        if not now < self._next_expiry <= now + EXPIRY_EVERY_MS:  # later: the clock was set back
            self._next_expiry = now + EXPIRY_EVERY_MS
            self.producers.expire(now, self.config.producer_id_expiration_ms)
        return self.retention.maintain(now)

    def replace_segments(self, old: list[LogSegment], now: int) -> None:
        """Replace neighbouring sealed segments by the `.cleaned` files of a compaction."""
        compaction_swap.replace_segments(self.local, self.snapshots, old, now)

    @property
    def doomed(self) -> list[tuple[str, int]]:
        """Deleted segments' files that are still to be removed, and when."""
        return self.local.doomed

    @doomed.setter
    def doomed(self, doomed: list[tuple[str, int]]) -> None:
        self.local.doomed = doomed

    def remove_doomed(self, now: int) -> int | None:
        """Remove the deleted files that are due; returns when the next one is."""
        return deletion.remove_doomed(self.local, now)

    def delete(self, *, keep: bool = False) -> Path:
        """Rename the log's folder so that it no longer counts as a log; returns the new name.

        Its files are removed later, or with `keep` never: then it is stray. Readers are not
        disturbed. Where this raises OSError the log is closed too, and the folder is unchanged.
        """
        local = self.local
        name = (stray_name if keep else deleted_name)(self.topic, self.partition)
        target = local.directory.with_name(name)
        if local.flush is not None:
            local.flush.abandon()
        local.fail(FileNotFoundError(f"{self} was deleted"))
        self.files.rename(str(local.directory), str(target))
        local.directory = target
        return target

    # Flushing and closing -----------------------------------------------------------------

    @property
    def unflushed_messages(self) -> int:
        """How many offsets no fsync covers yet."""
        return self.flusher.unflushed_messages

    @property
    def flush_is_due(self) -> bool:
        """True if `flush.messages` is reached."""
        return self.flusher.flush_is_due

    @property
    def unflushed_bytes(self) -> int:
        """About how many bytes no fsync covers yet: what a scan after a crash would read."""
        return self.flusher.unflushed_bytes

    @property
    def last_flush_time(self) -> int:
        """When the log was last flushed, or opened."""
        return self.flusher.last_flush_time

    @property
    def flushing(self) -> bool:
        """True between begin_flush() and end_flush()."""
        return self.flusher.flushing

    @property
    def needs_several_flushes(self) -> bool:
        """True if one flush does not cover all that is not on disk yet."""
        return self.flusher.needs_several_flushes

    def begin_flush(self) -> Flush | None:
        """Capture what a flush has to cover; None if there is nothing, or one is under way.

        Raises KAFKA_STORAGE_ERROR if a full disk does not take the indexes.
        """
        return self.flusher.begin_flush()

    def end_flush(self, flush: Flush, now: int | None = None) -> None:
        """The flush has run: move the recovery point, or take the log offline if it failed."""
        self.flusher.end_flush(flush, now)

    def begin_close(self) -> Flush | None:
        """Capture what closing has to flush, for a broker that closes many logs at once.

        What one flush cannot cover must be flushed before. Flush.run() may wait in a thread;
        end_close() comes after it, also where this is None.
        """
        return self.flusher.begin_close()

    def end_close(self, flush: Flush | None) -> None:
        """Close the files."""
        self.flusher.end_close(flush)

    def close(self) -> None:
        """Flush everything and close the files; raises if that fails."""
        self.flusher.close()
