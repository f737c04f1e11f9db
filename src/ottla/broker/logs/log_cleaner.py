"""The log cleaner: finds compacted logs that are dirty enough and has them compacted.

Rules kept here:
1. The work is a child process's (`ottla.log.compaction`): Python work of seconds would stall the
   loop. The loop only renames files. At most `log.cleaner.threads` children work at a time, each
   log is given to one of them, and without work there is none.
2. Before a log is touched it is flushed, and its recovery point is in the checkpoint: so a crash
   never makes anyone read compacted batches to know the log's producers.
3. What was made for a log that was deleted, truncated, shortened by retention or reconfigured
   meanwhile is thrown away. Groups of segments are put in place in their order, each durable before
   the next.
4. A log that cannot be compacted is said to be so, once, and left alone; others are not. Where the
   disk was full, or the child was killed, it is tried again later.
5. `cleaner-offset-checkpoint` says where the dirty part of each log begins (`checkpoints` keeps it:
   what it says of a topic goes with the topic). It may lag behind: to compact what is clean changes
   nothing.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import structlog

from ottla.broker.context.clock import Clock
from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.broker.logs.child import Child
from ottla.broker.logs.log_manager import LogManager
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.scheduling.turns import in_turns
from ottla.log.compaction.order import Cleaned, Failed, Finished, reply_from_line
from ottla.log.compaction.plan import Plan, plan
from ottla.log.segments.names import CLEANED
from ottla.log.segments.scan import CorruptLog
from ottla.log.storage.files import DISK_IS_FULL, Files
from ottla.wire.errors import KafkaError

log = structlog.get_logger()

LOGS_IN_A_ROUND: Final = 20
SHORTEST_BACKOFF_MS: Final = 100
RETRY_MS: Final = 600_000
NOT_NOW: Final = DISK_IS_FULL | {errno.EEXIST, errno.EAGAIN}
"""Errors that may be gone at the next try: another process's files are removed before it."""


class _Job(NamedTuple):
    partition: Partition
    plan: Plan


