"""What a follower does with one partition's answer: append, truncate, start over, or wait.

Rules kept here (the decision is in `replication/follower.py`):
1. Before a log is truncated, the recovery point's checkpoint is lowered: a log that ends before it
   counts as damaged. Then it is looked whether the term is still the same, and whether no flush has
   raised it again.
2. Nothing is copied in another term than the one that asked, nor batches of a newer epoch than the
   one that was fetched for.
3. A log that now starts earlier has that in the checkpoint before more is copied: what lies below
   the start offset of the checkpoint is dropped when the log is opened.
4. A replica whose leader lacks records that are committed here keeps them: it halts, leaves the
   ISR, and asks again after a while. It is logged at the second time: the image may be behind.
5. A log that lies below its leader's, and nothing explains that, is begun again all the same. Its
   files are kept in a folder beside it (`-stray`), as hard links: that takes no space.
6. What is known as committed is not truncated by a member of the ISR: it leaves
   first.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from ottla.broker.context.clock import Clock
from ottla.broker.logs.log_dir import LogDir
from ottla.broker.logs.log_manager import LogManager
from ottla.broker.replicas.isr_leaving import IsrLeaving
from ottla.broker.replicas.partition import Partition
from ottla.broker.replication.log_starts import was_deleted
from ottla.log.storage.files import DISK_IS_FULL
from ottla.log.storage.folder import stray_name
from ottla.metadata.image import Image
from ottla.replication.follower import FollowerAction, FollowerFetch, LeaderAnswer, marks
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch_answer import PartitionAnswer

log = structlog.get_logger()

TOLD_AT: Final = 2
"""The image may be a moment behind the leader's answer, which the document explains."""


