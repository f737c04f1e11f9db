"""One coordinator partition, live: the pure shard, joined to its log, its timers and its clients.

Rules kept here (the shard's own are in `coordinator/shard.py`):
1. A Result's records are appended as one batch, or as several where it says that they can be
   divided, and replayed before anything else is handled.
2. Every reply and completion, also one that only read, is held until all that was appended before
   it is committed, and on disk where `flush.messages` says so: no client sees what a failover or a
   failure of power could undo.
3. Where an append fails, or the partition moves away, the shard is dropped: waiting requests get
   NOT_COORDINATOR. It is loaded again from the log before it answers anyone. A shard that has not
   changed by deciding is kept: Kafka's goes back to what it was, and a full disk would have it
   loaded for every commit. Where that cannot be said, loading takes a small share of the time.
4. While it loads, requests get COORDINATOR_LOAD_IN_PROGRESS. One loads after the other, so that
   a broker which takes over many continues serving everything else.
5. Records that linger (`ask_lingering`) are replayed at once and appended together a little later,
   in batches that fit: before the shard is asked anything else, and before any reply leaves the
   broker (`lingering.py`). Where that fails, the replies of those whose records they were do not
   leave, and until an append succeeds records do not linger.
6. A request that has something to write is refused with COORDINATOR_NOT_AVAILABLE while fewer
   replicas than `min.insync.replicas` are in sync, as in Kafka: shards that look at `largest_batch`
   do so themselves, before they change anything. What nobody asked for (timers) is written all the
   same: it counts when it is committed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import structlog

from ottla.broker.coordinators.latest_records import LatestRecords
from ottla.broker.coordinators.lingering import LingeringRecords
from ottla.broker.coordinators.shard_timers import ShardTimers
from ottla.broker.replicas.log_reading import batches_of
from ottla.broker.replicas.partition import Partition
from ottla.coordinator.batch_sizes import NOTHING, batches, largest_size
from ottla.coordinator.shard import (
    CoordinatorRecord,
    Deferred,
    Effect,
    ProducerIdentity,
    Result,
)
from ottla.later import Later
from ottla.log.config import FOREVER
from ottla.records import Record, decode_short_batch, encode_batch
from ottla.wire.batch import BatchHeader
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.coordinators.context import CoordinatorContext

log = structlog.get_logger()

RELOAD_SECONDS: Final = 5.0
SHORTEST_REST_SECONDS: Final = 1.0
RESTS_AS_LONG_AS_LOADS: Final = 10
"""How much longer than it took to load again a shard is not loaded once more."""
MOST_LINGERING_BYTES: Final = 64 << 10
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class Shard(Protocol):
    """What every shard can do."""

    skipped: Counter[str]
    """What `replay` skipped because nobody knows it, with the number of records."""

    def replay(self, record: CoordinatorRecord) -> None:
        """Take in a record of the partition."""

    def loaded(self, now: int) -> Result[None]:
        """All records are replayed."""

    def expire(self, key: Any, now: int) -> Result[None]:
        """A timer is due."""


S = TypeVar("S", bound=Shard)
R = TypeVar("R")


class _Held(NamedTuple):
    """How a reply waits: for the commit, and how long."""

    waiter: int
    timer: asyncio.TimerHandle


class ShardRunner(Generic[S]):
    """Runs one shard."""

    decides_only = False
    """True where handlers of requests change nothing: all that they decide is in their records."""
    questions: tuple[type[Exception], ...] = ()
    """What the shard raises to ask for something, before it changes anything."""

    def __init__(
        self, context: CoordinatorContext, partition: Partition, make_shard: Callable[[], S]
    ) -> None:
        self._context = context
        self.partition = partition
        self._make_shard = make_shard
        self._shard: S | None = None
        self._timers = ShardTimers(context.holds_lease, lambda key: self._expire(key))
        self._parked: dict[int, Later[Any]] = {}
        self._held: dict[Later[Any], _Held] = {}
        """Replies that wait for what was appended before them to be committed."""
        self._loading: asyncio.Task[None] | None = None
        self._ended = False
        self._rests_until = 0.0
        """When it may be loaded again; the loop's time."""
        self._load_seconds = 0.0
        self._is_asked = False
        """Whether a request is decided on, not a timer."""
        self._was_refused = False
        """Whether the latest append failed."""
        self._lingering = LingeringRecords()

    @property
    def shard(self) -> S:
        """The shard; raises the error a client gets while there is none."""
        if self._shard is None:
            if self._loading is not None:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if not self._context.holds_lease():
            self._timers.refused()
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR,
                "the lease of this broker has expired; another broker may have taken over",
            )
        return self._shard

    @property
    def largest_batch(self) -> int:
        """What the partition takes at the moment, for the decision at hand; 0: nothing."""
        leadership = self.partition.leadership
        if leadership is not None and self._is_asked and not leadership.has_enough:
            return NOTHING
        return self.partition.log.largest_batch

    @property
    def may_linger(self) -> bool:
        """Whether records are safe as soon as they are appended, as far as can be known."""
        partition = self.partition
        return (
            partition.leadership is None
            and not self._was_refused
            and partition.log.config.flush_messages == FOREVER
        )

    # Life ---------------------------------------------------------------------------------

    def load(self) -> None:
        """Begin to replay the partition."""
        if self._loading is None and not self._ended:
            self._loading = asyncio.get_running_loop().create_task(self._load())

    def _load_again(self) -> None:
        if self._loading is None and not self._ended:
            self._loading = asyncio.get_running_loop().create_task(self._rest_and_load())

    async def _rest_and_load(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._rests_until - loop.time()))
        await self._load()
        rest = max(SHORTEST_REST_SECONDS, RESTS_AS_LONG_AS_LOADS * self._load_seconds)
        self._rests_until = loop.time() + rest

    async def _load(self) -> None:
        try:
            async with self._context.loading:
                began = monotonic()
                shard = self._make_shard()
                gathered = LatestRecords(shard.replay)
                count = 0
                async for header, batch in batches_of(self.partition):
                    count += self.replay_batch(shard, gathered, header, batch)
                gathered.replay_all()
                self._shard = shard
                self._load_seconds = monotonic() - began
            for unknown, skipped in shard.skipped.items():
                log.warning(
                    "coordinator skipped unknown records; a newer broker may have written them",
                    partition=str(self.partition),
                    unknown=unknown,
                    records=skipped,
                )
            if count:
                log.info("coordinator loaded", partition=str(self.partition), records=count)
        except Exception as problem:
            # Whatever it was: it is logged, and retried, or its groups would never be served.
            expected = isinstance(problem, KafkaError | OSError | ValueError)
            log.error(
                "failed to load coordinator; retrying",
                partition=str(self.partition),
                reason=str(problem),
                exc_info=None if expected else problem,
            )
            asyncio.get_running_loop().call_later(RELOAD_SECONDS, self.load)
            return
        finally:
            self._loading = None
        self.perform(lambda shard, now: shard.loaded(now))

    def replay_batch(
        self, shard: S, gathered: LatestRecords, header: BatchHeader, batch: memoryview
    ) -> int:
        """Replay one batch of the partition, or gather it; returns the number of its records."""
        if header.is_control:
            return 0
        records = self.records_of(header, batch)
        for record in records:
            gathered.put(record.key or b"", record.value)
        return len(records)

    def records_of(self, header: BatchHeader, batch: memoryview) -> list[Record]:
        """The records of a batch; one that cannot be read does not keep the others from it."""
        try:
            return decode_short_batch(batch)
        except KafkaError as problem:
            log.error(
                "coordinator skipped an unreadable batch",
                partition=str(self.partition),
                offset=header.base_offset,
                reason=problem.message,
            )
            return []

    def drop(self, *, reload: bool) -> None:
        """Forget the state: what it holds can no longer be promised."""
        self._shard = None
        self._lingering.drop()
        self._timers.clear()
        waiting = [*self._parked.values(), *self._held]
        self._parked.clear()
        for later in [*self._held]:
            self._release(later)
        for later in waiting:
            later.fail(KafkaError(ErrorCode.NOT_COORDINATOR))
        if reload:
            self._load_again()

    def end(self) -> None:
        """The partition leaves this broker, or the broker stops."""
        self.write_lingering()
        self._ended = True
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None
        self.drop(reload=False)

    # Work ---------------------------------------------------------------------------------

    def ask(
        self, decide: Callable[[S, int], Result[R]], *, decides_only: bool = False
    ) -> R | Later[R]:
        """Let the shard decide on a request; the reply, now or later.

        With `decides_only` this handler is known to change nothing. Raises KafkaError where there
        is no shard to ask, or where its decision could not be written.
        """
        if self._lingering.records:
            self.write_lingering()
        shard = self.shard
        self._is_asked = True
        try:
            result = decide(shard, self._context.now_ms())
        finally:
            self._is_asked = False
        if result.records:
            self._check_enough(result, decides_only or self.decides_only)
        waiting: Later[R] | None = None
        if isinstance(result.reply, Deferred):
            waiting = self._parked[result.reply.token] = Later()
        self._carry_out(shard, result, decides_only=decides_only or self.decides_only)
        if waiting is not None:
            return waiting
        reply: R = result.reply  # type: ignore[assignment]  # not Deferred: seen above
        if self._committed():
            return reply
        held: Later[R] = Later()
        self._hold(held, reply)
        return held

    def ask_lingering(self, decide: Callable[[S, int], Result[R]], connection_id: int) -> R:
        """Let the shard decide on a request whose records may be appended with those of others.

        The reply must not leave before `write_out` has said that they are. Raises KafkaError as
        `ask` does.
        """
        shard = self.shard
        result = decide(shard, self._context.now_ms())
        records, result.records = result.records, []
        lingering = self._lingering
        if records:
            size = largest_size(records)
            if lingering.records:
                size += lingering.size
                if size > MOST_LINGERING_BYTES or size > self.partition.log.largest_batch:
                    size -= lingering.size
                    self.write_lingering()
                    if self._shard is not shard:
                        raise KafkaError(ErrorCode.NOT_COORDINATOR)
            if not lingering.records:
                self._context.lingering.pending.append(self)
            lingering.add(records, size)
            for record in records:
                self.replay_own(shard, record, result)
        if lingering.records:
            lingering.connections.add(connection_id)
        if result.timers or result.completions:
            self._carry_out(shard, result)
        assert not isinstance(result.reply, Deferred)
        return result.reply

    def write_out(self) -> set[int]:
        """Append the records that linger; the connections whose replies may not leave after it."""
        self.write_lingering()
        return self._lingering.take_lost()

    def write_lingering(self) -> None:
        """Append the records that linger; where that fails the shard is dropped."""
        records = self._lingering.records
        if records:
            try:
                self._append_batch(records, None)
                self._lingering.written()
            except KafkaError as problem:
                self._tell_dropped(problem)
                self.drop(reload=True)

    def perform(self, decide: Callable[[S, int], Result[Any]]) -> None:
        """Let the shard do something that nobody waits for; a failure drops it."""
        shard = self._shard
        if shard is None:
            return
        try:
            self._carry_out(shard, decide(shard, self._context.now_ms()))
        except KafkaError as problem:
            self._tell_dropped(problem)
        except self.questions:
            raise
        except Exception:
            # A timer that is lost, or a state that is half changed, would hang its groups.
            log.exception("coordinator failed; loading it again", partition=str(self.partition))
            self.drop(reload=True)

    def _tell_dropped(self, problem: KafkaError) -> None:
        """A full disk drops coordinators as long as it is full, and has a line already."""
        is_storage = problem.code == ErrorCode.KAFKA_STORAGE_ERROR or (
            isinstance(problem.__cause__, KafkaError)
            and problem.__cause__.code == ErrorCode.KAFKA_STORAGE_ERROR
        )
        if not is_storage or self.partition.log.offline:
            log.error(
                "coordinator failed; loading it again",
                partition=str(self.partition),
                reason=str(problem),
            )

    def _carry_out(self, shard: S, result: Result[Any], *, decides_only: bool = False) -> None:
        if result.records:
            self._append(shard, result, decides_only)
        for change in result.timers:
            self._timers.change(change)
        for done in result.completions:
            self._complete(done.token, done.reply)
        for effect in result.effects:
            self._execute_when_committed(shard, effect)

    def _execute_when_committed(self, shard: S, effect: Effect) -> None:
        def execute() -> None:
            if self._shard is shard:
                self.execute(shard, effect)

        # In a later call of the loop: what an effect brings about may come back to this shard.
        self.partition.when_committed(
            self.partition.log.end_offset,
            lambda: asyncio.get_running_loop().call_soon(execute),
        )

    def execute(self, shard: S, effect: Effect) -> None:
        """Execute an effect. Shards have none, unless their runner overrides this."""
        raise TypeError(f"{self.partition} cannot execute {type(effect).__name__}")

    def _check_enough(self, result: Result[Any], decides_only: bool) -> None:
        """Refuse to write what too few replicas would get; raises KafkaError."""
        leadership = self.partition.leadership
        if leadership is not None and not leadership.has_enough:
            if not decides_only and result.producer is None:
                self.drop(reload=True)
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{self.partition} has fewer in-sync replicas than min.insync.replicas",
            )

    def _append(self, shard: S, result: Result[Any], decides_only: bool) -> None:
        producer = result.producer
        self.write_lingering()
        if self._shard is not shard:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        divided = [result.records]
        if not result.is_atomic:
            divided = batches(result.records, self.partition.log.largest_batch)
        try:
            for records in divided:
                self._append_batch(records, producer)
                for record in records:
                    self.replay_own(shard, record, result)
        except KafkaError as problem:
            if producer is not None:
                # The producer may not write: its failure, not ours. Handlers of transactional
                # requests change nothing before their records are replayed.
                raise
            if not decides_only or not self.partition.leads or self.partition.log.offline:
                self.drop(reload=True)
            # What is too large does not become smaller by asking again.
            code = ErrorCode.NOT_COORDINATOR
            if problem.code in _TOO_LARGE:
                code = ErrorCode.UNKNOWN_SERVER_ERROR
            raise KafkaError(code, problem.message) from problem

    def _append_batch(
        self, records: list[CoordinatorRecord], producer: ProducerIdentity | None
    ) -> None:
        now = self._context.now_ms()
        batch = encode_batch(
            [
                Record(offset, now, record.key, record.value)
                for offset, record in enumerate(records)
            ],
            producer_id=-1 if producer is None else producer.producer_id,
            producer_epoch=-1 if producer is None else producer.producer_epoch,
            transactional=producer is not None,
        )
        try:
            self.partition.append_own(memoryview(bytearray(batch)), now)
            self._was_refused = False
        except KafkaError as problem:
            self._was_refused = True
            self._context.isr_leaving.append_failed(self.partition, problem.code)
            raise

    def replay_own(self, shard: S, record: CoordinatorRecord, result: Result[Any]) -> None:
        """Replay a record that was appended just now."""
        shard.replay(record)

    # Replies ------------------------------------------------------------------------------

    def _committed(self) -> bool:
        return self.partition.safe_offset >= self.partition.log.end_offset

    def _hold(self, later: Later[R], reply: R) -> None:
        """Give a reply once everything that was appended is committed, unless it gets lost.

        Where that takes longer than `offsets.commit.timeout.ms` the client gets a retriable error.
        """
        end = self.partition.log.end_offset
        if self.partition.safe_offset >= end:
            later.complete(reply)
            return

        def committed() -> None:
            self._release(later)
            later.complete(reply)

        def time_is_up() -> None:
            self._release(later)
            later.fail(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))

        patience = self._context.config.offsets_commit_timeout_ms / 1000
        waiter = self.partition.when_committed(end, committed)
        timer = asyncio.get_running_loop().call_later(patience, time_is_up)
        self._held[later] = _Held(waiter, timer)

    def _release(self, later: Later[Any]) -> None:
        """Stop holding a reply."""
        held = self._held.pop(later)
        held.timer.cancel()
        self.partition.give_up(held.waiter)

    def _complete(self, token: int, reply: Any) -> None:
        later = self._parked.pop(token, None)
        if later is not None:
            self._hold(later, reply)

    def _expire(self, key: Hashable) -> None:
        self.perform(lambda shard, now: shard.expire(key, now))
