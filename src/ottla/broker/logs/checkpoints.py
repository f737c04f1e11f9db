"""The data folder's checkpoint files: how far each log is on disk, where it starts, what was seen.

Rules kept here:
1. A partition that is not open (its log is being recovered, or its disk failed) keeps the offsets
   it had. Its recovery point says what is lost data and what a torn tail: forgetting it would turn
   one into the other.
2. Offsets belong to a topic, not to its name: before a partition is made, those of an older one of
   its name are out of the files. A kill before that is found out at the next start: until the files
   have forgotten a deleted partition, the folder that it was renamed to stays (see `log_manager`).
3. One file is written at a time, and a write that has begun ends before the next one begins.
4. A file whose content has not changed is not written, unless its last write failed: that may have
   been after the file was replaced.
5. Up to where a log is clean, as the cleaner says it, counts as long as the log is not truncated.
   No file says so of what is about to be truncated.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.broker.logs.full_disk import FullDisk
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.scheduling.turns import in_turns
from ottla.log.storage.files import DISK_IS_FULL
from ottla.log.storage.folder import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    DataFolder,
)
from ottla.metadata.image import Image

Key = tuple[str, int]
"""A partition by its topic's name and its index."""
Offsets = dict[Key, int]


class _Clean(NamedTuple):
    """Up to where a log is clean, as long as it has not been truncated."""

    first_dirty: int
    truncations: int


