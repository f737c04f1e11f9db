"""A share partition at work: how it is loaded, the timer of its locks, who waits on it.

Rules kept here:
1. It is loaded once, at its first use. Where that fails it is dropped, and the next use loads
   again. A start offset that is chosen then is stored before anything is delivered: otherwise the
   next leader would choose again, and with `latest` skip what was delivered and not acknowledged.
2. What changes it is reported to the fetches that wait on it, in the same turn.
3. Once dropped it no longer changes: outcomes of its writes only answer those who wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import structlog

from ottla.broker.context.clock import Clock
from ottla.broker.replicas.partition import Partition
from ottla.broker.scheduling.waiting import settled
from ottla.broker.sharing.persister import Persister, ShareKey
from ottla.broker.sharing.share_metrics import ShareMetrics
from ottla.broker.sharing.share_settings import GroupShareSettings, ShareGroupSettings
from ottla.later import Later
from ottla.share.acknowledging import acknowledge, release
from ottla.share.partition import SharePartition
from ottla.share.runs import NO_WRITE
from ottla.share.states import NO_START_OFFSET, Acknowledgement, StateWrite, StoredBatch
from ottla.wire.errors import ErrorCode, KafkaError

log = structlog.get_logger()

DROPPED_BY: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Errors of the coordinator after which the state here is invalid."""


class ShareFetchWaiter(Protocol):
    """A fetch that waits."""

    def poke(self) -> None:
        """Something has changed."""


class SharingTools(NamedTuple):
    """What every share partition of a broker uses."""

    clock: Clock
    persister: Persister
    settings: ShareGroupSettings
    metrics: ShareMetrics


class LivePartition:
    """A share partition that this broker serves."""

    def __init__(
        self,
        tools: SharingTools,
        key: ShareKey,
        partition: Partition,
        drop: Callable[[LivePartition], None],
    ) -> None:
        self._tools = tools
        self._drop = drop
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.machine: SharePartition | None = None
        """None until it is loaded."""
        self.dropped: ErrorCode | None = None
        """Why it was dropped."""
        self._waiters: dict[ShareFetchWaiter, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def settings(self) -> GroupShareSettings:
        """The group's settings as they are now."""
        return self._tools.settings.of(self.key.group)

    def now(self) -> int:
        """The time of locks."""
        return self._tools.clock.elapsed_ms()

    def ready(self) -> SharePartition | None:
        """The share partition with the settings of now; None while it is loaded or dropped."""
        machine = self.machine
        if machine is None or self.dropped is not None:
            return None
        machine.settings = self.settings.partition
        return machine

    async def load(self) -> None:
        """Read what is stored."""
        started = self.now()
        try:
            found = await self._tools.persister.read(self.key, self.leader_epoch)
            start = found.start_offset
            if start == NO_START_OFFSET:
                start = await self._begin(found.state_epoch)
        except KafkaError as problem:
            self.drop(problem.code)
            return
        except Exception:
            log.exception("failed to load share partition", share_partition=str(self.key))
            self.drop(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        if self.dropped is not None:
            return
        stored = [
            StoredBatch(
                each.first_offset, each.last_offset, each.delivery_state, each.delivery_count
            )
            for each in found.state_batches
        ]
        self.machine = SharePartition(self.settings.partition, start, stored, found.state_epoch)
        self._tools.metrics.loaded(self.now() - started)
        self.changed()

    async def _begin(self, state_epoch: int) -> int:
        """Choose the start offset and store it; raises KafkaError."""
        start = self._first_offset()
        chosen = StateWrite(NO_WRITE, start, 0, ())
        code = await settled(
            self._tools.persister.write(self.key, state_epoch, self.leader_epoch, chosen)
        )
        if code != ErrorCode.NONE:
            raise KafkaError(code)
        return start

    def _first_offset(self) -> int:
        """Where a group begins that has nothing stored; raises KafkaError."""
        partition, settings = self.partition, self.settings
        if settings.offset_reset == "earliest":
            return partition.log.start_offset
        end = partition.readable_to(False)
        before = settings.reset_before_ms()
        if before is None:
            if partition.leadership is not None:
                partition.leadership.check_latest()
            return end
        since = max(0, self._tools.clock.now_ms() - before)
        found = partition.log.offset_for_timestamp(since, end)
        return end if found is None else found.offset

    # Changes ------------------------------------------------------------------------------

    def acknowledge(self, member: str, given: Sequence[Acknowledgement]) -> Later[ErrorCode]:
        """Take a member's acknowledgements; the outcome is there when they are stored."""
        machine = self.ready()
        outcome: Later[ErrorCode] = Later()
        if machine is None:
            outcome.complete(self.dropped or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return outcome
        try:
            write = acknowledge(machine, self.now(), member, given)
        except KafkaError as problem:
            outcome.complete(problem.code)
            return outcome
        if write is None:
            outcome.complete(ErrorCode.NONE)
            return outcome
        self._store(machine, write, outcome)
        return outcome

    def release(self, member: str) -> None:
        """A member's session has ended: give back what it holds."""
        machine = self.ready()
        write = None if machine is None else release(machine, member)
        if machine is not None and write is not None:
            self._store(machine, write, Later())

    def _store(self, machine: SharePartition, write: StateWrite, outcome: Later[ErrorCode]) -> None:
        stored = self._tools.persister.write(
            self.key, machine.state_epoch, self.leader_epoch, write
        )

        def finish() -> None:
            code = stored.result()
            if self.dropped is None:
                if code == ErrorCode.NONE:
                    machine.written(write.number, self.now())
                else:
                    machine.write_failed(write.number, self.now())
                    if code in DROPPED_BY:
                        self.drop(code)
                self.changed()
            outcome.complete(code)

        stored.then(finish)

    def changed(self) -> None:
        """Records may be offered now that were not before."""
        self.arm()
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.poke()

    # Waiting ------------------------------------------------------------------------------

    def add_waiter(self, waiter: ShareFetchWaiter) -> None:
        """Poke this fetch at the next change."""
        self._waiters[waiter] = None

    def remove_waiter(self, waiter: ShareFetchWaiter) -> None:
        """Stop poking this fetch."""
        self._waiters.pop(waiter, None)

    def arm(self) -> None:
        """Set the timer: locks only end later, so one that is set is early enough."""
        machine = self.machine
        if machine is None or self.dropped is not None:
            return
        if self._timer is not None:
            if not machine.settings.redelivery_delay_ms:
                return
            self._timer.cancel()
            self._timer = None
        now = self.now()
        at = machine.wakes_at(now)
        if at is not None:
            seconds = max(0, at - now) / 1000
            self._timer = asyncio.get_running_loop().call_later(seconds, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        machine = self.ready()
        if machine is None:
            return
        before = machine.timed_out
        write = machine.expire(self.now())
        self._tools.metrics.timed_out(self.key, machine.timed_out - before)
        if write is not None:
            self._store(machine, write, Later())
        self.changed()

    def drop(self, reason: ErrorCode) -> None:
        """Stop serving it."""
        if self.dropped is not None:
            return
        self.dropped = reason
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._drop(self)
        self.changed()
