"""Opening a log after a crash: scan what no fsync is known to cover, and nothing else.

Rules kept here:
1. Below the recovery point nothing is scanned and nothing is truncated: a batch that is corrupt or
   missing there means lost data, and raises CorruptLog.
2. At or above it every batch is read and its CRC checked. At the first one that is incomplete or
   invalid (a torn tail) the log is truncated, and the bytes are counted. So what is left is always
   a prefix of what was written. The last segments go first, so that this holds wherever a recovery
   is killed itself.
3. Indexes, aborted transactions, leader epochs and producers past the recovery point are rebuilt
   from the batches, as if these had just been appended.

A long scan runs in a child process (child.py).
"""

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.producers.states import ProducerStates
from ottla.log.recovery.loader import (
    Inventory,
    LoadedLog,
    closing_after_failure,
    rebuild_indexes,
    segment_bases,
)
from ottla.log.segments.names import INDEX, LOG, SUFFIXES, stem
from ottla.log.segments.offset_index import OffsetIndex
from ottla.log.segments.scan import CorruptLog, Scan
from ottla.log.segments.segments import LogSegments
from ottla.log.storage.file_cache import FileCache
from ottla.log.storage.files import Files
from ottla.wire.batch import BatchHeader


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery found."""

    end_offset: int
    recovery_point: int
    start_offset: int
    scanned_bytes: int
    truncated_bytes: int
    problem: str | None
    """What was wrong where the log was truncated."""


def recover(
    directory: Path,
    config: LogConfig,
    *,
    files: Files,
    cache: FileCache,
    recovery_point: int,
    start_offset: int,
    now: int,
) -> tuple[Log, Recovered]:
    """Open a log that was not closed. Raises CorruptLog, and OSError."""
    inventory = Inventory(files, directory)
    inventory.remove_orphans()
    if not inventory.bases:
        inventory.check_end(start_offset, recovery_point)
        log = Log.begin(
            directory, config, files=files, cache=cache, start_offset=start_offset, now=now
        )
        return log, Recovered(start_offset, start_offset, start_offset, 0, 0, None)
    return _Recovery(inventory, directory, config, cache, recovery_point, start_offset, now).run()


def needs_recovery_bytes(directory: Path, recovery_point: int, files: Files) -> int:
    """How many bytes a recovery of a log would have to scan; 0 if none is needed."""
    try:
        bases = segment_bases(files.listdir(str(directory)))
    except FileNotFoundError:
        bases = []
    total = 0
    for base_offset in reversed(bases):
        path = f"{directory}/{stem(base_offset)}"
        size = files.stat(path + LOG).st_size
        total += size
        if base_offset <= recovery_point:
            try:
                index = OffsetIndex.from_bytes(files.read_file(path + INDEX), size)
            except FileNotFoundError:
                break
            total -= index.position(max(0, recovery_point - 1 - base_offset))
            break
    if total == 0 and (recovery_point > (bases[-1] if bases else 0) or len(bases) > 1):
        # Something should be there, and the recovery says what is missing; or the segment before an
        # empty one was sealed since the last flush, and its time index lacks the last entry.
        return 1
    return total


class _Recovery:
    """One recovery: the log as it was at the recovery point, then batch by batch what follows."""

    def __init__(
        self,
        inventory: Inventory,
        directory: Path,
        config: LogConfig,
        cache: FileCache,
        recovery_point: int,
        start_offset: int,
        now: int,
    ) -> None:
        self._inventory = inventory
        self._files = inventory.files
        self._cache = cache
        self._now = now
        self._config = config
        self._directory = directory
        self._start_offset = start_offset
        self._recovery_point = recovery_point
        self._scanned = 0
        self._truncated = 0
        self._problem: str | None = None
        self._has_gaps = "compact" in config.cleanup_policy
        """True if offsets may be missing: the log is compacted, or was once, or was copied from
        one that was."""

    def run(self) -> tuple[Log, Recovered]:
        """Recover."""
        segments = LogSegments()
        with closing_after_failure(segments):
            return self._run(segments)

    def _run(self, segments: LogSegments) -> tuple[Log, Recovered]:
        bases = self._inventory.bases
        at = max(0, bisect_right(bases, self._recovery_point) - 1)
        for base_offset in bases[: at + 1]:
            segment = self._inventory.segment(self._cache, base_offset, self._now)
            segments.add(segment)
            if base_offset != bases[at] and self._inventory.lacks_an_index(base_offset):
                rebuild_indexes(self._files, segment, self._config.index_interval_bytes)
            segment.mark_as_sealed()
        segments.active.unseal()
        rest = segments.active.size
        log = self._log_at_recovery_point(segments, is_last=at + 1 == len(bases))
        if at > 0 and bases[at] == self._recovery_point:
            # The last flush came right before the roll, so it did not cover what sealing added.
            log.local.complete_sealed(segments.floor(bases[at] - 1))
        self._replay(log, rest)
        to_be_removed: list[int] = []
        for base_offset in bases[at + 1 :]:
            if self._problem is None and not self._may_follow(log.end_offset, base_offset):
                self._problem = f"segment {base_offset} does not follow offset {log.end_offset}"
            if self._problem is None:
                self._replay_segment(log, base_offset)
            else:
                to_be_removed.append(base_offset)
        for base_offset in reversed(to_be_removed):
            self._remove_segment(log, base_offset)
        if self._problem is not None:
            active = log.segments.active
            self._files.ftruncate(active.file.descriptor(), active.size)
        log.local.recovery_point = min(self._recovery_point, log.end_offset)
        log.local.directory_changed = True
        log.producers.seen(self._now)
        log.epochs.truncate_from_start(log.start_offset)
        log.truncation.restart_if_end_is_below_start(self._now)
        return log, Recovered(
            log.end_offset,
            log.recovery_point,
            log.start_offset,
            self._scanned,
            self._truncated,
            self._problem,
        )

    def _may_follow(self, end_offset: int, base_offset: int) -> bool:
        """False if batches are missing between two segments: the first one lost its end.

        Compaction removes batches anywhere, so in a compacted log gaps prove nothing.
        """
        if self._has_gaps:
            return base_offset >= end_offset
        return base_offset == end_offset

    def _log_at_recovery_point(self, segments: LogSegments, *, is_last: bool) -> Log:
        """The log as if it ended at the recovery point; what is past it is still in the file."""
        recovery_point = self._recovery_point
        segment = segments.active
        position = segment.start_of_search(recovery_point - 1 - segment.base_offset)
        segment.indexes.truncate(recovery_point, segment.size)
        fd = segment.file.descriptor()
        scan = Scan(self._files, fd, position, segment.size, segment.base_offset)
        for batch in scan.batches():
            if batch.header.base_offset >= recovery_point:
                break
            self._look_for_gaps(batch.header, scan.next_offset if scan.position > position else -1)
        end_offset = scan.next_offset
        is_short = scan.problem is not None or (is_last and scan.position == segment.size)
        # Records below the log start offset cannot be read, so none can be lost.
        if is_short and max(end_offset, self._start_offset) < recovery_point:
            raise CorruptLog(
                f"{segment.path}{LOG} is corrupt at {scan.position}, before its recovery point "
                f"{recovery_point}: {scan.problem or 'the file ends'} at offset {end_offset}"
            )
        self._scanned += scan.position - position
        segment.shrink(scan.position)
        snapshots = self._inventory.snapshots()
        snapshots.remove_after(end_offset)
        epochs = self._inventory.epochs()
        epochs.truncate_from_end(end_offset)
        producers = ProducerStates()
        snapshots.restore(producers, segments, end_offset)
        return Log(
            self._directory,
            self._config,
            files=self._files,
            cache=self._cache,
            loaded=LoadedLog(segments, snapshots, producers, epochs, end_offset),
            start_offset=max(self._start_offset, segments.first.base_offset),
            recovery_point=recovery_point,
            now=self._now,
        )

    def _look_for_gaps(self, header: BatchHeader, expected: int) -> None:
        """Note gaps: records of a batch, or offsets before it, are missing."""
        if (
            header.record_count != header.last_offset_delta + 1
            or -1 < expected < header.base_offset
        ):
            self._has_gaps = True

    def _replay(self, log: Log, size: int) -> None:
        """Append, in memory, what the active segment's file holds past its counted size."""
        segment = log.segments.active
        position = segment.size
        fd = segment.file.descriptor()
        scan = Scan(self._files, fd, position, size, log.end_offset)
        for batch in scan.batches():
            if not segment.can_hold(batch.header.last_offset):
                scan.problem = (
                    f"offset {batch.header.last_offset} is too far from the segment's base"
                )
                break
            self._look_for_gaps(batch.header, log.end_offset)
            log.appender.note_batch(segment, batch.header, batch.batch, None)
        self._scanned += scan.position - position
        if scan.problem is not None:
            self._problem = f"{scan.problem} at offset {log.end_offset}"
            self._truncated += size - segment.size

    def _replay_segment(self, log: Log, base_offset: int) -> None:
        log.segments.active.seal()
        segment = self._inventory.segment(self._cache, base_offset, self._now)
        size = segment.size
        segment.indexes.truncate(base_offset, segment.size)
        segment.shrink(0)
        log.appender.begin_recovered_segment(segment)
        self._replay(log, size)

    def _remove_segment(self, log: Log, base_offset: int) -> None:
        path = self._inventory.path(stem(base_offset))
        self._truncated += self._files.stat(path + LOG).st_size
        for suffix in SUFFIXES:
            self._files.unlink_if_exists(path + suffix)
        log.snapshots.remove(base_offset)
