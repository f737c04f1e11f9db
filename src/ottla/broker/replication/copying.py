"""What a follower does with one partition's answer: copy, cut, begin anew, or wait.

Rules kept here (the decision is in `cluster/follower.py`):
1. Before a log is cut, the recovery point's checkpoint is lowered: a log that ends before it counts
   as damaged. Then it is looked whether the term is still the same, and whether no flush has raised
   it again.
2. Nothing is copied in another term than the one that asked, nor batches of a newer epoch than the
   one that was fetched for.
3. A log that now starts earlier has that in the checkpoint before more is copied: what lies below
   the start offset of the checkpoint is dropped when the log is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from ottla.broker.partition import Partition
from ottla.cluster.follower import Action, Answer, Fetch, marks
from ottla.log.files import DISK_IS_FULL
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch_answer import PartitionAnswer

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = structlog.get_logger()


class Copying:
    """Takes answers for one node's followers."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def take(self, partition: Partition, fetch: Fetch, data: PartitionAnswer) -> bool:
        """Do what an answer leads to; False where it is better not to ask again at once."""
        try:
            return await self._take(partition, fetch, data)
        except (KafkaError, OSError) as problem:
            self._tell(partition, problem)
            code = getattr(problem, "code", ErrorCode.KAFKA_STORAGE_ERROR)
            self._node.roles.refused(partition, code)
        return False

    def _tell(self, partition: Partition, problem: KafkaError | OSError) -> None:
        if isinstance(problem, OSError):
            is_full = problem.errno in DISK_IS_FULL
        else:
            is_full = problem.code == ErrorCode.KAFKA_STORAGE_ERROR and not partition.log.offline
        if is_full:
            self._node.full_disk.refused(str(partition), str(problem))  # told once for all
        else:
            log.error(
                "a partition could not be copied", partition=str(partition), reason=str(problem)
            )

    async def _take(self, partition: Partition, fetch: Fetch, data: PartitionAnswer) -> bool:
        following = partition.following
        if following is None:
            return True
        answer = _answer(data)
        its_log = partition.log
        step = following.answered(fetch, answer, its_log.end_offset, its_log.epochs)
        match step.action:
            case Action.APPEND:
                is_all = True
                if data.records:
                    now = self._node.now_ms()
                    is_all = partition.copy(data.records, now, fetch.leader_epoch)
                known = marks(
                    answer, partition.high_watermark, its_log.end_offset, its_log.start_offset
                )
                partition.mark(known.high_watermark, known.log_start)
                if not is_all:
                    log.warning(
                        "leader sent batches of a newer leader epoch; dropped them",
                        partition=str(partition),
                        fetched_for_epoch=fetch.leader_epoch,
                        from_offset=its_log.end_offset,
                    )
                    return False
            case Action.TRUNCATE:
                await self._truncate(partition, step.offset)
            case Action.RESTART:
                await self._begin_anew(partition, step.offset)
            case Action.BACK_OFF:
                log.info(
                    "a leader refuses to be copied",
                    partition=str(partition),
                    reason=answer.error.name,
                )
                return False
        return True

    async def _truncate(self, partition: Partition, offset: int) -> None:
        its_log = partition.log
        if offset < its_log.end_offset:
            log.info(
                "a log parts from its leader's and is cut",
                partition=str(partition),
                from_offset=its_log.end_offset,
                to_offset=offset,
            )
            if not await self._promise_no_more(partition, its_log.end_if_truncated_to(offset)):
                return
        start_offset = its_log.start_offset
        its_log.truncate_to(offset)
        await self._was_cut(partition, start_offset)

    async def _begin_anew(self, partition: Partition, offset: int) -> None:
        its_log = partition.log
        log.warning(
            "a log ends before its leader's begins, and begins there anew",
            partition=str(partition),
            from_offset=its_log.end_offset,
            to_offset=offset,
        )
        if not await self._promise_no_more(partition, 0):
            return
        start_offset = its_log.start_offset
        its_log.truncate_fully_and_start_at(offset)
        await self._was_cut(partition, start_offset)

    async def _was_cut(self, partition: Partition, started_at: int) -> None:
        partition.was_cut()
        self._node.maintenance.remove_doomed(partition)
        if partition.log.start_offset < started_at:
            await self._node.maintenance.checkpoint_start_offsets()

    async def _promise_no_more(self, partition: Partition, end: int) -> bool:
        """Let the checkpoint promise nothing from an offset on; False where the term has ended."""
        its_log, following = partition.log, partition.following
        while True:
            its_log.lower_recovery_point(end)
            await self._node.maintenance.checkpoints.write_recovery_points()
            if partition.following is not following or partition.deleted:
                return False
            if its_log.recovery_point <= end:
                return True


def _answer(data: PartitionAnswer) -> Answer:
    return Answer(
        ErrorCode(data.error_code), data.high_watermark, data.log_start_offset, data.diverging
    )
