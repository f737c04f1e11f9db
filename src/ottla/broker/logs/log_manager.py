"""What a broker does in the background, and when: flushes, checkpoints, retention, removals.

Rules kept here:
1. Every partition that was written to is flushed after a minute (or `flush.ms`), so that the
   scan after a kill stays short. Its timer starts with the first unflushed record; a partition
   nobody writes to costs nothing. Where there is little to flush it may take ten minutes: an fsync
   costs more than the scan would, and a broker can have ten thousand such partitions. Those that
   were written to at once are not flushed at once: each takes some of its minute off, by chance.
   Those whose time comes within a moment are flushed together, which costs a disk much less. Where
   very many are due there are rests between groups, which may take three minutes more: flushing
   is not what a broker is there for. Who has set a shorter `flush.ms` is not kept waiting.
2. Waiting for a disk happens in threads; walks over all partitions give way to clients.
3. A file is removed `file.delete.delay.ms` after it was renamed, whatever else continues. A deleted
   partition's folder, empty then, goes when the checkpoints have forgotten the partition: a start
   after a kill knows by it that the offsets there are not those of a topic made since.
4. What fails for one partition is said in a line and tried again at its next time; the other
   partitions do not notice. Where a disk is full, `full_disk` says so for all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import structlog

from ottla.broker.context.broker_context import BrokerContext
from ottla.broker.logs.checkpoints import Key, OffsetCheckpoints
from ottla.broker.logs.log_dir import LogDir
from ottla.broker.replicas.isr_leaving import IsrLeaving
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.scheduling.agenda import Agenda
from ottla.broker.scheduling.background import Background
from ottla.broker.scheduling.supervised import SupervisedTask
from ottla.broker.scheduling.turns import in_turns
from ottla.wire.errors import KafkaError

log = structlog.get_logger()

LATEST_FLUSH_MS: Final = 60_000
LITTLE: Final = 256 << 10
"""This many bytes a start scans in place, in milliseconds (see `log_loader`)."""
LATEST_FLUSH_OF_LITTLE_MS: Final = 600_000
FLUSHED_TOGETHER: Final = 16
"""Beginning this many takes the loop two milliseconds."""
MOMENT_SECONDS: Final = 0.3
"""The rest before each group: with 10,000 partitions a shorter one costs producers a tenth."""
ALL_FLUSHED_IN_SECONDS: Final = 120
"""With more due than rests allow in this time, they are shorter: nothing falls behind for ever."""
LOOK_SECONDS: Final = 0.25
"""Partitions whose time comes within it are looked at together."""
FLUSH_AGAIN_MS: Final = 5_000
"""After a flush that a full disk did not take."""
REMOVE_AGAIN_MS: Final = 60_000
"""A deleted partition's folder, where a partition of its name is about to be made."""

T = TypeVar("T")


