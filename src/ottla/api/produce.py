"""Produce, versions 3 to 13: batches of records for the log.

Advertised from version 0, as Kafka does since KIP-896, because older librdkafka falls back to
formats of the past otherwise; a request below version 3 closes the connection.
KIPs: 98 (idempotence, transactions), 467 (faulty records), 516 (topic ids), 890 (verification),
951 (leader hints).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from ottla.api.registry import (
    Outcome,
    Parts,
    Pending,
    Request,
    UnanswerableError,
    error_of,
    raw_api,
)
from ottla.broker.acknowledging import ALL, Uncommitted, check_append, when_committed
from ottla.broker.leader_hints import leader_endpoints, leader_hint
from ottla.broker.partition import Partition
from ottla.broker.verification import Verdict, is_transactional, verify
from ottla.wire import produce as wire
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.produce import PartitionResult, ProduceRequest, TopicKey

ADMIN_CLIENT_ID = "__admin_client"

Results = list[tuple[TopicKey, list[PartitionResult]]]


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
            refusals.check((topic, index), records, partition.log.producers.by_id, now)
        appended = partition.append(records, now, request.version)
        if refusals is not None and not appended.duplicate:
            refusals.accepted((topic, index), records)
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


def _append(request: Request, asked: ProduceRequest, refused: Verdict | None) -> Outcome:
    node = request.node
    version = request.version
    now = node.now_ms()
    results: Results = []
    to_flush: dict[Partition, None] = {}
    uncommitted: list[Uncommitted] = []
    seen: set[tuple[TopicKey, int]] = set()
    failed = False
    for topic, batches in asked.topics:
        answers: list[PartitionResult] = []
        results.append((topic, answers))
        for index, records in batches:
            partition: Partition | None = None
            try:
                if len(asked.topics) > 1 or len(batches) > 1:
                    _check_named_once(seen, topic, index)
                partition = node.partitions.find(topic, index)
                if partition.is_internal:
                    _check_may_write_internal(request, partition)
                partition.metrics.produces += 1
                if refused and (partition.topic, index) in refused:
                    raise refused[partition.topic, index]
                if partition.leadership is not None:
                    check_append(node, partition.leadership, asked.acks)
                refusals = node.refusals or None
                if refusals is not None:
                    refusals.check((topic, index), records, partition.log.producers.by_id, now)
                appended = partition.append(records, now, version)
                if refusals is not None and not appended.duplicate:
                    refusals.accepted((topic, index), records)
                if appended.must_flush:
                    to_flush[partition] = None
                if asked.acks == ALL and appended.last_offset >= partition.high_watermark:
                    end = appended.last_offset + 1
                    uncommitted.append(Uncommitted(partition, end, answers, len(answers)))
                answers.append(
                    PartitionResult(
                        index,
                        0,
                        appended.base_offset,
                        appended.append_time,
                        appended.log_start_offset,
                    )
                )
            except Exception as problem:  # noqa: BLE001 one batch's failure is not the others'
                failed = True
                answers.append(_refused(request, topic, partition, index, records, problem))
    if asked.acks == 0:
        for partition in to_flush:
            request.node.background.run(partition.flush())
        if failed:
            _give_up(results)
        return None
    if to_flush or uncommitted:
        return _answer_later(request, asked, results, list(to_flush), uncommitted)
    return (_response(request, results),)


# Transactions -----------------------------------------------------------------------------


def _produce_in_transaction(request: Request, asked: ProduceRequest) -> Outcome:
    if asked.transactional_id is None:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if asked.acks == 0:
            raise UnanswerableError(f"a produce with acks=0 failed: {code.name}")
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
) -> Parts:
    outcome = _append(request, asked, await verdict)
    if outcome is None:
        return ()
    if isinstance(outcome, Pending):
        ready = asyncio.get_running_loop().create_future()
        outcome.notify = lambda: ready.set_result(None)
        await ready
        outcome = outcome.parts
    assert isinstance(outcome, tuple | list)
    return outcome


# Errors -----------------------------------------------------------------------------------


def _check_may_write_internal(request: Request, partition: Partition) -> None:
    """Only coordinators write there, and an administrator's client, as in Kafka."""
    if request.client_id != ADMIN_CLIENT_ID:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Cannot append to internal topic {partition.topic}",
        )


def _check_named_once(seen: set[tuple[TopicKey, int]], topic: TopicKey, index: int) -> None:
    key = (topic, index)
    if key in seen:
        raise KafkaError(ErrorCode.INVALID_RECORD, "two batches for one partition in a request")
    seen.add(key)


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
    code = node.refusals.told((topic, index), records, reason, node.now_ms())
    start = -1
    leader = None
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader = leader_hint(node, topic, index)
    if partition is not None:
        partition.metrics.failed_produces += 1
        node.roles.refused(partition, reason)
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
    raise UnanswerableError(f"a produce with acks=0 failed: {names}")


# Waiting ----------------------------------------------------------------------------------


def _answer_later(
    request: Request,
    asked: ProduceRequest,
    results: Results,
    to_flush: list[Partition],
    uncommitted: list[Uncommitted],
) -> Outcome:
    """The answer waits for the fsync where `flush.messages` is reached, and for the commit."""
    pending = Pending()
    node = request.node
    node.parked_produces += 1

    def answer() -> None:
        node.parked_produces -= 1
        pending.make(lambda: (_response(request, results),))

    def answer_when_committed() -> None:
        when_committed(uncommitted, asked.timeout_ms, answer)

    if to_flush:
        node.background.run(_flush(results, to_flush, answer_when_committed))
    else:
        answer_when_committed()
    return pending


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
