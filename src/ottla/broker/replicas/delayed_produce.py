"""What stands between an append to a replicated partition and its acknowledgement.

Rules kept here:
1. acks=all needs enough replicas in sync before the append, and is answered when the high watermark
   has passed the records, duplicates too.
2. acks of 0 and 1 need the lease: without it this broker may have been replaced already.
3. Who waits longer than the request's timeout gets REQUEST_TIMED_OUT; whose leader goes gets
   NOT_LEADER_OR_FOLLOWER. The records may be committed all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.broker.context.broker_state import BrokerState
from ottla.broker.replicas.partition import Partition
from ottla.replication.replicas import Leadership
from ottla.wire.errors import ErrorCode
from ottla.wire.produce import PartitionResult

ALL: Final = -1


def check_append(broker: BrokerState, leadership: Leadership, acks: int) -> None:
    """Refuse an append whose acknowledgement could not be given; raises KafkaError."""
    if acks == ALL:
        leadership.check_enough()
    else:
        broker.check_lease()


class Uncommitted:
    """Records that are appended, not committed, and whose result stands in an answer."""

    __slots__ = ("answers", "leader_epoch", "offset", "partition", "place")

    def __init__(
        self, partition: Partition, offset: int, answers: list[PartitionResult], place: int
    ) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.offset = offset
        self.answers = answers
        self.place = place

    @property
    def is_lost(self) -> bool:
        """Whether the term in which they were appended is over."""
        return self.leader_epoch != self.partition.leader_epoch

    def fail(self, code: ErrorCode) -> None:
        """Put an error in the place of the result, unless there is one."""
        result = self.answers[self.place]
        if code and not result.error_code:
            self.answers[self.place] = PartitionResult(result.partition, code)

    def acknowledge(self) -> None:
        """The high watermark has passed the records."""
        leadership = self.partition.leadership
        if leadership is not None:
            code = leadership.acknowledgement(self.offset)
            self.fail(ErrorCode.NONE if code is None else code)


def when_committed(
    uncommitted: list[Uncommitted], timeout_ms: int, done: Callable[[], None]
) -> None:
    """Call `done` once the result of each append is known, or the time is over."""
    if not uncommitted:
        done()
        return
    waiting = set(uncommitted)

    def ended(one: Uncommitted, lost: bool) -> None:
        if one not in waiting:
            return
        if lost:
            one.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            one.acknowledge()
        waiting.discard(one)
        if not waiting:
            timer.cancel()
            done()

    def time_is_up() -> None:
        late = list(waiting)
        waiting.clear()
        for one in late:
            one.partition.give_up(waiters[one])
            one.fail(ErrorCode.REQUEST_TIMED_OUT)
        done()

    timer = asyncio.get_running_loop().call_later(max(timeout_ms, 0) / 1000, time_is_up)
    waiters: dict[Uncommitted, int] = {}
    for one in uncommitted:
        if one.is_lost:  # while a flush was waited for
            ended(one, True)
        else:
            waiters[one] = one.partition.when_committed(
                one.offset, partial(ended, one, False), partial(ended, one, True)
            )
