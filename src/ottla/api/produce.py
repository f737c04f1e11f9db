"""Produce, versions 3 to 13: batches of records for the log.

Advertised from version 0, as Kafka does since KIP-896, because older librdkafka falls back to
formats of the past otherwise; a request below version 3 closes the connection.
KIPs: 98 (idempotence, transactions), 467 (faulty records), 516 (topic ids), 890 (verification),
951 (leader hints).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from ottla.api.registry import Outcome, Request, error_of, raw_api
from ottla.broker.replicas.acknowledging import ALL, Uncommitted, check_append, when_committed
from ottla.broker.replicas.leader_hints import leader_endpoints, leader_hint
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.verification import (
    FIRST_THAT_ADDS,
    Moment,
    Verdict,
    is_transactional,
    overtaken,
    verify,
)
from ottla.broker.scheduling.turns import Turns
from ottla.broker.scheduling.waiting import settled
from ottla.later import Later
from ottla.log.validation.inspection import LongBodyError, Looked
from ottla.wire import produce as wire
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.produce import PartitionResult, ProduceRequest, TopicKey
from ottla.wire.reply import Parts, UnanswerableError

ADMIN_CLIENT_ID = "__admin_client"

WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors with which Kafka does not say where the log starts (-1)."""

MOST_AT_ONCE: Final = 100
"""Batches of one request that are appended in one turn of the loop."""

Results = list[tuple[TopicKey, list[PartitionResult]]]


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
    look: Callable[[memoryview], Looked]


@raw_api(ApiKey.PRODUCE, wire.FIRST_VERSION, wire.LAST_VERSION)
def produce(request: Request, body: memoryview, at: int) -> Outcome:
    """Append every batch, then answer when what acks promises is true."""
    version = request.version
    asked = wire.read_request(body, at, version)
    acks = asked.acks
    if not -1 <= acks <= 1:
        return (_refuse_all(version, asked, ErrorCode.INVALID_REQUIRED_ACKS),)
    topics = asked.topics
    if acks and len(topics) == 1:
        topic, only = topics[0]
        if len(only) == 1 and not is_transactional(only[0][1]):
            return _append_one(request, asked, topic, *only[0])
    for _, batches in asked.topics:
        for _, records in batches:
            if is_transactional(records):
                return _produce_in_transaction(request, asked)
    return _append(request, asked, None)


def _append_one(
    request: Request,
    asked: ProduceRequest,
    topic: TopicKey,
    index: int,
    records: memoryview | None,
) -> Outcome:
    """The usual request, without the loops: one batch, acks of 1 or all, no transaction."""
    node = request.node
    partition: Partition | None = None
    try:
        partition = node.partitions.find(topic, index)
        if partition.leadership is not None:
            return _append(request, asked, None)
        if partition.is_internal:
            _check_may_write_internal(request, partition)
        partition.metrics.produces += 1
        now = node.now_ms()
        refusals = node.refusals or None
        if refusals is not None:
            refusals.check(
                (topic, index), records, partition.log.producers.by_id, node.elapsed_ms()
            )
        appended = partition.append(records, now, request.version)
        if refusals is not None and not appended.duplicate:
            refusals.accepted((topic, index), records)
    except LongBodyError:
        return _append(request, asked, None)
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        refusal = _refused(request, topic, partition, index, records, problem)
        return (_response(request, [(topic, [refusal])]),)
    base_offset, append_time = appended.base_offset, appended.append_time
    start_offset = appended.log_start_offset
    if appended.must_flush:
        result = PartitionResult(index, 0, base_offset, append_time, start_offset)
        return _answer_later(request, asked, [(topic, [result])], [partition], [])
    return (
        wire.one_success(request.version, topic, index, base_offset, append_time, start_offset),
    )


class _Appending:
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
        self, request: Request, asked: ProduceRequest, refused: Verdict | None, is_own: bool
    ) -> None:
        self._is_own = is_own
        """True where the records are copies: the receive buffer waits for nobody."""
        self._moments: dict[tuple[TopicKey, int], Moment] = {}
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
        """Before any wait: a transaction that ends meanwhile gets no batch any more."""
        if self._refused is None or self._request.version >= FIRST_THAT_ADDS:
            return
        for topic, batches in self._asked.topics:
            for index, records in batches:
                if records is not None and is_transactional(records):
                    try:
                        partition = self._request.node.partitions.find(topic, index)
                    except KafkaError:
                        continue  # the append says what is wrong
                    self._moments[topic, index] = Moment.of_batch(partition, records)

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
            looked: Looked | None = None
            look: Callable[[memoryview], Looked] | None = late.look
            while look is not None:
                try:
                    looked = await decoding.of_batch(partial(look, late.records))
                except Exception as problem:  # noqa: BLE001 one batch's failure is not the others'
                    self._refuse(late, problem)
                    break
                look = self._append(late, looked)
        return await _settled(self._outcome())

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
        self, batch: _Batch | _Late, looked: Looked | None
    ) -> Callable[[memoryview], Looked] | None:
        """Append a batch, or note why not; what a thread has to do first is returned."""
        request, node = self._request, self._request.node
        topic, index, records, answers, place = batch[:5]
        partition: Partition | None = None
        try:
            partition = node.partitions.find(topic, index)
            if partition.is_internal:
                _check_may_write_internal(request, partition)
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
                check_append(node, partition.leadership, self._asked.acks)
            now = node.now_ms()
            refusals = node.refusals or None
            if refusals is not None:
                refusals.check(
                    (topic, index), records, partition.log.producers.by_id, node.elapsed_ms()
                )
            appended = partition.append(records, now, request.version, looked)
            if refusals is not None and not appended.duplicate:
                refusals.accepted((topic, index), records)
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
        answers[place] = _refused(self._request, topic, partition, index, records, problem)

    def _outcome(self) -> Outcome:
        request, results = self._request, self._results
        if self._asked.acks == 0:
            for partition in self._to_flush:
                request.node.background.run(partition.flush())
            if self._failed:
                _give_up(results)
            return None
        if self._to_flush or self._uncommitted:
            return _answer_later(
                request, self._asked, results, list(self._to_flush), self._uncommitted
            )
        return (_response(request, results),)


