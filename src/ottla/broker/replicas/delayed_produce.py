"""Produce requests that wait until their records are committed, and their acknowledgement.

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
from ottla.broker.replicas.commit_waiters import NOBODY
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
    """Records that are appended, not committed, and whose result is in a response."""

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


class DelayedProduce:
    """The answer to a produce with acks=all, while some of its records are not committed."""

    __slots__ = ("_done", "_timer", "_waiting")

    def __init__(self, uncommitted: list[Uncommitted], done: Callable[[], None]) -> None:
        """`done` is called once, when the result of each append is known."""
        self._waiting = dict.fromkeys(uncommitted, NOBODY)
        """Those whose result is not known, and the number by which each can give up."""
        self._done = done
        self._timer: asyncio.TimerHandle | None = None

    def start(self, timeout_ms: int) -> None:
        """Wait, but no longer than the request says."""
        if not self._waiting:
            self._done()
            return
        seconds = max(timeout_ms, 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)
        for one in list(self._waiting):
            if one.is_lost:  # while a flush was waited for
                self._complete(one, is_lost=True)
            else:
                number = one.partition.when_committed(
                    one.offset, partial(self._complete, one), partial(self._complete, one, True)
                )
                if one in self._waiting:
                    self._waiting[one] = number

    def _complete(self, one: Uncommitted, is_lost: bool = False) -> None:
        if self._waiting.pop(one, None) is None:
            return
        if is_lost:
            one.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            one.acknowledge()
        if not self._waiting:
            assert self._timer is not None
            self._timer.cancel()
            self._done()

    def _expire(self) -> None:
        late, self._waiting = self._waiting, {}
        for one, number in late.items():
            one.partition.give_up(number)
            one.fail(ErrorCode.REQUEST_TIMED_OUT)
        self._done()
