"""The batches of a Produce request: appended, and answered when what acks promises is true.

Rules kept here:
1. The failure of one batch is not that of the others. A partition has one batch in a request.
2. No request holds the loop: many batches, or many bytes of them, are appended in turns, and the
   batches that need a long look are looked at by a thread.
3. A produce that waits keeps a copy of its records: the receive buffer is used again, unless the
   frame was larger than KEPT_FRAME_BYTES.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from ottla.api.produce_replies import (
    Results,
    check_may_write_internal,
    endpoints_of,
    give_up,
    not_allowed,
    refusal,
    response,
)
from ottla.api.registry import Outcome, Request, error_of
from ottla.broker.replicas.decoding import unhurried
from ottla.broker.replicas.delayed_produce import (
    ALL,
    DelayedProduce,
    Uncommitted,
    check_append,
)
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.verification import (
    FIRST_THAT_ADDS,
    Verdict,
    VerificationGuard,
    is_transactional,
    overtaken,
)
from ottla.broker.scheduling.turns import Turns
from ottla.broker.scheduling.waiting import settled
from ottla.later import Later
from ottla.log.validation.inspection import Inspected, LongBodyError
from ottla.security.authorizer import WRITE
from ottla.wire import produce as wire
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.produce import PartitionResult, ProduceRequest, TopicKey
from ottla.wire.reply import Parts

MOST_AT_ONCE: Final = 100
"""Batches of one request that are appended in one turn of the loop."""

MOST_WRITTEN_AT_ONCE: Final = 1000
"""Results of one reply that are written on the loop, and appends that are waited for in one go."""

Moments = dict[tuple[TopicKey, int], VerificationGuard]


class _Batch(NamedTuple):
    """One batch of a request, and where its answer goes."""

    topic: TopicKey
    partition: int
    records: memoryview | None
    answers: list[PartitionResult]
    place: int


class _Late(NamedTuple):
    """A batch that a thread has to look into before it is appended."""

    topic: TopicKey
    partition: int
    records: memoryview
    answers: list[PartitionResult]
    place: int
    look: Callable[[memoryview], Inspected]


class Appending:
    """The batches of a request, and what became of them."""

    __slots__ = (
        "_asked",
        "_failed",
        "_is_own",
        "_late",
        "_moments",
        "_refused",
        "_request",
        "_results",
        "_seen",
        "_to_flush",
        "_uncommitted",
    )

    def __init__(
        self,
        request: Request,
        asked: ProduceRequest,
        refused: Verdict | None,
        is_own: bool,
        moments: Moments | None = None,
    ) -> None:
        self._is_own = is_own
        """True where the records stay as they are for as long as they are needed."""
        self._moments = moments
        """None: not noted yet."""
        self._request = request
        self._asked = asked
        self._refused = refused
        self._results: Results = []
        self._seen: set[tuple[TopicKey, int]] = set()
        self._to_flush: dict[Partition, None] = {}
        self._uncommitted: list[Uncommitted] = []
        self._late: list[_Late] = []
        self._failed = False

    def all_at_once(self) -> Outcome:
        """Append them; only those that a thread has to look into come later."""
        for topic, batches in self._asked.topics:
            answers: list[PartitionResult] = []
            self._results.append((topic, answers))
            for index, records in batches:
                self._add(topic, index, records, answers)
        if not self._late:
            return self._outcome()
        self._note_moments()
        return self._append_late()

    def in_turns(self) -> Coroutine[Any, Any, Parts | None]:
        """The same for many of them, whose bytes are the request's own."""
        self._note_moments()
        return self._append_in_turns()

    def _note_moments(self) -> None:
        """Before any wait: a transaction that ends meanwhile gets no further batch."""
        if self._moments is not None:
            return
        self._moments = {}
        if self._refused is not None:
            for topic, index, records in each_batch(self._asked):
                note_moment(self._request, topic, index, records, self._moments)

    async def _append_in_turns(self) -> Parts | None:
        turns = Turns()
        for topic, batches in self._asked.topics:
            answers: list[PartitionResult] = []
            self._results.append((topic, answers))
            for index, records in batches:
                self._add(topic, index, records, answers)
                await turns.give_way()
        return await self._append_late()

    async def _append_late(self) -> Parts | None:
        decoding = self._request.node.decoding
        for late in self._late:
            looked: Inspected | None = None
            look: Callable[[memoryview], Inspected] | None = late.look
            while look is not None:
                try:
                    looked = await decoding.of_batch(partial(look, late.records))
                except Exception as problem:  # noqa: BLE001 one batch's failure is not the others'
                    self._refuse(late, problem)
                    break
                look = self._append(late, looked)
        many = sum(len(answers) for _, answers in self._results) > MOST_WRITTEN_AT_ONCE
        return await (
            self._answer_many() if many and self._asked.acks else outcome_of(self._outcome())
        )

    async def _answer_many(self) -> Parts:
        """What `_outcome` says, where that takes long."""
        request, results = self._request, self._results
        if self._to_flush or self._uncommitted:
            request.node.delayed.produces += 1
            try:
                await self._made_safe()
            finally:
                request.node.delayed.produces -= 1
        endpoints = endpoints_of(request, results)
        return (
            await request.node.decoding.of_message(
                lambda: wire.response(request.version, results, endpoints=endpoints, each=unhurried)
            ),
        )

    async def _made_safe(self) -> None:
        await _flush(self._results, list(self._to_flush))
        turns = Turns()
        waiting: list[Later[None]] = []
        for start in range(0, len(self._uncommitted), MOST_WRITTEN_AT_ONCE):
            later: Later[None] = Later()
            some = self._uncommitted[start : start + MOST_WRITTEN_AT_ONCE]
            DelayedProduce(some, partial(later.complete, None)).start(self._asked.timeout_ms)
            waiting.append(later)
            await turns.give_way()
        for later in waiting:
            await settled(later)

    def _add(
        self,
        topic: TopicKey,
        index: int,
        records: memoryview | None,
        answers: list[PartitionResult],
    ) -> None:
        place = len(answers)
        answers.append(PartitionResult(index, ErrorCode.UNKNOWN_SERVER_ERROR))
        batch = _Batch(topic, index, records, answers, place)
        key = (topic, index)
        if key in self._seen:
            self._refuse(
                batch,
                KafkaError(
                    ErrorCode.INVALID_RECORD,
                    "more than one record batch for a partition in a request",
                ),
            )
            return
        self._seen.add(key)
        look = self._append(batch, None)
        if look is not None:
            assert records is not None
            own = records if self._is_own else memoryview(bytearray(records))
            self._late.append(_Late(topic, index, own, answers, place, look))

    def _append(
        self, batch: _Batch | _Late, looked: Inspected | None
    ) -> Callable[[memoryview], Inspected] | None:
        """Append a batch, or note why not; what a thread has to do first is returned."""
        request, node = self._request, self._request.node
        topic, index, records, answers, place = batch[:5]
        partition: Partition | None = None
        try:
            partition = node.partitions.find(topic, index)
            if not request.access.topics[partition.topic] & WRITE:
                raise not_allowed(request, partition.topic)
            if partition.is_internal:
                check_may_write_internal(request, partition)
            if looked is None:
                partition.metrics.produces += 1
            verdict = self._refused.get((partition.topic, index)) if self._refused else None
            if verdict is not None:
                self._refuse(batch, verdict, partition)
                answers[place] = answers[place]._replace(log_start_offset=-1)  # it was not asked
                return None
            moment = self._moments.get((topic, index)) if self._moments else None
            if moment is not None and moment.is_over:
                raise overtaken()
            if partition.leadership is not None:
                check_append(node.state, partition.leadership, self._asked.acks)
            now = node.now_ms()
            rejected = node.rejected_batches or None
            if rejected is not None:
                rejected.check(
                    (topic, index), records, partition.log.producers.by_id, node.elapsed_ms()
                )
            appended = partition.append(records, now, request.version, looked)
            if rejected is not None and not appended.duplicate:
                rejected.accepted((topic, index), records)
        except LongBodyError as long:
            return long.look
        except Exception as problem:  # noqa: BLE001 one batch's failure is not the others'
            self._refuse(batch, problem, partition)
            return None
        if appended.must_flush:
            self._to_flush[partition] = None
        if self._asked.acks == ALL and appended.last_offset >= partition.high_watermark:
            end = appended.last_offset + 1
            self._uncommitted.append(Uncommitted(partition, end, answers, place))
        answers[place] = PartitionResult(
            index, 0, appended.base_offset, appended.append_time, appended.log_start_offset
        )
        return None

    def _refuse(
        self, batch: _Batch | _Late, problem: Exception, partition: Partition | None = None
    ) -> None:
        topic, index, records, answers, place = batch[:5]
        self._failed = True
        answers[place] = refusal(self._request, topic, partition, index, records, problem)

    def _outcome(self) -> Outcome:
        request, results = self._request, self._results
        if self._asked.acks == 0:
            for partition in self._to_flush:
                request.node.background.run(partition.flush())
            if self._failed:
                give_up(results)
            return None
        if self._to_flush or self._uncommitted:
            return answer_later(
                request, self._asked, results, list(self._to_flush), self._uncommitted
            )
        return (response(request, results),)