class FetchedData:
    """Takes answers for one broker's followers."""

    def __init__(
        self,
        broker_id: int,
        *,
        image: Image,
        clock: Clock,
        log_dir: LogDir,
        log_manager: LogManager,
        isr_leaving: IsrLeaving,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._clock = clock
        self._log_dir = log_dir
        self._log_manager = log_manager
        self._isr_leaving = isr_leaving

    async def take(self, partition: Partition, fetch: FollowerFetch, data: PartitionAnswer) -> bool:
        """Do what an answer leads to; False where it is better not to ask again at once."""
        try:
            return await self._take(partition, fetch, data)
        except (KafkaError, OSError) as problem:
            self._tell(partition, problem)
            code = getattr(problem, "code", ErrorCode.KAFKA_STORAGE_ERROR)
            self._isr_leaving.append_failed(partition, code)
        return False

    def _tell(self, partition: Partition, problem: KafkaError | OSError) -> None:
        if isinstance(problem, OSError):
            is_full = problem.errno in DISK_IS_FULL
        else:
            is_full = problem.code == ErrorCode.KAFKA_STORAGE_ERROR and not partition.log.offline
        if is_full:
            self._log_dir.full_disk.refused(str(partition), str(problem))  # logged once for all
        else:
            log.error(
                "failed to replicate partition; retrying",
                partition=str(partition),
                reason=str(problem),
            )

    async def _take(
        self, partition: Partition, fetch: FollowerFetch, data: PartitionAnswer
    ) -> bool:
        following = partition.following
        if following is None:
            return True
        answer = _answer(data)
        its_log = partition.log
        state = self._image.partitions.get((partition.topic, partition.index))
        is_explained = was_deleted(its_log, state, answer.log_start, self._clock.now_ms())
        step = following.answered(
            fetch,
            answer,
            its_log.end_offset,
            its_log.epochs,
            partition.high_watermark,
            was_deleted=is_explained,
        )
        match step.action:
            case FollowerAction.APPEND:
                is_all = True
                if data.records:
                    now = self._clock.now_ms()
                    is_all = partition.copy(data.records, now, fetch.leader_epoch)
                known = marks(
                    answer,
                    partition.high_watermark,
                    its_log.end_offset,
                    its_log.start_offset,
                    was_deleted=is_explained or following.may_lose,
                )
                partition.mark(known.high_watermark, known.log_start)
                partition.agreed_epoch = fetch.leader_epoch
                partition.halts = 0
                partition.is_short = False
                if not (is_explained or following.may_lose):
                    self._keep_start(partition, answer)
                if not is_all:
                    log.warning(
                        "leader sent batches of a newer leader epoch; dropped them",
                        partition=str(partition),
                        fetched_for_epoch=fetch.leader_epoch,
                        from_offset=its_log.end_offset,
                    )
                    return False
            case FollowerAction.TRUNCATE:
                is_committed = step.offset < partition.high_watermark and not following.may_lose
                if is_committed and self._leaves(partition):
                    return False
                await self._truncate(partition, step.offset)
            case FollowerAction.RESTART:
                await self._restart(partition, step.offset)
            case FollowerAction.SET_ASIDE:
                return await self._set_aside(partition, step.offset)
            case FollowerAction.HALT:
                self._halt(partition, fetch, step.offset)
                return False
            case FollowerAction.BACK_OFF:
                log.info(
                    "fetch from leader failed; retrying",
                    partition=str(partition),
                    reason=answer.error.name,
                )
                return False
        return True

    def _halt(self, partition: Partition, fetch: FollowerFetch, offset: int) -> None:
        """The leader lacks what is committed here: keep it, and let a person decide."""
        partition.halts += 1
        if partition.halts == TOLD_AT:
            log.error(
                "leader lacks committed records; not truncating, not replicating. To keep these "
                "records, stop the leader's broker and elect this replica (unclean leader "
                "election); to keep the leader's, delete this partition's folder",
                partition=str(partition),
                leader_epoch=fetch.leader_epoch,
                high_watermark=partition.high_watermark,
                would_truncate_to=offset,
            )
        self._isr_leaving.leave((partition.topic, partition.index), partition.topic_id)

    def _leaves(self, partition: Partition) -> bool:
        """Leave the ISR; False where this replica is not in it."""
        key = (partition.topic, partition.index)
        state = self._image.partitions.get(key)
        if state is None or self._broker_id not in state.isr:
            return False
        self._isr_leaving.leave(key, partition.topic_id)
        return True

    async def _set_aside(self, partition: Partition, offset: int) -> bool:
        """Begin again where the leader's log starts, and keep what there is beside it."""
        if self._leaves(partition):
            # Counted once, however long it takes: what comes after it is logged at TOLD_AT.
            partition.halts = max(partition.halts, 1)
            return False
        partition.halts += 1
        if partition.halts < TOLD_AT:
            return False
        following, its_log = partition.following, partition.log
        name = stray_name(partition.topic, partition.index)
        problem = ""
        try:
            await asyncio.get_running_loop().run_in_executor(
                None, self._log_dir.folder.link_files, its_log.directory, name
            )
        except OSError as error:
            problem = str(error)
        if not problem or partition.halts == TOLD_AT:
            log.error(
                "leader's log starts above the end of this one, and neither DeleteRecords nor "
                "retention explains it; keeping the files in another folder",
                partition=str(partition),
                leader_log_start=offset,
                end_offset=its_log.end_offset,
                folder=name,
                problem=problem or None,
            )
        if problem:
            return False
        if partition.following is following and not partition.deleted:
            await self._restart(partition, offset)
            partition.halts = 0
        return True

    def _keep_start(self, partition: Partition, answer: LeaderAnswer) -> None:
        partition.odd_starts += 1
        if partition.odd_starts == TOLD_AT:
            log.error(
                "leader's log start offset is higher, and neither DeleteRecords nor retention "
                "explains it; keeping the records below it",
                partition=str(partition),
                leader_log_start=answer.log_start,
                log_start=partition.log.start_offset,
            )

    async def _truncate(self, partition: Partition, offset: int) -> None:
        its_log = partition.log
        if offset < its_log.end_offset:
            log.info(
                "log diverged from leader; truncating",
                partition=str(partition),
                from_offset=its_log.end_offset,
                to_offset=offset,
            )
            end = its_log.end_if_truncated_to(offset)
            if not await self._promise_no_more(partition, end):
                return
        start_offset = its_log.start_offset
        its_log.truncate_to(offset)
        await self._was_truncated(partition, start_offset)

    async def _restart(self, partition: Partition, offset: int) -> None:
        its_log = partition.log
        log.warning(
            "log ends before the leader's log start; restarting from the leader's log start",
            partition=str(partition),
            from_offset=its_log.end_offset,
            to_offset=offset,
        )
        if not await self._promise_no_more(partition, 0):
            return
        start_offset = its_log.start_offset
        its_log.truncate_fully_and_start_at(offset)
        await self._was_truncated(partition, start_offset)

    async def _was_truncated(self, partition: Partition, started_at: int) -> None:
        partition.was_truncated()
        self._log_manager.remove_doomed(partition)
        if partition.log.start_offset < started_at:
            await self._log_manager.checkpoint_start_offsets()

    async def _promise_no_more(self, partition: Partition, end: int) -> bool:
        """Let the checkpoint promise nothing from an offset on; False where the term has ended."""
        its_log, following = partition.log, partition.following
        while True:
            its_log.lower_recovery_point(end)
            await self._log_manager.checkpoints.write_recovery_points()
            if partition.following is not following or partition.deleted:
                return False
            if its_log.recovery_point <= end:
                return True


def _answer(data: PartitionAnswer) -> LeaderAnswer:
    return LeaderAnswer(
        ErrorCode(data.error_code), data.high_watermark, data.log_start_offset, data.diverging
    )
