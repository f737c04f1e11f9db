"""What a broker does in the background: flushes, checkpoints, retention, removal of old files.

Rules kept here:
1. Every partition that was written to is flushed within a minute (or `flush.ms`), so that the
   scan after a kill stays short. Its timer starts with the first unflushed record; a partition
   nobody writes to costs nothing.
2. Waiting for a disk happens in threads; walks over all partitions give way to clients.
3. A file is removed `file.delete.delay.ms` after it was renamed, whatever else goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from ottla.broker.partition import Partition
from ottla.log.folder import HIGH_WATERMARKS, RECOVERY_POINTS, START_OFFSETS
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = structlog.get_logger()

LATEST_FLUSH_MS: Final = 60_000
FLUSHES_AT_ONCE: Final = 4
PARTITIONS_IN_ONE_TURN: Final = 50

Offsets = dict[tuple[str, int], int]
T = TypeVar("T")


class Maintenance:
    """The background work of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._tasks: list[asyncio.Task[None]] = []
        self._flushing: set[asyncio.Task[None]] = set()
        self._flush_slots = asyncio.Semaphore(FLUSHES_AT_ONCE)
        self._checkpointing = asyncio.Lock()
        self._written: dict[str, Offsets] = {}

    def start(self) -> None:
        """Begin."""
        loop = asyncio.get_running_loop()
        for work, every_ms in (
            (self.checkpoint, lambda: self._node.config.log_flush_offset_checkpoint_interval_ms),
            (self.maintain_logs, lambda: self._node.config.log_retention_check_interval_ms),
        ):
            self._tasks.append(loop.create_task(self._repeat(work, every_ms)))

    async def stop(self) -> None:
        """Stop, and let a flush that is under way end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._flushing, return_exceptions=True)

    async def _repeat(
        self, work: Callable[[], Awaitable[None]], every_ms: Callable[[], int]
    ) -> None:
        while True:
            await asyncio.sleep(every_ms() / 1000)
            try:
                await work()
            except Exception:
                log.exception("background work failed", work=work.__name__)

    # Flushing -----------------------------------------------------------------------------

    def flush_later(self, partition: Partition) -> None:
        """A partition has its first unflushed record."""
        delay = min(partition.log.config.flush_ms, LATEST_FLUSH_MS)
        asyncio.get_running_loop().call_later(delay / 1000, self._flush_due, partition)

    def _flush_due(self, partition: Partition) -> None:
        if partition.deleted or partition.log.offline or not self._node.running:
            return
        task = asyncio.get_running_loop().create_task(self._flush(partition))
        self._flushing.add(task)
        task.add_done_callback(self._flushing.discard)

    async def _flush(self, partition: Partition) -> None:
        try:
            async with self._flush_slots:
                await partition.flush()
        except KafkaError as problem:
            log.error("a partition is offline", partition=str(partition), reason=problem.message)
            return
        partition.has_unflushed = partition.log.recovery_point < partition.log.end_offset
        if partition.has_unflushed:
            self.flush_later(partition)

    # Checkpoints --------------------------------------------------------------------------

    async def checkpoint(self) -> None:
        """Write the checkpoint files whose content has changed."""
        await self._write(RECOVERY_POINTS, lambda each: each.log.recovery_point)
        await self._write(HIGH_WATERMARKS, lambda each: each.high_watermark)
        await self.checkpoint_start_offsets()

    async def checkpoint_start_offsets(self) -> None:
        """Make raised start offsets survive a restart."""
        await self._write(START_OFFSETS, lambda each: each.log.start_offset)

    async def _write(self, name: str, offset_of: Callable[[Partition], int]) -> None:
        async with self._checkpointing:
            offsets: Offsets = {}
            async for partition in in_turns(self._node.partitions):
                offset = offset_of(partition)
                if offset > 0:
                    offsets[partition.topic, partition.index] = offset
            if offsets == self._written.get(name):
                return
            write = self._node.folder.write_checkpoint
            await asyncio.get_running_loop().run_in_executor(None, write, name, offsets)
            self._written[name] = offsets

    # Retention ----------------------------------------------------------------------------

    async def maintain_logs(self) -> None:
        """Roll and delete segments by age and size, and forget silent producers."""
        now = self._node.now_ms()
        async for partition in in_turns(self._node.partitions):
            if partition.log.offline:
                continue
            before = partition.log.start_offset
            try:
                partition.log.maintain(now)
            except KafkaError as problem:
                log.error(
                    "a log could not be maintained", partition=str(partition), reason=str(problem)
                )
            if partition.log.start_offset != before:
                partition.wake_readers()
            self.remove_doomed(partition)

    def remove_doomed(self, partition: Partition) -> None:
        """Remove a log's renamed files, each when its time has come."""
        doomed, partition.log.doomed = partition.log.doomed, []
        now = self._node.now_ms()
        for path, due in doomed:
            self._later(max(0, due - now), self._node.files.unlink_if_exists, path)

    def delete_log(self, partition: Partition) -> None:
        """Take a deleted partition's folder out of the way now, and remove it later."""
        try:
            folder = partition.log.delete()
        except OSError as problem:
            log.error(
                "a deleted partition's folder stays", partition=str(partition), reason=str(problem)
            )
            return
        delay = partition.log.config.file_delete_delay_ms
        self._later(delay, self._node.folder.remove, folder)

    def remove_directory(self, directory: Path) -> None:
        """Remove a deleted partition's folder now."""
        self._later(0, self._node.folder.remove, directory)

    def _later(self, delay_ms: int, work: Callable[[T], None], argument: T) -> None:
        """Do something with the disk, in a thread, after a while."""
        loop = asyncio.get_running_loop()

        def begin() -> None:
            if self._node.running:
                loop.run_in_executor(None, work, argument).add_done_callback(_tell_failure)

        loop.call_later(delay_ms / 1000, begin)


def _tell_failure(work: asyncio.Future[None]) -> None:
    if not work.cancelled() and work.exception() is not None:
        log.error("a file could not be removed", reason=str(work.exception()))


async def in_turns(partitions: Iterable[Partition]) -> AsyncIterator[Partition]:
    """Walk over partitions, giving way to clients now and then."""
    for number, partition in enumerate(partitions, 1):
        yield partition
        if number % PARTITIONS_IN_ONE_TURN == 0:
            await asyncio.sleep(0)
