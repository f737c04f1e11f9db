"""OffsetFetch, versions 1 to 10: what groups have committed.

Rules kept here:
1. A group that does not exist has committed nothing: offset -1, without an error.
2. Where the client asks for stable offsets, a partition with an offset in an open transaction is
   answered with UNSTABLE_OFFSET_COMMIT: the client tries again when the transaction has ended.
3. A group may refuse: a consumer group does so where a member gives another epoch than its present
   one (UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH for the whole group).
4. An offset of a topic that was deleted and recreated is not an offset of the new topic.
5. Versions before 8 ask for one group. Version 1 has no error for the group: it stands with each
   partition.
"""

from collections.abc import Container

from ottla.coordinator.group_state import GroupState
from ottla.coordinator.offsets.store import OffsetAndMetadata, PartitionKey
from ottla.coordinator.topics import TopicSummary
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import NO_UUID
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUPS_FROM = 8
TOPIC_IDS_FROM = 10
GROUP_ERROR_FROM = 2
NO_OFFSET = -1


def groups_of(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """The groups that a request of any version asks for."""
    if version >= GROUPS_FROM:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def reply_of(groups: list[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    """The answers for all groups of a request as one reply of its version."""
    if version >= GROUPS_FROM:
        return OffsetFetchResponse(groups=groups)
    group = groups[0]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def refuse(
    request: OffsetFetchRequestGroup, error: ErrorCode, version: int
) -> OffsetFetchResponseGroup:
    """An answer for a group that says why not."""
    reply = OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
    if version < GROUP_ERROR_FROM:
        reply.topics = [
            same_for_all(topic, error) for topic in request.topics or () if topic.partition_indexes
        ]
    return reply


def fetch(
    state: GroupState, request: OffsetFetchRequestGroup, version: int, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Answer for one group."""
    group = state.groups.get(request.group_id)
    if group is not None:
        try:
            group.check_fetch(request.member_id, request.member_epoch)
        except KafkaError as problem:
            return refuse(request, problem.code, version)
    reply = OffsetFetchResponseGroup(group_id=request.group_id)
    unstable: Container[PartitionKey] = ()
    if require_stable:
        unstable = state.offsets.pending_partitions(request.group_id)
    if request.topics is None:
        reply.topics = _all_topics(state, request.group_id, version, unstable)
        return reply
    for topic in request.topics:
        name = topic.name
        if version >= TOPIC_IDS_FROM:
            info = state.topics.by_id(topic.topic_id)
            if info is None:
                reply.topics.append(same_for_all(topic, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            name = info.name
        else:
            info = state.topics.by_name(name)
        partitions = []
        for number in topic.partition_indexes:
            committed = state.offsets.get(request.group_id, (name, number))
            if committed is not None and _is_of_another(committed, info):
                committed = None
            partitions.append(_partition(number, committed, (name, number) in unstable))
        reply.topics.append(
            OffsetFetchResponseTopics(name=name, topic_id=topic.topic_id, partitions=partitions)
        )
    return reply


def _all_topics(
    state: GroupState, group_id: str, version: int, unstable: Container[PartitionKey]
) -> list[OffsetFetchResponseTopics]:
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for (name, number), committed in state.offsets.of_group(group_id).items():
        info = state.topics.by_name(name)
        if _is_of_another(committed, info):
            continue
        if name not in topics:
            topics[name] = OffsetFetchResponseTopics(
                name=name, topic_id=NO_UUID if info is None else info.topic_id
            )
        topics[name].partitions.append(_partition(number, committed, (name, number) in unstable))
    if version >= TOPIC_IDS_FROM:
        # These replies cannot name a topic that no longer has an id.
        return [topic for topic in topics.values() if topic.topic_id != NO_UUID]
    return list(topics.values())


def _is_of_another(committed: OffsetAndMetadata, topic: TopicSummary | None) -> bool:
    """True for an offset of a topic that was deleted before this one of its name was made.

    When a topic is deleted its offsets go; but the coordinator may just have been on its way to
    another broker.
    """
    return topic is not None and committed.topic_id not in (NO_UUID, topic.topic_id)


def _partition(
    number: int, committed: OffsetAndMetadata | None, is_unstable: bool
) -> OffsetFetchResponsePartitions:
    if is_unstable:
        return OffsetFetchResponsePartitions(
            partition_index=number,
            committed_offset=NO_OFFSET,
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )
    if committed is None:
        return OffsetFetchResponsePartitions(partition_index=number, committed_offset=NO_OFFSET)
    return OffsetFetchResponsePartitions(
        partition_index=number,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def same_for_all(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=number, committed_offset=NO_OFFSET, error_code=error
            )
            for number in topic.partition_indexes
        ],
    )