def _append(
    request: Request, asked: ProduceRequest, refused: Verdict | None, *, is_own: bool = False
) -> Outcome:
    if sum(len(batches) for _, batches in asked.topics) > MOST_AT_ONCE:
        own = asked if is_own else _copied(asked)
        return _Appending(request, own, refused, is_own=True).in_turns()
    return _Appending(request, asked, refused, is_own).all_at_once()


# Transactions -----------------------------------------------------------------------------


def _produce_in_transaction(request: Request, asked: ProduceRequest) -> Outcome:
    if asked.transactional_id is None:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if asked.acks == 0:
            raise UnanswerableError(f"produce request with acks=0 failed: {code.name}")
        return (_refuse_all(request.version, asked, code),)
    begun: list[tuple[Partition, memoryview]] = []
    for topic, batches in asked.topics:
        for index, records in batches:
            if records is not None and is_transactional(records):
                try:
                    partition = request.node.partitions.find(topic, index)
                    if partition.is_internal:
                        _check_may_write_internal(request, partition)
                    begun.append((partition, records))
                except KafkaError:
                    pass  # the append says what is wrong
    verdict = verify(request.node, asked.transactional_id, request.version, begun)
    if isinstance(verdict, dict):
        return _append(request, asked, verdict)
    return _append_when_verified(request, _copied(asked), verdict)


def _copied(asked: ProduceRequest) -> ProduceRequest:
    """The request with records of its own: the receive buffer does not wait for anybody."""
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


async def _append_when_verified(
    request: Request, asked: ProduceRequest, verdict: Coroutine[Any, Any, Verdict]
) -> Parts | None:
    return await _settled(_append(request, asked, await verdict, is_own=True))


async def _settled(outcome: Outcome) -> Parts | None:
    """The reply, once it may be told; None for who wants none."""
    if isinstance(outcome, Later):
        return await settled(outcome)
    return await outcome if isinstance(outcome, Coroutine) else outcome


# Errors -----------------------------------------------------------------------------------


def _check_may_write_internal(request: Request, partition: Partition) -> None:
    """Only coordinators write there, and an administrator's client, as in Kafka."""
    if request.client_id != ADMIN_CLIENT_ID:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Cannot append to internal topic {partition.topic}",
        )


def _response(request: Request, results: Results) -> bytes:
    hinted = {each.leader[0] for _, answers in results for each in answers if each.leader}
    endpoints = leader_endpoints(request.node, request.listener, hinted) if hinted else ()
    return wire.response(request.version, results, endpoints=endpoints)


def _refused(
    request: Request,
    topic: TopicKey,
    partition: Partition | None,
    index: int,
    records: memoryview | None,
    problem: Exception,
) -> PartitionResult:
    node = request.node
    reason, message = error_of(problem)
    code = node.refusals.told((topic, index), records, reason, node.elapsed_ms())
    start = -1
    leader = None
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader = leader_hint(node, topic, index)
    if partition is not None:
        partition.metrics.failed_produces += 1
        node.roles.refused(partition, reason)
        if reason not in WITHOUT_LOG_START:
            start = partition.log.start_offset
    blamed = problem.record_errors if isinstance(problem, KafkaError) else ()
    return PartitionResult(
        index, code, log_start_offset=start, message=message, leader=leader, record_errors=blamed
    )


def _refuse_all(version: int, asked: ProduceRequest, code: ErrorCode) -> bytes:
    return wire.response(
        version,
        [
            (topic, [PartitionResult(index, code) for index, _ in batches])
            for topic, batches in asked.topics
        ],
    )


def _give_up(results: Results) -> None:
    """With acks=0 an error cannot be told; closing the connection makes the client look again."""
    codes = {result.error_code for _, answers in results for result in answers}
    names = ", ".join(sorted(ErrorCode(code).name for code in codes if code))
    raise UnanswerableError(f"produce request with acks=0 failed: {names}")


# Waiting ----------------------------------------------------------------------------------


def _answer_later(
    request: Request,
    asked: ProduceRequest,
    results: Results,
    to_flush: list[Partition],
    uncommitted: list[Uncommitted],
) -> Outcome:
    """The answer waits for the fsync where `flush.messages` is reached, and for the commit."""
    later: Later[Parts | None] = Later()
    node = request.node
    node.parked_produces += 1

    def answer() -> None:
        node.parked_produces -= 1
        later.make(lambda: (_response(request, results),))

    def answer_when_committed() -> None:
        when_committed(uncommitted, asked.timeout_ms, answer)

    if to_flush:
        node.background.run(_flush(results, to_flush, answer_when_committed))
    else:
        answer_when_committed()
    return later


async def _flush(results: Results, partitions: list[Partition], then: Callable[[], None]) -> None:
    unsafe: dict[tuple[TopicKey, int], KafkaError] = {}
    for partition in partitions:
        try:
            await partition.flush()
        except Exception as problem:  # noqa: BLE001 the client must not wait for ever
            failure = KafkaError(*error_of(problem))
            unsafe[partition.topic, partition.index] = failure
            unsafe[partition.topic_id.bytes, partition.index] = failure
    for topic, answers in results:
        for place, result in enumerate(answers):
            found = unsafe.get((topic, result.partition))
            if found is not None:
                answers[place] = PartitionResult(
                    result.partition, found.code, message=found.message
                )
    then()
