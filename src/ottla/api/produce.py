"""Produce, versions 3 to 13: batches of records for the log.

Advertised from version 0, as Kafka does since KIP-896, because older librdkafka falls back to
formats of the past otherwise; a request below version 3 closes the connection.
KIPs: 98 (idempotence, transactions), 467 (faulty records), 516 (topic ids), 890 (verification),
951 (leader hints).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ottla.api.authorization import Inside
from ottla.api.produce_batches import (
    answer_later,
    append,
    begun_in,
    copied,
    each_batch,
    outcome_of,
)
from ottla.api.produce_many import MOST_READ_AT_ONCE, produce_many
from ottla.api.produce_replies import (
    check_may_write_internal,
    may_use_transaction,
    not_allowed,
    refusal,
    refuse_all,
    refuse_without_id,
    response,
)
from ottla.api.registry import Outcome, Request, raw_api
from ottla.broker.replicas.delayed_produce import ALL, Uncommitted, check_append
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.verification import Verdict, is_transactional, verify
from ottla.log.validation.inspection import LongBodyError
from ottla.security.authorizer import WRITE
from ottla.security.operations import Operation, ResourceType
from ottla.wire import produce as wire
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.headers import KEPT_FRAME_BYTES
from ottla.wire.produce import ManyPartitionsError, PartitionResult, ProduceRequest, TopicKey
from ottla.wire.reply import Parts


@raw_api(
    ApiKey.PRODUCE,
    wire.FIRST_VERSION,
    wire.LAST_VERSION,
    authorize=Inside(
        (Operation.WRITE, ResourceType.TOPIC), (Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
    ),
)
def produce(request: Request, body: memoryview, at: int) -> Outcome:
    """Append every batch, then answer when what acks promises is true."""
    version = request.version
    try:
        asked = wire.read_request(body, at, version, MOST_READ_AT_ONCE)
    except ManyPartitionsError:
        return produce_many(request, body, at)
    acks = asked.acks
    if not -1 <= acks <= 1:
        return (refuse_all(version, asked, ErrorCode.INVALID_REQUIRED_ACKS),)
    is_own = len(body) > KEPT_FRAME_BYTES
    topics = asked.topics
    if acks and len(topics) == 1:
        topic, only = topics[0]
        if len(only) == 1 and not is_transactional(only[0][1]):
            return _append_one(request, asked, topic, *only[0], is_own)
    for _, batches in asked.topics:
        for _, records in batches:
            if is_transactional(records):
                return _produce_in_transaction(request, asked, is_own)
    return append(request, asked, None, is_own=is_own)


def _append_one(
    request: Request,
    asked: ProduceRequest,
    topic: TopicKey,
    index: int,
    records: memoryview | None,
    is_own: bool,
) -> Outcome:
    """The usual request, without the loops: one batch, acks of 1 or all, no transaction."""
    node = request.node
    partition: Partition | None = None
    try:
        partition = node.partitions.find(topic, index)
        if not request.access.topics[partition.topic] & WRITE:
            raise not_allowed(request, partition.topic)
        if partition.is_internal:
            check_may_write_internal(request, partition)
        partition.metrics.produces += 1
        leadership = partition.leadership
        if leadership is not None:
            check_append(node.state, leadership, asked.acks)
        now = node.now_ms()
        rejected = node.rejected_batches or None
        if rejected is not None:
            rejected.check(
                (topic, index), records, partition.log.producers.by_id, node.elapsed_ms()
            )
        appended = partition.append(records, now, request.version)
        if rejected is not None and not appended.duplicate:
            rejected.accepted((topic, index), records)
    except LongBodyError:
        assert partition is not None  # it has looked into the batch
        partition.metrics.produces -= 1  # it is counted below
        return append(request, asked, None, is_own=is_own)
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        result = refusal(request, topic, partition, index, records, problem)
        return (response(request, [(topic, [result])]),)
    base_offset, append_time = appended.base_offset, appended.append_time
    start_offset = appended.log_start_offset
    must_commit = leadership is not None and (
        asked.acks == ALL and appended.last_offset >= partition.high_watermark
    )
    if must_commit or appended.must_flush:
        answers = [PartitionResult(index, 0, base_offset, append_time, start_offset)]
        to_flush = [partition] if appended.must_flush else []
        uncommitted = []
        if must_commit:
            uncommitted.append(Uncommitted(partition, appended.last_offset + 1, answers, 0))
        return answer_later(request, asked, [(topic, answers)], to_flush, uncommitted)
    return (
        wire.one_success(request.version, topic, index, base_offset, append_time, start_offset),
    )


# Transactions -----------------------------------------------------------------------------


def _produce_in_transaction(request: Request, asked: ProduceRequest, is_own: bool) -> Outcome:
    if asked.transactional_id is None or not may_use_transaction(request, asked):
        return (refuse_without_id(request.version, asked),)
    begun = [
        each
        for topic, index, records in each_batch(asked)
        if (each := begun_in(request, topic, index, records)) is not None
    ]
    verdict = verify(
        request.node.transactions,
        request.node.config,
        asked.transactional_id,
        request.version,
        begun,
    )
    if isinstance(verdict, dict):
        return append(request, asked, verdict, is_own=is_own)
    return _append_when_verified(request, asked if is_own else copied(asked), verdict)


async def _append_when_verified(
    request: Request, asked: ProduceRequest, verdict: Coroutine[Any, Any, Verdict]
) -> Parts | None:
    return await outcome_of(append(request, asked, await verdict, is_own=True))