class LogManager:
    """The background work of one broker."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        log_dir: LogDir,
        partitions: Partitions,
        isr_leaving: IsrLeaving,
        background: Background,
    ) -> None:
        broker, config, clock, image = context
        self._broker = broker
        self._config = config
        self._clock = clock
        self._log_dir = log_dir
        self._partitions = partitions
        self._isr_leaving = isr_leaving
        self._background = background
        self._tasks: list[asyncio.Task[None]] = []
        self._due: deque[Partition] = deque()
        self._flushing = SupervisedTask("flushes", self._flush_all_due)
        self._agenda: Agenda[tuple[Partition, float]] = Agenda(LOOK_SECONDS, self._all_due)
        self.checkpoints = OffsetCheckpoints(
            broker.id, image, partitions, log_dir.folder, log_dir.full_disk
        )
        self._chance = Random()  # of its own: a program that embeds a broker may seed the other

    def start(self) -> None:
        """Begin."""
        loop = asyncio.get_running_loop()
        for work, every_ms in (
            (self.checkpoint, lambda: self._config.current.log_flush_offset_checkpoint_interval_ms),
            (
                self.checkpoints.write_high_watermarks,
                lambda: self._config.current.replica_high_watermark_checkpoint_interval_ms,
            ),
            (self.maintain_logs, lambda: self._config.current.log_retention_check_interval_ms),
        ):
            self._tasks.append(loop.create_task(self._repeat(work, every_ms)))

    async def stop(self) -> None:
        """Stop, and let a flush that is under way end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._flushing.settled()
        await self._flushing.stop()

    async def _repeat(
        self, work: Callable[[], Awaitable[None]], every_ms: Callable[[], int]
    ) -> None:
        failing = ""
        while True:
            await asyncio.sleep(every_ms() / 1000)
            try:
                await work()
                failing = ""
            except OSError as problem:
                if str(problem) != failing:  # a disk that stays full is logged once
                    failing = str(problem)
                    log.error("background task failed", work=work.__name__, reason=failing)
            except Exception:
                log.exception("background task failed", work=work.__name__)

    # Flushing -----------------------------------------------------------------------------

    def flush_later(self, partition: Partition) -> None:
        """A partition has its first unflushed record."""
        self._wait_to_flush(partition, 0.0)

    def _wait_to_flush(self, partition: Partition, waited_ms: float) -> None:
        spread = LATEST_FLUSH_MS * self._chance.uniform(0.5, 1.0)
        self._flush_in(min(spread, _latest(partition) - waited_ms), partition, waited_ms)

    def _flush_in(self, delay_ms: float, partition: Partition, waited_ms: float = 0.0) -> None:
        seconds = delay_ms / 1000
        waited_ms += delay_ms
        if _is_urgent(partition):
            asyncio.get_running_loop().call_later(seconds, self._flush_due, partition, waited_ms)
        else:
            self._agenda.put(seconds, (partition, waited_ms))

    def _all_due(self, partitions: list[tuple[Partition, float]]) -> None:
        for partition, waited_ms in partitions:
            try:
                self._flush_due(partition, waited_ms)
            except Exception:  # the others have no other timer
                log.exception("flush failed; retrying", partition=str(partition))
                self._flush_again(partition)

    def _flush_again(self, partition: Partition) -> None:
        """Soon, however little there is: its time had come."""
        self._flush_in(FLUSH_AGAIN_MS, partition, LATEST_FLUSH_OF_LITTLE_MS)

    def _flush_due(self, partition: Partition, waited_ms: float) -> None:
        if partition.deleted or partition.log.offline or not self._broker.running:
            return
        if waited_ms < _latest(partition) and _has_little_to_flush(partition):
            self._wait_to_flush(partition, waited_ms)
            return
        if _is_urgent(partition):
            self._background.run(self._flush(partition))
            return
        self._due.append(partition)
        self._flushing.begin()

    async def _flush_all_due(self) -> None:
        while self._due and self._broker.running:
            await asyncio.sleep(self._rest())
            group = [self._due.popleft() for _ in range(min(len(self._due), FLUSHED_TOGETHER))]
            await asyncio.gather(*(self._flush(partition) for partition in group))

    def _rest(self) -> float:
        """How long to leave the disk alone before the next group, in seconds."""
        groups = len(self._due) / FLUSHED_TOGETHER
        return min(MOMENT_SECONDS, ALL_FLUSHED_IN_SECONDS / groups)

    async def _flush(self, partition: Partition) -> None:
        try:
            await partition.flush()
        except KafkaError as problem:
            if partition.log.offline:
                if not partition.deleted:
                    log.error(
                        "partition is offline", partition=str(partition), reason=problem.message
                    )
                    self._isr_leaving.disk_failed(partition)
                return
            self._log_dir.full_disk.refused(str(partition), str(problem))
            self._flush_again(partition)
            return
        except Exception:
            log.exception("flush failed; retrying", partition=str(partition))
            self._flush_again(partition)
            return
        partition.has_unflushed = partition.log.recovery_point < partition.log.end_offset
        if partition.has_unflushed:
            self.flush_later(partition)

    # OffsetCheckpoints --------------------------------------------------------------------------

    async def checkpoint(self) -> None:
        """Write the checkpoint files whose content has changed; raises OSError."""
        await self.checkpoints.write()

    async def checkpoint_start_offsets(self) -> None:
        """Make raised start offsets survive a restart; raises OSError."""
        await self.checkpoints.write_start_offsets()

    # Retention ----------------------------------------------------------------------------

    async def maintain_logs(self) -> None:
        """Roll and delete segments by age and size, and forget silent producers."""
        now = self._clock.now_ms()
        async for partition in in_turns(self._partitions):
            if partition.log.offline:
                continue
            before = partition.log.start_offset
            try:
                partition.log.maintain(now)
            except KafkaError as problem:
                if not partition.log.offline:
                    self._log_dir.full_disk.refused(str(partition), str(problem))
            except Exception:
                log.exception("failed to roll or delete log segments", partition=str(partition))
            if partition.log.start_offset != before or partition.log.offline:
                partition.wake_readers()
            self.remove_doomed(partition)

    def remove_doomed(self, partition: Partition) -> None:
        """Remove a log's renamed files, each when its time has come."""
        doomed, partition.log.doomed = partition.log.doomed, []
        now, longest = self._clock.now_ms(), partition.log.config.file_delete_delay_ms
        for path, due in doomed:
            delay = min(max(0, due - now), longest)  # longer: the clock was set back meanwhile
            self._later(delay, self._log_dir.files.unlink_if_exists, path)

    def delete_log(self, partition: Partition) -> None:
        """Take a deleted partition's folder out of the way now, and remove it later."""
        try:
            folder = partition.log.delete()
        except OSError as problem:
            log.error(
                "failed to delete the folder of a deleted partition; retrying at the next start",
                partition=str(partition),
                reason=str(problem),
            )
            return
        key = (partition.topic, partition.index)
        self._remove_in(partition.log.config.file_delete_delay_ms, folder, key)

    def remove_directory(self, directory: Path, key: Key | None) -> None:
        """Remove a deleted partition's folder now; the key is None where no checkpoint knows it."""
        self._remove_in(0, directory, key)

    def _remove_in(self, delay_ms: int, directory: Path, key: Key | None) -> None:
        def begin() -> None:
            if self._broker.running:
                self._background.run(self._remove(directory, key))

        asyncio.get_running_loop().call_later(delay_ms / 1000, begin)

    async def _remove(self, directory: Path, key: Key | None) -> None:
        loop = asyncio.get_running_loop()
        folder = self._log_dir.folder
        try:
            await loop.run_in_executor(None, folder.empty, directory)
            if key is not None:
                await self.checkpoints.forget_deleted(key)
                made_again = self._log_dir.files.exists(str(folder.partition_path(*key)))
                if self.checkpoints.knows(key) and not made_again:
                    self._remove_in(REMOVE_AGAIN_MS, directory, key)
                    return
            await loop.run_in_executor(None, folder.remove, directory)
        except OSError as problem:  # the next start tries again
            log.error(
                "failed to delete the folder of a deleted partition; retrying at the next start",
                folder=str(directory),
                reason=str(problem),
            )

    def _later(self, delay_ms: int, work: Callable[[T], None], argument: T) -> None:
        """Do something with the disk, in a thread, after a while."""
        loop = asyncio.get_running_loop()

        def begin() -> None:
            if self._broker.running:
                loop.run_in_executor(None, work, argument).add_done_callback(_tell_failure)

        loop.call_later(delay_ms / 1000, begin)


def _is_urgent(partition: Partition) -> bool:
    """True where a caller wants it flushed sooner than others."""
    return partition.log.config.flush_ms < LATEST_FLUSH_MS


def _latest(partition: Partition) -> int:
    """How long a partition with little to flush may wait, in milliseconds."""
    return min(partition.log.config.flush_ms, LATEST_FLUSH_OF_LITTLE_MS)


def _has_little_to_flush(partition: Partition) -> bool:
    try:
        return partition.log.unflushed_bytes < LITTLE
    except OSError:  # an index could not be read; the flush says what is wrong, or tries again
        return False


def _tell_failure(work: asyncio.Future[None]) -> None:
    if not work.cancelled() and work.exception() is not None:
        log.error("failed to delete file", reason=str(work.exception()))