class LogCleaner:
    """The log cleaner of one broker."""

    def __init__(
        self,
        config: DynamicConfig,
        clock: Clock,
        partitions: Partitions,
        files: Files,
        log_manager: LogManager,
    ) -> None:
        self._config = config
        self._clock = clock
        self._partitions = partitions
        self._files = files
        self._log_manager = log_manager
        self._task: asyncio.Task[None] | None = None
        self._checkpoints = log_manager.checkpoints
        self._uncleanable: set[Partition] = set()
        self._not_before: dict[Partition, int] = {}
        self._children: dict[Partition, Child] = {}
        self._last_run = clock.elapsed_ms()
        self._dirtiest = 0.0
        self._most_overdue_ms = 0
        self._last_round: list[Finished] = []
        self._totals = Finished(0, 0, 0, 0, 0, 0.0, 0.0)
        self._cleanings = 0

    def start(self) -> None:
        """Begin, if `log.cleaner.enable` says so."""
        if self._config.current.log_cleaner_enable:
            self._task = asyncio.get_running_loop().create_task(self._repeat())

    async def stop(self) -> None:
        """Give up what is under way, and note what was done."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._write_checkpoint()

    def forget(self, partition: Partition) -> None:
        """A partition is being deleted; another one of its name will have nothing to do with it."""
        self._uncleanable.discard(partition)
        self._not_before.pop(partition, None)
        child = self._children.get(partition)
        if child is not None:
            child.kill()
        self._checkpoints.forget_clean(partition)

    async def _repeat(self) -> None:
        failing = ""
        while True:
            backoff_ms = max(self._config.current.log_cleaner_backoff_ms, SHORTEST_BACKOFF_MS)
            await asyncio.sleep(backoff_ms / 1000)
            try:
                while await self.clean_dirtiest_logs():
                    pass
                failing = ""
            except OSError as problem:
                if str(problem) != failing:  # a disk that stays full is logged once
                    failing = str(problem)
                    log.error("log cleaner cannot run; retrying", reason=failing)
            except Exception:
                log.exception("log cleaner failed; retrying")

    async def clean_dirtiest_logs(self) -> bool:
        """Compact the logs that need it most; False where none could be."""
        threads = self._config.current.log_cleaner_threads
        jobs = await self._due() if threads else []
        jobs = [job for job in jobs if await _is_flushed(job)]
        if not jobs:
            return False
        await self._log_manager.checkpoint()
        waiting = deque(jobs)
        self._last_round = []
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(threads, len(jobs))):
                workers.create_task(self._work(waiting))
        await self._write_checkpoint()
        return bool(self._last_round)

    # Choosing -----------------------------------------------------------------------------

    async def _due(self) -> list[_Job]:
        """The dirtiest logs that are due, dirtiest first."""
        self._last_run = elapsed = self._clock.elapsed_ms()
        now = self._clock.now_ms()
        found: list[_Job] = []
        async for partition in in_turns(self._partitions):
            if (
                "compact" in partition.log.config.cleanup_policy
                and not partition.log.offline
                and partition not in self._uncleanable
                and self._not_before.get(partition, elapsed) <= elapsed
            ):
                try:
                    made = plan(partition.log, self._checkpoints.first_dirty(partition), now)
                except (OSError, CorruptLog) as problem:
                    self._failed(partition, Failed(str(problem), getattr(problem, "errno", None)))
                    continue
                if made is not None:
                    found.append(_Job(partition, made))
        self._dirtiest = max((job.plan.dirty_ratio for job in found), default=0.0)
        self._most_overdue_ms = max((job.plan.overdue_ms for job in found), default=0)
        due = [job for job in found if job.plan.is_due]
        due.sort(key=lambda job: job.plan.dirty_ratio, reverse=True)
        return due[:LOGS_IN_A_ROUND]

    # Cleaning -----------------------------------------------------------------------------

    async def _work(self, waiting: deque[_Job]) -> None:
        """Do jobs, one after the other, with one child."""
        child: Child | None = None
        try:
            while waiting:
                job = waiting.popleft()
                if not job.plan.still_holds:
                    continue
                try:
                    child = child or await Child.start("ottla.log.compaction")
                except OSError as problem:
                    failed = Failed(
                        f"failed to start the compaction process: {problem}", problem.errno
                    )
                    self._failed(job.partition, failed)
                    continue
                if not await self._clean_log(job, child):
                    child = None
        finally:
            if child is not None:
                await child.end()

    async def _clean_log(self, job: _Job, child: Child) -> bool:
        """Compact one log; False if that failed and the child has ended."""
        partition = job.partition
        self._children[partition] = child
        outcome: Finished | Failed | None = None
        try:
            outcome = await self._converse(job, child)
        finally:
            del self._children[partition]
            if not isinstance(outcome, Finished):
                await child.end()
                self._remove_leftovers(partition)
        if isinstance(outcome, Finished):
            self._finished(partition, outcome)
            return True
        if job.plan.still_holds and not partition.deleted:
            self._failed(partition, outcome)
        return False

    async def _converse(self, job: _Job, child: Child) -> Finished | Failed | None:
        """Give an order and carry out what comes back; None where the child or the plan ended."""
        config = self._config.current
        threads = max(1, config.log_cleaner_threads)
        order = job.plan.order(
            self._clock.now_ms(),
            memory=config.log_cleaner_dedupe_buffer_size // threads,
            bytes_per_second=config.log_cleaner_io_max_bytes_per_second / threads,
        )
        try:
            child.stdin.write(order.to_line())
            await child.stdin.drain()
        except ConnectionError:
            return None
        while line := await child.stdout.readline():
            reply = reply_from_line(line)
            if not isinstance(reply, Cleaned):
                return reply
            if not job.plan.still_holds:
                return None
            try:
                await self._put_in_place(job, reply)
            except KafkaError as problem:
                log.error(
                    "partition is offline", partition=str(job.partition), reason=problem.message
                )
                return None
            except OSError as problem:
                return Failed(str(problem), problem.errno)
        return None

    async def _put_in_place(self, job: _Job, cleaned: Cleaned) -> None:
        job.plan.carry_out(cleaned, self._clock.now_ms())
        sync = self._files.sync_directory
        directory = str(job.partition.log.directory)
        await asyncio.get_running_loop().run_in_executor(None, sync, directory)
        self._log_manager.remove_doomed(job.partition)

    def _remove_leftovers(self, partition: Partition) -> None:
        files = self._files
        directory = str(partition.log.directory)
        try:
            for name in files.listdir(directory):
                if name.endswith(CLEANED):
                    files.unlink_if_exists(f"{directory}/{name}")
        except OSError:
            pass  # opening the log removes them too

    def _finished(self, partition: Partition, outcome: Finished) -> None:
        self._checkpoints.note_clean(partition, outcome.first_dirty)
        self._last_round.append(outcome)
        self._cleanings += 1
        totals = self._totals
        totals.bytes_read += outcome.bytes_read
        totals.bytes_written += outcome.bytes_written
        totals.messages_read += outcome.messages_read
        totals.messages_written += outcome.messages_written
        log.info(
            "log compacted",
            partition=str(partition),
            clean_to=outcome.first_dirty,
            bytes_before=outcome.bytes_read,
            bytes_after=outcome.bytes_written,
            seconds=round(outcome.seconds, 3),
        )
        if outcome.unread:
            log.warning(
                "log cleaner kept unreadable batches and all tombstones after them",
                partition=str(partition),
                batches=outcome.unread,
            )

    def _failed(self, partition: Partition, outcome: Failed | None) -> None:
        if outcome is None or outcome.errno in NOT_NOW:
            self._not_before[partition] = self._clock.elapsed_ms() + RETRY_MS
            reason = "the compaction process died" if outcome is None else outcome.reason
            log.warning("log compaction failed; retrying", partition=str(partition), reason=reason)
        else:
            self._uncleanable.add(partition)
            log.error(
                "log compaction failed; partition marked as uncleanable",
                partition=str(partition),
                reason=outcome.reason,
            )

    async def _write_checkpoint(self) -> None:
        try:
            await self._checkpoints.write_cleaner_offsets()
        except OSError as problem:
            log.warning("failed to write the cleaner checkpoint", reason=str(problem))

    # Metrics ------------------------------------------------------------------------------

    def gauges(self) -> Iterator[tuple[str, str, float]]:
        """Name, text and value of what Kafka's cleaner tells."""
        last = self._last_round
        read = sum(each.bytes_read for each in last)
        written = sum(each.bytes_written for each in last)
        yield (
            "kafka_log_logcleaner_cleaner_recopy_percent",
            "Percentage of the bytes read in the last compactions that were written again.",
            100 * written / read if read else 0,
        )
        yield (
            "kafka_log_logcleaner_max_buffer_utilization_percent",
            "Highest utilization of the key map in the last compactions.",
            100 * max((each.map_fullness for each in last), default=0),
        )
        yield (
            "kafka_log_logcleaner_max_clean_time_secs",
            "Time taken by the longest of the last compactions.",
            max((each.seconds for each in last), default=0),
        )
        yield (
            "kafka_log_logcleaner_max_compaction_delay_secs",
            "How far the most overdue log is past its compaction deadline (max.compaction.lag.ms).",
            self._most_overdue_ms / 1000,
        )
        yield (
            "kafka_log_logcleanermanager_max_dirty_percent",
            "Dirty ratio of the dirtiest log.",
            100 * self._dirtiest,
        )
        yield (
            "kafka_log_logcleanermanager_time_since_last_run_ms",
            "Milliseconds since the cleaner last checked for dirty logs.",
            self._clock.elapsed_ms() - self._last_run,
        )
        yield (
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
            "Logs that cannot be compacted.",
            len(self._uncleanable),
        )
        yield (
            "kafka_log_logcleanermanager_uncleanable_bytes",
            "Bytes of logs that cannot be compacted.",
            sum(partition.log.size for partition in self._uncleanable),
        )

    def counters(self) -> Iterator[tuple[str, str, float]]:
        """Name, text and value of what only grows."""
        totals = self._totals
        for name, text, value in (
            ("cleanings", "Compactions of a log.", self._cleanings),
            ("bytes_read", "Bytes of segments that were compacted.", totals.bytes_read),
            ("bytes_written", "Bytes of compacted segments.", totals.bytes_written),
            ("messages_read", "Records of segments that were compacted.", totals.messages_read),
            ("messages_written", "Records of compacted segments.", totals.messages_written),
        ):
            yield f"kafka_log_logcleaner_{name}", text, value


async def _is_flushed(job: _Job) -> bool:
    """Flush a log; False where that fails, and the log is offline."""
    try:
        await job.partition.flush()
    except KafkaError:
        return False
    return True
