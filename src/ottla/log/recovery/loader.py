"""Opening a log: what its folder holds, and what an interrupted change left there.

Rules kept here:
1. After a clean stop nothing is scanned: names, sizes, the end of the last segment, the newest
   producer snapshot and the epochs are read, and nothing else.
2. Files that were being removed (`.deleted`) or made (`.cleaned`) when the process died go; a swap
   that had begun (`.swap`) is completed, as in Kafka.
3. A log always has a segment, and never ends before it starts.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ottla.log.config import LogConfig
from ottla.log.leader_epochs import FILE_NAME as EPOCHS_FILE
from ottla.log.leader_epochs import LeaderEpochFileCache
from ottla.log.producers import snapshot_format as producer_snapshot
from ottla.log.producers.snapshots import ProducerSnapshots
from ottla.log.producers.states import ProducerStates
from ottla.log.segments.names import CLEANED, DELETED, INDEX, LOG, SUFFIXES, SWAP, TIME_INDEX, stem
from ottla.log.segments.offset_index import MAX_RELATIVE
from ottla.log.segments.scan import CorruptLog, Scan
from ottla.log.segments.segment import LogSegment
from ottla.log.segments.segments import LogSegments
from ottla.log.storage.checkpoint import CorruptCheckpoint
from ottla.log.storage.file_cache import FileCache
from ottla.log.storage.files import Files


def segment_bases(names: Iterable[str]) -> list[int]:
    """The base offsets of the segments among some files, in order."""
    logs = [name for name in names if name.endswith(LOG) and _is_segment(name)]
    return sorted(_offset(name) for name in logs)


class Inventory:
    """The files of a log's folder, by what they are."""

    def __init__(self, files: Files, directory: Path) -> None:
        self.files = files
        self.directory = str(directory)
        try:
            self.names = set(files.listdir(self.directory))
        except FileNotFoundError:
            files.mkdir(self.directory)
            self.names = set()
        interrupted = any(name.endswith((DELETED, CLEANED, SWAP, ".tmp")) for name in self.names)
        if interrupted:
            self.names = _tidy(files, self.directory, self.names)
        self.bases = segment_bases(self.names)
        if interrupted:
            self.remove_orphans()

    def path(self, name: str) -> str:
        """The path of a file of the folder."""
        return f"{self.directory}/{name}"

    def segment(self, cache: FileCache, base_offset: int, now: int) -> LogSegment:
        """The segment with this base offset."""
        path = self.path(stem(base_offset) + LOG)
        size = self.files.stat(path).st_size
        return LogSegment(self.files, cache.file(path), base_offset, size=size, now=now)

    def lacks_an_index(self, base_offset: int) -> bool:
        """True if a segment has no offset or time index."""
        name = stem(base_offset)
        return name + INDEX not in self.names or name + TIME_INDEX not in self.names

    def check_end(self, end_offset: int, recovery_point: int) -> None:
        """Raise CorruptLog if the log ends before what is known to have been on disk."""
        if end_offset < recovery_point:
            raise CorruptLog(
                f"{self.directory} ends at offset {end_offset}, before its recovery point "
                f"{recovery_point}"
            )

    def snapshots(self) -> ProducerSnapshots:
        """The producer snapshots."""
        suffix = producer_snapshot.SUFFIX
        offsets = [
            int(name[: -len(suffix)])
            for name in self.names
            if name.endswith(suffix) and _is_segment(name)
        ]
        return ProducerSnapshots(self.files, self.directory, offsets)

    def epochs(self) -> LeaderEpochFileCache:
        """The leader epochs."""
        if EPOCHS_FILE not in self.names:
            return LeaderEpochFileCache()
        path = self.path(EPOCHS_FILE)
        try:
            return LeaderEpochFileCache.from_bytes(self.files.read_file(path))
        except CorruptCheckpoint as problem:
            raise CorruptLog(f"{path} is corrupt: {problem}") from None

    def remove_orphans(self) -> None:
        """Remove indexes whose log file is gone."""
        bases = set(self.bases)
        for name in list(self.names):
            if name.endswith(SUFFIXES) and _is_segment(name) and _offset(name) not in bases:
                self.files.unlink_if_exists(self.path(name))
                self.names.discard(name)


def end_of(files: Files, segment: LogSegment) -> int:
    """The offset after the last batch of a segment."""
    if segment.size == 0:
        return segment.base_offset
    position = segment.start_of_search(MAX_RELATIVE)
    scan = Scan(files, segment.file.descriptor(), position, segment.size, segment.base_offset)
    for _ in scan.headers():
        pass
    if scan.problem is not None:
        raise CorruptLog(f"{segment.path}{LOG} is corrupt at {scan.position}: {scan.problem}")
    return scan.next_offset