class OffsetCheckpoints:
    """The checkpoint files of one broker."""

    def __init__(
        self,
        broker_id: int,
        image: Image,
        partitions: Partitions,
        folder: DataFolder,
        full_disk: FullDisk,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._partitions = partitions
        self._folder = folder
        self._full_disk = full_disk
        self._kept: dict[str, Callable[[Partition], int]] = {
            RECOVERY_POINTS: lambda partition: partition.log.recovery_point,
            HIGH_WATERMARKS: lambda partition: partition.high_watermark,
            START_OFFSETS: lambda partition: partition.log.start_offset,
            CLEANER_OFFSETS: self._clean_and_on_disk,
        }
        self._written: dict[str, Offsets] = {name: {} for name in self._kept}
        self._uncertain: dict[str, set[Key]] = {}
        """What else a file may have something on, where its last write failed."""
        self._clean: dict[Partition, _Clean] = {}
        self._writing = asyncio.Lock()
        self._leaving: set[Key] = set()

    def load(self) -> None:
        """Read what the broker left when it last ran."""
        for name in self._kept:
            self._written[name] = self._folder.read_checkpoint(name)

    def recovery_point(self, key: Key) -> int:
        """Below this offset a log that is not open yet is known to be on disk."""
        return self._written[RECOVERY_POINTS].get(key, 0)

    def start_offset(self, key: Key) -> int:
        """Where a log that is not open yet starts."""
        return self._written[START_OFFSETS].get(key, 0)

    def high_watermark(self, key: Key) -> int:
        """Below this offset the records of a log that is not open yet were known as committed."""
        return self._written[HIGH_WATERMARKS].get(key, 0)

    def opened(self, partition: Partition) -> None:
        """A log was opened: what was noted of its cleaning counts if it has that part."""
        noted = self._written[CLEANER_OFFSETS].get((partition.topic, partition.index), 0)
        if partition.log.start_offset < noted <= partition.log.end_offset:
            self.note_clean(partition, noted)

    def note_clean(self, partition: Partition, first_dirty: int) -> None:
        """A log is clean up to an offset."""
        self._clean[partition] = _Clean(first_dirty, partition.log.truncations)

    def forget_clean(self, partition: Partition) -> None:
        """A partition is being deleted."""
        self._clean.pop(partition, None)

    def first_dirty(self, partition: Partition) -> int | None:
        """Where the part of a log that is not clean begins; None where it was never clean."""
        clean = self._clean.get(partition)
        if clean is None or clean.truncations != partition.log.truncations:
            return None
        return clean.first_dirty

    def _clean_and_on_disk(self, partition: Partition) -> int:
        return min(self.first_dirty(partition) or 0, partition.log.recovery_point)

    def known(self) -> set[Key]:
        """The partitions that a file has something on."""
        return set().union(*self._written.values(), *self._uncertain.values())

    def knows(self, key: Key) -> bool:
        """True where a file has something on a partition."""
        return any(self._may_have(name, key) for name in self._kept)

    def _may_have(self, name: str, key: Key) -> bool:
        return key in self._written[name] or key in self._uncertain.get(name, ())

    async def write(self) -> None:
        """Write the files whose content has changed; raises OSError."""
        for name in self._kept:
            await self._write(name)

    async def write_start_offsets(self) -> None:
        """Make raised start offsets survive a restart; raises OSError."""
        await self._write(START_OFFSETS)

    async def write_high_watermarks(self) -> None:
        """Remember what is known as committed; raises OSError."""
        await self._write(HIGH_WATERMARKS)

    async def write_recovery_points(self) -> None:
        """Lower what the checkpoint promises to what is there, before a log is truncated; raises
        OSError."""
        await self._write(RECOVERY_POINTS)
        await self._write(CLEANER_OFFSETS)

    async def write_cleaner_offsets(self) -> None:
        """Remember where the dirty part of each log begins; raises OSError."""
        await self._write(CLEANER_OFFSETS)

    async def forget(self, keys: Iterable[Key]) -> None:
        """Know nothing of these partitions, which are not open; raises OSError."""
        gone = set(keys)
        for name in self._kept:
            async with self._writing:  # what is being written now may have them
                if any(self._may_have(name, key) for key in gone):
                    await self._write_now(name, gone)

    async def forget_deleted(self, key: Key) -> None:
        """Know nothing of a partition that was deleted, or moved away; raises OSError.

        Where this broker has one of its name again, opening that one has removed it. Of
        thousands that go at once, a write takes all that wait for it.
        """
        self._leaving.add(key)
        try:
            for name in self._kept:
                async with self._writing:
                    if self._may_have(name, key) and not self._is_here(key):
                        gone = [each for each in self._leaving if not self._is_here(each)]
                        await self._write_now(name, gone)
        finally:
            self._leaving.discard(key)

    def _is_here(self, key: Key) -> bool:
        topic, index = key
        found = self._image.topics.get(topic)
        if found is None or index >= len(found.assignment):
            return False
        return self._broker_id in found.assignment[index]

    async def _write(self, name: str) -> None:
        async with self._writing:
            await self._write_now(name)

    async def _write_now(self, name: str, gone: Iterable[Key] = ()) -> None:
        """The caller makes sure that nothing else writes."""
        offsets = await self._offsets(name)
        for key in gone:
            offsets.pop(key, None)
        if offsets == self._written[name] and name not in self._uncertain:
            return
        self._uncertain.setdefault(name, set()).update(offsets)
        writing = asyncio.get_running_loop().run_in_executor(None, self._write_file, name, offsets)
        try:
            was_full = await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait((writing,))  # rule 3, also when no caller is left
            raise
        self._written[name] = offsets
        del self._uncertain[name]
        if was_full:
            self._full_disk.refused(name, os.strerror(errno.ENOSPC))

    def _write_file(self, name: str, offsets: Offsets) -> bool:
        """Says whether it took the reserve; runs in a thread.

        That is for start offsets: a caller waits for them to be written. The others only save work.
        """
        try:
            self._folder.write_checkpoint(name, offsets)
        except OSError as problem:
            is_full = name == START_OFFSETS and problem.errno in DISK_IS_FULL
            if not is_full or not self._full_disk.give_up_reserve():
                raise
            self._folder.write_checkpoint(name, offsets)
            return True
        return False

    async def _offsets(self, name: str) -> Offsets:
        offset_of = self._kept[name]
        seen = [(each, offset_of(each)) async for each in in_turns(self._partitions)]
        offsets = {
            (partition.topic, partition.index): offset
            for partition, offset in seen
            if offset > 0 and not partition.deleted
        }
        before = self._written[name]
        for key in before.keys() - offsets.keys():
            if key in self._image.partitions:
                partition = self._partitions.get(*key)
                # One that was opened during the walk is not among those that were seen.
                offset = before[key] if partition is None else offset_of(partition)
                if offset > 0:
                    offsets[key] = offset
        return offsets
