"""A log's producer snapshots on disk, and how producer states come back from them.

Rules kept here:
1. A snapshot is taken where a segment begins, when the log is closed, and at a flush when it is
   due: enough has been written since the last one. So few batches have to be read to bring one up
   to date, however often a broker is killed.
2. A snapshot only saves reading: where one is missing or damaged, an older one is read, and more
   batches.
3. Snapshots where a segment begins are kept with it. Of the others only the newest is kept.
"""

from bisect import bisect_right
from functools import partial

from ottla.log.producers import snapshot_format as producer_snapshot
from ottla.log.producers.snapshot_format import SUFFIX, CorruptSnapshot
from ottla.log.producers.states import ProducerStates
from ottla.log.segments.names import DELETED, stem
from ottla.log.segments.scan import CorruptLog, Scan
from ottla.log.segments.segments import LogSegments
from ottla.log.storage.files import Files

DUE_AFTER = 8 << 20
"""How much may be written between two snapshots of the producers while the log is flushed."""

WEIGHT_OF_A_BATCH = 2 << 10
"""Reading its header takes as long, however few its bytes are."""


class ProducerSnapshots:
    """The snapshot files of one log."""

    __slots__ = ("_files", "behind", "directory", "offsets", "unsynced")

    def __init__(self, files: Files, directory: str, offsets: list[int]) -> None:
        self._files = files
        self.directory = directory
        self.offsets = sorted(offsets)
        self.unsynced: set[int] = set()
        """Snapshots that no fsync covers yet."""
        self.behind = 0
        """The bytes since the newest snapshot, and the weight of each batch."""

    def path(self, offset: int) -> str:
        """The name of the snapshot at an offset."""
        return f"{self.directory}/{stem(offset)}{SUFFIX}"

    @property
    def newest(self) -> int:
        """The offset of the newest snapshot, -1 without one."""
        return self.offsets[-1] if self.offsets else -1

    @property
    def is_due(self) -> bool:
        """True if enough records follow the newest snapshot for another one."""
        return self.behind >= DUE_AFTER

    def write(self, offset: int, producers: ProducerStates, *, sync: bool) -> None:
        """Take a snapshot of the producers as they are at an offset."""
        self.behind = 0
        if offset == self.newest:
            return
        data = producer_snapshot.encode(producers.by_id.values())
        self._files.write_file(self.path(offset), data, sync=sync)
        self.offsets.insert(bisect_right(self.offsets, offset), offset)
        if not sync:
            self.unsynced.add(offset)

    def remove(self, offset: int) -> None:
        """Remove a snapshot."""
        if offset in self.offsets:
            self._files.unlink_if_exists(self.path(offset))
            self.offsets.remove(offset)
            self.unsynced.discard(offset)

    def remove_all_but(self, keep: set[int]) -> None:
        """Remove the snapshots at other offsets."""
        for offset in [offset for offset in self.offsets if offset not in keep]:
            self.remove(offset)

    def remove_after(self, offset: int) -> None:
        """Remove the snapshots of what is no longer in the log."""
        for each in [each for each in self.offsets if each > offset]:
            self.remove(each)

    def rename_as_deleted(self, offset: int) -> str | None:
        """Mark a snapshot as deleted, with its segment; returns its new name."""
        if offset not in self.offsets:
            return None
        self.offsets.remove(offset)
        self.unsynced.discard(offset)
        path = self.path(offset)
        return self._files.set_aside(path, path + DELETED)

    def restore(self, producers: ProducerStates, segments: LogSegments, end_offset: int) -> None:
        """Load the producers as they were when the log ended at an offset."""
        producers.clear()
        known = self._load_newest(producers, segments.first.base_offset, end_offset)
        self.behind = 0
        if known < end_offset:
            self._replay(segments, producers, max(known, segments.first.base_offset), end_offset)

    def _load_newest(self, producers: ProducerStates, at_least: int, at_most: int) -> int:
        """From before the log's first batch none is taken: what came in between is gone."""
        for offset in reversed(self.offsets):
            if not at_least <= offset <= at_most:
                continue
            try:
                for producer in producer_snapshot.decode(self._files.read_file(self.path(offset))):
                    producers.restore(producer)
            except (CorruptSnapshot, FileNotFoundError):
                producers.clear()
                self.remove(offset)
            else:
                return offset
        return -1

    def _replay(
        self, segments: LogSegments, producers: ProducerStates, start: int, end: int
    ) -> None:
        """Read the headers of the batches in [start, end) and apply them."""
        for segment in segments.starting_with(start):
            if segment.base_offset >= end:
                return
            found = segment.find(start)
            if found is None:
                continue
            fd = segment.file.descriptor()
            scan = Scan(self._files, fd, found.position, segment.size, found.base_offset)
            for batch in scan.headers():
                if batch.header.base_offset >= end:
                    return
                producers.replay(batch.header, partial(scan.read, batch))
                self.behind += batch.header.size + WEIGHT_OF_A_BATCH
            if scan.problem is not None:
                raise CorruptLog(
                    f"{segment.path}.log is corrupt at {scan.position}: {scan.problem}"
                )