def append(
    request: Request, asked: ProduceRequest, refused: Verdict | None, *, is_own: bool
) -> Outcome:
    """Append the batches, those that are not refused; `is_own`: the records can be kept.

    What can be kept is long: it is appended in turns, and so are many batches.
    """
    count = sum(len(batches) for _, batches in asked.topics)
    if count > (1 if is_own else MOST_AT_ONCE):
        own = asked if is_own else copied(asked)
        return Appending(request, own, refused, is_own=True).in_turns()
    return Appending(request, asked, refused, is_own).all_at_once()


def copied(asked: ProduceRequest) -> ProduceRequest:
    """The request with records of its own: the receive buffer does not wait for anyone."""
    return replace(
        asked,
        topics=[
            (
                topic,
                [
                    (index, None if records is None else memoryview(bytearray(records)))
                    for index, records in batches
                ],
            )
            for topic, batches in asked.topics
        ],
    )


def each_batch(asked: ProduceRequest) -> Iterator[tuple[TopicKey, int, memoryview | None]]:
    """All batches with their partitions."""
    for topic, batches in asked.topics:
        for index, records in batches:
            yield topic, index, records


def begun_in(
    request: Request, topic: TopicKey, index: int, records: memoryview | None
) -> tuple[Partition, memoryview] | None:
    """Where the transaction of a batch is to be known before it is appended; None: nowhere."""
    if records is None or not is_transactional(records):
        return None
    try:
        partition = request.node.partitions.find(topic, index)
        if partition.is_internal:
            check_may_write_internal(request, partition)
    except KafkaError:
        return None  # the append says what is wrong
    if not request.access.topics[partition.topic] & WRITE:
        return None  # as well
    return partition, records


