"""OffsetCommit, versions 2 to 10, and TxnOffsetCommit, versions 0 to 5.

Rules kept here:
1. A partition that does not exist is answered with UNKNOWN_TOPIC_OR_PARTITION (a topic id that
   nobody knows: UNKNOWN_TOPIC_ID) whatever the group says; the others get the group's answer.
2. Without member and generation anyone may commit to a group that does not exist yet: that is how
   simple consumers and administrators do. A group that exists says who may (`Group.check_commit`).
3. Offsets of a transaction are written in the producer's name; they count when its marker comes.
4. A commit is written whole or not at all: one that does not fit into a batch is refused.
"""

from collections.abc import Iterable, Iterator
from itertools import repeat

from ottla.coordinator.batch_sizes import fits
from ottla.coordinator.group import CommitPartition, Committer, CommitTopic
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.offsets.records import (
    NO_TIMESTAMP,
    OFFSET_VALUE_VERSION_WITH_EXPIRY,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.coordinator.record_codec import write_offset, write_record
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import CoordinatorRecord, RequestContext
from ottla.coordinator.topics import TopicSummary
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import NO_UUID
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

TOPIC_IDS_FROM = 10
GROUP_ID_NOT_FOUND_FROM = 9
"""Earlier versions say ILLEGAL_GENERATION where there is no group."""
NO_RETENTION = -1
LATEST_TIMESTAMP = 2**63 - 1

_NO_SUCH_PARTITION = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def commit(
    state: GroupState, request: OffsetCommitRequest, context: RequestContext, draft: ResultDraft
) -> OffsetCommitResponse:
    """Handle an OffsetCommit."""
    topics = []
    for topic in request.topics:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if context.version >= TOPIC_IDS_FROM:
            info = state.topics.by_id(topic.topic_id)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID if info is None else unknown
        else:
            info = state.topics.by_name(topic.name)
        topics.append(CommitTopic(info, topic.partitions, unknown))
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
        expire_at = min(draft.now + request.retention_time_ms, LATEST_TIMESTAMP)
    errors = _commit(state, committer, topics, expire_at, draft)
    answers = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            partitions.append(  # noqa: PERF401 a comprehension is one call more, for every commit
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=next(errors)
                )
            )
        answers.append(
            OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return OffsetCommitResponse(topics=answers)


def commit_in_transaction(
    state: GroupState, request: TxnOffsetCommitRequest, context: RequestContext, draft: ResultDraft
) -> TxnOffsetCommitResponse:
    """Handle a TxnOffsetCommit. Whether the producer may is for the log to say, on append."""
    committer = Committer(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        is_transactional=True,
        version=context.version,
    )
    topics = [
        CommitTopic(state.topics.by_name(topic.name), topic.partitions) for topic in request.topics
    ]
    errors = _commit(state, committer, topics, NO_TIMESTAMP, draft)
    return _txn_reply(request, errors)


def refuse_txn_commit(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """The same error for all partitions."""
    return _txn_reply(request, repeat(error))


def _txn_reply(
    request: TxnOffsetCommitRequest, errors: Iterator[ErrorCode]
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=next(errors)
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _commit(
    state: GroupState,
    committer: Committer,
    topics: list[CommitTopic],
    expire_at: int,
    draft: ResultDraft,
) -> Iterator[ErrorCode]:
    """Write what may be committed; return what to say of each partition, in order."""
    errors: list[ErrorCode] = []
    refusal: ErrorCode | None = None
    """What the group says: asked once, and only where there is a partition to commit for."""
    largest = state.config.offset_metadata_max_bytes
    for topic in topics:
        info, unknown = topic.info, topic.unknown
        for partition in topic.partitions:
            if info is None or not 0 <= partition.partition_index < info.partitions:
                errors.append(unknown)
                continue
            if refusal is None:
                refusal = _refusal(state, committer, topics, draft)
            if refusal is not ErrorCode.NONE:
                errors.append(refusal)
            elif len(partition.committed_metadata or "") > largest:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            else:
                errors.append(ErrorCode.NONE)
                draft.records.append(_record(committer, info, partition, expire_at, draft.now))
    if not fits(draft.records, draft.limit):
        draft.records.clear()
        errors = [code if code in _NO_SUCH_PARTITION else draft.refusal for code in errors]
    return iter(errors)


def _refusal(
    state: GroupState, committer: Committer, topics: Iterable[CommitTopic], draft: ResultDraft
) -> ErrorCode:
    """Why the committer may not, NONE where it may; that keeps its session alive."""
    group = state.groups.get(committer.group_id)
    if group is None:
        return _refusal_without_group(committer)
    try:
        group.check_commit(committer, topics)
    except KafkaError as problem:
        if committer.is_transactional and problem.code is ErrorCode.STALE_MEMBER_EPOCH:
            return ErrorCode.ILLEGAL_GENERATION
        return problem.code
    group.keep_session(committer, draft)
    return ErrorCode.NONE


def _refusal_without_group(committer: Committer) -> ErrorCode:
    if committer.epoch < 0:
        return ErrorCode.NONE
    # There is no group whose member this could be.
    if committer.version >= GROUP_ID_NOT_FOUND_FROM and not committer.is_transactional:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def _record(
    committer: Committer, topic: TopicSummary, partition: CommitPartition, expire_at: int, now: int
) -> CoordinatorRecord:
    key = OffsetCommitKey(
        group=committer.group_id, topic=topic.name, partition=partition.partition_index
    )
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now,
        expire_timestamp=expire_at,
        # As in Kafka, what is committed in a transaction does not know its topic's id.
        topic_id=NO_UUID if committer.is_transactional else topic.topic_id,
    )
    if expire_at == NO_TIMESTAMP:
        return write_offset(key, value)
    # That version has no fields for these two.
    value.leader_epoch, value.topic_id = -1, NO_UUID
    return write_record(key, value, OFFSET_VALUE_VERSION_WITH_EXPIRY)
