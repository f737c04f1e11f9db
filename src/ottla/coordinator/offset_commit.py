"""OffsetCommit, versions 2 to 10, and TxnOffsetCommit, versions 0 to 5.

Rules kept here:
1. A partition that does not exist is answered with UNKNOWN_TOPIC_OR_PARTITION (a topic id that
   nobody knows: UNKNOWN_TOPIC_ID) whatever the group says; the others get the group's answer.
2. Without member and generation anyone may commit to a group that is empty or does not exist yet:
   that is how simple consumers and administrators do. Inside a transaction nobody needs them, but
   where they are given they are checked.
3. A member of a consumer group commits with its epoch; an older one is good for partitions that it
   had in that epoch already.
4. A commit keeps a classic member's session alive.
5. Offsets of a transaction are written in the producer's name; they count when its marker comes.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from ottla.coordinator.classic_group import ClassicGroup, ClassicState
from ottla.coordinator.classic_join import membership_error
from ottla.coordinator.classic_rebalance import expect_heartbeat
from ottla.coordinator.consumer_group import ConsumerGroup
from ottla.coordinator.consumer_heartbeat import known_member
from ottla.coordinator.consumer_member import ConsumerMember
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.offset_records import (
    NO_TIMESTAMP,
    OFFSET_VALUE_VERSION,
    OFFSET_VALUE_VERSION_WITH_EXPIRY,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.coordinator.record_codec import write_record
from ottla.coordinator.shard import CoordinatorRecord, RequestContext
from ottla.coordinator.step import Step
from ottla.coordinator.topics import TopicInfo, TopicView
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import NO_UUID
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

TOPIC_IDS_FROM = 10
GROUP_ID_NOT_FOUND_FROM = 9
"""Earlier versions say ILLEGAL_GENERATION where there is no group."""
CONSUMER_PROTOCOL_FROM = 9
NO_RETENTION = -1

Partition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
PartitionCheck = Callable[[UUID, int], None]
"""Raises where a member may not commit for a partition."""


class Committer(NamedTuple):
    """Who commits."""

    group_id: str
    member_id: str
    instance_id: str | None
    epoch: int
    """The generation of a classic group, the member's epoch in a consumer group."""
    is_transactional: bool
    version: int


def commit(
    state: GroupState, request: OffsetCommitRequest, context: RequestContext, step: Step
) -> OffsetCommitResponse:
    """Handle an OffsetCommit."""
    committer = Committer(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        is_transactional=False,
        version=context.version,
    )
    expire_at = NO_TIMESTAMP
    if request.retention_time_ms != NO_RETENTION:
        expire_at = step.now + request.retention_time_ms
    work = _Commit(state, committer, step, expire_at)
    reply = OffsetCommitResponse()
    for topic in request.topics:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if context.version >= TOPIC_IDS_FROM:
            info = state.topics.by_id(topic.topic_id)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID if info is None else unknown
        else:
            info = state.topics.by_name(topic.name)
        errors = work.add(info, topic.partitions, unknown)
        reply.topics.append(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition, error in zip(topic.partitions, errors, strict=True)
                ],
            )
        )
    if work.records:
        step.records.extend(work.records)
        _keep_session(state, committer, step)
    return reply


def commit_in_transaction(
    state: GroupState, request: TxnOffsetCommitRequest, context: RequestContext, step: Step
) -> TxnOffsetCommitResponse:
    """Handle a TxnOffsetCommit. The producer was checked by who appends the records."""
    committer = Committer(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        is_transactional=True,
        version=context.version,
    )
    work = _Commit(state, committer, step, NO_TIMESTAMP)
    reply = TxnOffsetCommitResponse()
    for topic in request.topics:
        errors = work.add(
            state.topics.by_name(topic.name),
            topic.partitions,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        reply.topics.append(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition, error in zip(topic.partitions, errors, strict=True)
                ],
            )
        )
    step.records.extend(work.records)
    return reply


class _Commit:
    """Makes the records of one request; the committer is checked when they are first needed."""

    def __init__(
        self, state: GroupState, committer: Committer, step: Step, expire_at: int
    ) -> None:
        self.records: list[CoordinatorRecord] = []
        self._state = state
        self._committer = committer
        self._now = step.now
        self._expire_at = expire_at
        self._refusal: ErrorCode | None = None
        self._check: PartitionCheck | None = None
        self._is_checked = False

    def add(
        self, topic: TopicInfo | None, partitions: Sequence[Partition], unknown: ErrorCode
    ) -> list[ErrorCode]:
        """Commit for the partitions of a topic; return what to say of each."""
        return [
            unknown
            if topic is None or not 0 <= partition.partition_index < topic.partitions
            else self._add(topic, partition)
            for partition in partitions
        ]

    def _add(self, topic: TopicInfo, partition: Partition) -> ErrorCode:
        raise NotImplementedError
