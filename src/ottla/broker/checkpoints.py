"""The data folder's checkpoint files: how far each log is on disk, where it starts, what was seen.

Rules kept here:
1. A partition that is not open (its log is being recovered, or its disk failed) keeps the offsets
   it had. Its recovery point says what is lost data and what a torn tail: forgetting it would turn
   one into the other.
2. Offsets belong to a topic, not to its name: before a partition is made, those of an older one of
   its name are out of the files. A kill before that is found out at the next start: until the files
   have forgotten a deleted partition, the folder that it was renamed to stays (see `maintenance`).
3. One file is written at a time, and a write that has begun ends before the next one begins.
4. A file whose content has not changed is not written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Final

from ottla.broker.partition import Partition
from ottla.log.folder import HIGH_WATERMARKS, RECOVERY_POINTS, START_OFFSETS

if TYPE_CHECKING:
    from ottla.broker.node import Node

PARTITIONS_IN_ONE_TURN: Final = 50

Key = tuple[str, int]
"""A partition by its topic's name and its index."""
Offsets = dict[Key, int]

_KEPT: Final[dict[str, Callable[[Partition], int]]] = {
    RECOVERY_POINTS: lambda partition: partition.log.recovery_point,
    HIGH_WATERMARKS: lambda partition: partition.high_watermark,
    START_OFFSETS: lambda partition: partition.log.start_offset,
}


class Checkpoints:
    """The checkpoint files of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._written: dict[str, Offsets] = {name: {} for name in _KEPT}
        self._writing = asyncio.Lock()
        self._leaving: set[Key] = set()

    def load(self) -> None:
        """Read what the last life of the broker left."""
        for name in _KEPT:
            self._written[name] = self._node.folder.read_checkpoint(name)

    def recovery_point(self, key: Key) -> int:
        """Below this offset a log that is not open yet is known to be on disk."""
        return self._written[RECOVERY_POINTS].get(key, 0)

    def start_offset(self, key: Key) -> int:
        """Where a log that is not open yet starts."""
        return self._written[START_OFFSETS].get(key, 0)

    def high_watermark(self, key: Key) -> int:
        """Below this offset the records of a log that is not open yet were known as committed."""
        return self._written[HIGH_WATERMARKS].get(key, 0)

    def known(self) -> set[Key]:
        """The partitions that a file has something on."""
        return set().union(*self._written.values())

    def knows(self, key: Key) -> bool:
        """True where a file has something on a partition."""
        return any(key in offsets for offsets in self._written.values())

    async def write(self) -> None:
        """Write the files whose content has changed; raises OSError."""
        for name in _KEPT:
            await self._write(name)

    async def write_start_offsets(self) -> None:
        """Make raised start offsets survive a restart; raises OSError."""
        await self._write(START_OFFSETS)

    async def write_high_watermarks(self) -> None:
        """Remember what is known as committed; raises OSError."""
        await self._write(HIGH_WATERMARKS)

    async def write_recovery_points(self) -> None:
        """Promise no more than is there, before a log is cut; raises OSError."""
        await self._write(RECOVERY_POINTS)

    async def forget(self, keys: Iterable[Key]) -> None:
        """Know nothing of these partitions, which are not open; raises OSError."""
        gone = set(keys)
        for name in _KEPT:
            async with self._writing:  # what is being written now may have them
                if not gone.isdisjoint(self._written[name]):
                    await self._write_now(name, gone)

    async def forget_deleted(self, key: Key) -> None:
        """Know nothing of a partition that was deleted, or moved away; raises OSError.

        Where this broker has one of its name again, whoever opens that one has seen to it. Of
        thousands that go at once, a write takes all that wait for it.
        """
        self._leaving.add(key)
        try:
            for name in _KEPT:
                async with self._writing:
                    if key in self._written[name] and not self._is_here(key):
                        gone = [each for each in self._leaving if not self._is_here(each)]
                        await self._write_now(name, gone)
        finally:
            self._leaving.discard(key)

    def _is_here(self, key: Key) -> bool:
        topic, index = key
        found = self._node.image.topics.get(topic)
        if found is None or index >= len(found.assignment):
            return False
        return self._node.id in found.assignment[index]

    async def _write(self, name: str) -> None:
        async with self._writing:
            await self._write_now(name)

    async def _write_now(self, name: str, gone: Iterable[Key] = ()) -> None:
        """The caller sees to it that nobody else writes."""
        offsets = await self._offsets(name)
        for key in gone:
            offsets.pop(key, None)
        if offsets == self._written[name]:
            return
        loop = asyncio.get_running_loop()
        write = self._node.folder.write_checkpoint
        writing = loop.run_in_executor(None, write, name, offsets)
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait((writing,))  # rule 3, also when nobody wants to know any more
            raise
        self._written[name] = offsets

    async def _offsets(self, name: str) -> Offsets:
        node = self._node
        offset_of = _KEPT[name]
        seen = [(each, offset_of(each)) async for each in in_turns(node.partitions)]
        offsets = {
            (partition.topic, partition.index): offset
            for partition, offset in seen
            if offset > 0 and not partition.deleted
        }
        before = self._written[name]
        for key in before.keys() - offsets.keys():
            if key in node.image.partitions:
                partition = node.partitions.get(*key)
                # One that was opened during the walk is not among those that were seen.
                offset = before[key] if partition is None else offset_of(partition)
                if offset > 0:
                    offsets[key] = offset
        return offsets


async def in_turns(partitions: Iterable[Partition]) -> AsyncIterator[Partition]:
    """Walk over partitions, giving way to clients now and then."""
    for number, partition in enumerate(partitions, 1):
        yield partition
        if number % PARTITIONS_IN_ONE_TURN == 0:
            await asyncio.sleep(0)
