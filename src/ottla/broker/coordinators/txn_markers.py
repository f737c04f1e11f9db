"""Writing a transaction's markers: here, or by another broker that leads.

Rules kept here:
1. A marker's outcome is reported when the marker is committed, and on disk where `flush.messages`
   says so; not when it is appended.
2. Partitions that one other broker leads are asked for together. A leader that cannot be reached is
   an outcome, too.
3. A partition that this broker's metadata no longer has (its topic was deleted, or recreated with
   fewer partitions) needs no marker. The coordinator decides that: what a partition's former leader
   answers is retried. A coordinator has seen every topic that its transactions were added to.
4. Where fewer replicas than `min.insync.replicas` are in sync a marker is refused at once, as in
   Kafka: it could not be committed, and waiting for that would block others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.broker.replication.link import LinkError
from ottla.coordinator.transactions.effects import TxnMarkers
from ottla.coordinator.transactions.state import TransactionPartition
from ottla.metadata.elections import NO_LEADER
from ottla.records.control import Marker, MarkerType
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla.broker.coordinators.context import CoordinatorContext

Outcomes = dict[TransactionPartition, int]
VERSION: Final = 2


def write_marker(
    context: CoordinatorContext,
    where: TransactionPartition,
    markers: TxnMarkers,
    on_done: Callable[[ErrorCode], object],
) -> ErrorCode | None:
    """End a transaction in one partition of this broker.

    The outcome as an error code, or None where it is reported later.
    """
    kind = MarkerType.COMMIT if markers.commit else MarkerType.ABORT
    marker = Marker(kind, markers.coordinator_epoch, markers.producer_id, markers.producer_epoch)
    try:
        partition = context.partitions.find(where.topic, where.partition)
    except KafkaError as problem:
        return problem.code
    leadership = partition.leadership
    if leadership is not None and not leadership.has_enough:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    try:
        context.end_transaction(partition, marker, markers.transaction_version)
    except KafkaError as problem:
        context.isr_leaving.append_failed(partition, problem.code)
        return problem.code
    end = partition.log.end_offset
    if partition.safe_offset >= end:
        return ErrorCode.NONE
    partition.when_committed(
        end,
        lambda: on_done(ErrorCode.NONE),
        lambda: on_done(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    )
    return None


def write_markers(
    context: CoordinatorContext, markers: TxnMarkers, on_done: Callable[[Outcomes], object]
) -> None:
    """End a transaction in all of its partitions; each outcome is reported once."""
    at_once: Outcomes = {}
    elsewhere: dict[int, list[TransactionPartition]] = {}

    def told_later(where: TransactionPartition) -> Callable[[ErrorCode], object]:
        return lambda code: on_done({where: code})

    for where in markers.partitions:
        topic = context.image.topics.get(where.topic)
        if topic is None or not 0 <= where.partition < len(topic.assignment):
            at_once[where] = ErrorCode.NONE
            continue
        leader = context.leader_of(where.topic, where.partition).id
        if leader not in (context.id, NO_LEADER):
            elsewhere.setdefault(leader, []).append(where)
        else:
            outcome = write_marker(context, where, markers, told_later(where))
            if outcome is not None:
                at_once[where] = outcome
    for leader, partitions in elsewhere.items():
        context.background.run(_send(context, leader, markers, partitions, on_done))
    if at_once:
        on_done(at_once)


async def _send(
    context: CoordinatorContext,
    leader: int,
    markers: TxnMarkers,
    partitions: list[TransactionPartition],
    on_done: Callable[[Outcomes], object],
) -> None:
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=markers.producer_id,
                producer_epoch=markers.producer_epoch,
                transaction_result=markers.commit,
                topics=_by_topic(partitions),
                coordinator_epoch=markers.coordinator_epoch,
                transaction_version=markers.transaction_version,
            )
        ]
    )
    outcomes: Outcomes = dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
    try:
        answer = await context.peers.ask(leader, request, WriteTxnMarkersResponse, VERSION)
        outcomes |= _outcomes(answer, outcomes)
    except LinkError:
        pass
    finally:
        on_done(outcomes)  # whatever happened: a marker without an outcome is never retried


def _by_topic(partitions: Iterable[TransactionPartition]) -> list[WritableTxnMarkerTopic]:
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for where in partitions:
        topic = topics.setdefault(where.topic, WritableTxnMarkerTopic(name=where.topic))
        topic.partition_indexes.append(where.partition)
    return list(topics.values())


def _outcomes(
    answer: WriteTxnMarkersResponse, asked: Mapping[TransactionPartition, int]
) -> Outcomes:
    found = {
        TransactionPartition(topic.name, partition.partition_index): partition.error_code
        for marker in answer.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
    return {where: code for where, code in found.items() if where in asked}