def note_moment(
    request: Request, topic: TopicKey, index: int, records: memoryview | None, moments: Moments
) -> None:
    """Note what the partition knows of the transaction of a batch, if that can end meanwhile."""
    if request.version < FIRST_THAT_ADDS and records is not None and is_transactional(records):
        try:
            partition = request.node.partitions.find(topic, index)
        except KafkaError:
            return  # the append says what is wrong
        moments[topic, index] = VerificationGuard.of_batch(partition, records)


async def outcome_of(outcome: Outcome) -> Parts | None:
    """The reply, once it may leave; None with acks=0."""
    if isinstance(outcome, Later):
        return await settled(outcome)
    return await outcome if isinstance(outcome, Coroutine) else outcome


# Waiting ----------------------------------------------------------------------------------


def answer_later(
    request: Request,
    asked: ProduceRequest,
    results: Results,
    to_flush: list[Partition],
    uncommitted: list[Uncommitted],
) -> Outcome:
    """The answer waits for the fsync where `flush.messages` is reached, and for the commit."""
    later: Later[Parts | None] = Later()
    node = request.node
    node.delayed.produces += 1

    def answer() -> None:
        node.delayed.produces -= 1
        later.make(lambda: (response(request, results),))

    def answer_when_committed() -> None:
        DelayedProduce(uncommitted, answer).start(asked.timeout_ms)

    if to_flush:
        node.background.run(_flush_first(results, to_flush, answer_when_committed))
    else:
        answer_when_committed()
    return later


async def _flush_first(
    results: Results, partitions: list[Partition], then: Callable[[], None]
) -> None:
    await _flush(results, partitions)
    then()


async def _flush(results: Results, partitions: list[Partition]) -> None:
    unsafe: dict[tuple[TopicKey, int], KafkaError] = {}
    for partition in partitions:
        try:
            await partition.flush()
        except Exception as problem:  # noqa: BLE001 the client must not wait for ever
            failure = KafkaError(*error_of(problem))
            unsafe[partition.topic, partition.index] = failure
            unsafe[partition.topic_id.bytes, partition.index] = failure
    if not unsafe:
        return
    for topic, answers in results:
        for place, result in enumerate(answers):
            found = unsafe.get((topic, result.partition))
            if found is not None:
                answers[place] = PartitionResult(
                    result.partition, found.code, message=found.message
                )