class LoadedLog(NamedTuple):
    """What a log's folder holds."""

    segments: LogSegments
    snapshots: ProducerSnapshots
    producers: ProducerStates
    epochs: LeaderEpochFileCache
    end_offset: int


def load_nothing(files: Files, directory: Path, start_offset: int) -> LoadedLog:
    """What a folder without a segment holds."""
    snapshots = ProducerSnapshots(files, str(directory), [])
    return LoadedLog(
        LogSegments(), snapshots, ProducerStates(), LeaderEpochFileCache(), start_offset
    )


def load_clean(
    inventory: Inventory, config: LogConfig, cache: FileCache, start_offset: int, now: int
) -> LoadedLog:
    """Read what a clean stop left in a folder that holds at least one segment."""
    segments = LogSegments()
    with closing_after_failure(segments):
        return _load_clean(inventory, config, cache, segments, start_offset, now)


def _load_clean(
    inventory: Inventory,
    config: LogConfig,
    cache: FileCache,
    segments: LogSegments,
    start_offset: int,
    now: int,
) -> LoadedLog:
    files = inventory.files
    for base_offset in inventory.bases:
        segment = inventory.segment(cache, base_offset, now)
        segments.add(segment)
        if inventory.lacks_an_index(base_offset):
            rebuild_indexes(files, segment, config.index_interval_bytes)
        segment.mark_as_sealed()
    segments.active.unseal()
    end_offset = end_of(files, segments.active)
    snapshots = inventory.snapshots()
    producers = ProducerStates()
    snapshots.restore(producers, segments, end_offset)
    producers.seen(now)
    epochs = inventory.epochs()
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(max(start_offset, segments.first.base_offset))
    return LoadedLog(segments, snapshots, producers, epochs, end_offset)


@contextmanager
def closing_after_failure(segments: LogSegments) -> Iterator[None]:
    """Close the files of a log that could not be opened: opening may be retried for hours."""
    try:
        yield
    except BaseException:
        for segment in segments:
            segment.file.retire()
        raise


def rebuild_indexes(files: Files, segment: LogSegment, interval: int) -> None:
    """Rebuild the offset and time indexes of a segment from its batches."""
    size = segment.size
    segment.begin_new_indexes()
    scan = Scan(files, segment.file.descriptor(), 0, size, segment.base_offset)
    for batch in scan.headers():
        segment.note(batch.header, interval)
    if scan.problem is not None:
        raise CorruptLog(f"{segment.path}{LOG} is corrupt at {scan.position}: {scan.problem}")
    segment.note_largest_timestamp()
    for fd in segment.indexes.save():
        files.close(fd)


def _is_segment(name: str) -> bool:
    digits = name.partition(".")[0]
    return len(digits) == 20 and digits.isascii() and digits.isdecimal()


def _tidy(files: Files, directory: str, names: set[str]) -> set[str]:
    """Finish or undo what was interrupted; returns the names that are left."""

    def remove(name: str) -> None:
        files.unlink_if_exists(f"{directory}/{name}")
        left.discard(name)

    left = set(names)
    cleaned = [name for name in names if name.endswith(CLEANED)]
    # A swap file of a split that was not finished: the files it came from are still there.
    first_cleaned = min((_offset(name) for name in cleaned), default=1 << 63)
    for name in names:
        if name.endswith((DELETED, CLEANED, ".tmp")) or (
            name.endswith(SWAP) and _offset(name) >= first_cleaned
        ):
            remove(name)
    swapped = [name for name in left if name.endswith(SWAP)]
    logs = [name for name in swapped if name.endswith(LOG + SWAP)]
    if logs:
        first = min(_offset(name) for name in logs)
        end = max(_swap_end(files, directory, name) for name in logs)
        for name in [name for name in left if not name.endswith(SWAP) and _is_segment(name)]:
            # A snapshot belongs to an offset, not to the bytes before it.
            if name.endswith(SUFFIXES) and first <= _offset(name) < end:
                remove(name)
    for name in swapped:
        target = name.removesuffix(SWAP)
        files.rename(f"{directory}/{name}", f"{directory}/{target}")
        left.discard(name)
        left.add(target)
    return left


def _offset(name: str) -> int:
    return int(name.partition(".")[0]) if _is_segment(name) else -1


def _swap_end(files: Files, directory: str, name: str) -> int:
    path = f"{directory}/{name}"
    cache = FileCache(1, files)
    file = cache.file(path)
    try:
        base = _offset(name)
        scan = Scan(files, file.descriptor(), 0, files.stat(path).st_size, base)
        for _ in scan.headers():
            pass
        return max(scan.next_offset, base + 1)
    finally:
        file.retire()
