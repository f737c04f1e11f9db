"""OffsetDelete, DeleteGroups, and the end of offsets and groups that are no longer used.

Rules kept here:
1. Offsets of a topic that a group's members use cannot be deleted (GROUP_SUBSCRIBED_TO_TOPIC), nor
   any of a group with members whose topics the coordinator cannot know (NON_EMPTY_GROUP).
2. A group with members cannot be deleted. With an empty one go its offsets, pending ones too.
3. Offsets expire `offsets.retention.minutes` after: the group became empty; where it has no members
   by nature (simple consumers), the commit; where it has, the commit, for topics that its members
   do not use. A classic group whose topics are unknown keeps its offsets as long as it has members.
4. An offset with something pending does not expire. An empty group whose offsets are all gone goes
   too.
5. When a topic is deleted, its offsets go.
6. Each deletion makes sense alone, so that they can be written in several batches; the group's own
   come last. What does not even fit into a batch alone stays, and its group with it.
"""

from collections.abc import Iterable

from ottla.coordinator.group_state import GroupState
from ottla.coordinator.offsets.records import NO_TIMESTAMP, OffsetCommitKey
from ottla.coordinator.offsets.store import OffsetAndMetadata, PartitionKey
from ottla.coordinator.record_codec import write_tombstone
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import CoordinatorRecord
from ottla.coordinator.topics import TopicSummary
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def delete_offsets(
    state: GroupState, request: OffsetDeleteRequest, draft: ResultDraft
) -> OffsetDeleteResponse:
    """Handle an OffsetDelete."""
    group = state.group(request.group_id)
    group.check_offset_delete()
    committed = state.offsets.of_group(request.group_id)
    pending = state.offsets.pending_partitions(request.group_id)
    reply = OffsetDeleteResponse()
    for topic in request.topics:
        info = state.topics.by_name(topic.name)
        is_used = group.is_subscribed_to(topic.name)
        answers = []
        for partition in topic.partitions:
            number = partition.partition_index
            error = ErrorCode.NONE
            if info is None or not 0 <= number < info.partitions:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif is_used:
                error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif (topic.name, number) in committed or (topic.name, number) in pending:
                tombstone = _offset_tombstone(request.group_id, (topic.name, number))
                if draft.has_room_for(tombstone):
                    draft.records.append(tombstone)
                else:
                    error = draft.refusal
            answers.append(OffsetDeleteResponsePartition(partition_index=number, error_code=error))
        reply.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
    return reply


def delete_group(state: GroupState, group_id: str, draft: ResultDraft) -> None:
    """Delete an empty group with its offsets."""
    group = state.group(group_id)
    group.check_delete()
    partitions = {
        **state.offsets.of_group(group_id),
        **state.offsets.pending_partitions(group_id),
    }
    tombstones = [_offset_tombstone(group_id, partition) for partition in partitions]
    tombstones += group.tombstones()
    if not all(map(draft.has_room_for, tombstones)):
        raise KafkaError(draft.refusal)
    draft.records += tombstones


def delete_offsets_of_topics(
    state: GroupState, topics: Iterable[TopicSummary], draft: ResultDraft
) -> None:
    """Delete all offsets of topics that are gone."""
    for topic in topics:
        found = dict.fromkeys(state.offsets.of_topic(topic.name, topic.topic_id))
        tombstones = (_offset_tombstone(group_id, partition) for group_id, partition in found)
        draft.records += filter(draft.has_room_for, tombstones)


def expire_group(state: GroupState, group_id: str, draft: ResultDraft, most: int) -> bool:
    """Delete what has expired of a group's offsets, and the group itself if nothing is left.

    False where there is more of it: this many offsets are deleted in one call.
    """
    group = state.groups[group_id]
    committed = state.offsets.of_group(group_id)
    pending = state.offsets.pending_partitions(group_id)
    since = group.offset_expiration()
    if committed and since is None:
        return True
    is_used: dict[str, bool] = {}
    tombstones: list[CoordinatorRecord] = []
    for partition, offset in committed.items():
        topic = partition[0]
        if topic not in is_used:
            is_used[topic] = group.is_subscribed_to(topic)
        if (
            since is not None
            and not is_used[topic]
            and partition not in pending
            and _has_expired(offset, since(offset), state.config.offsets_retention_ms, draft.now)
        ):
            if len(tombstones) >= most:
                draft.records += tombstones
                return False
            tombstone = _offset_tombstone(group_id, partition)
            if draft.has_room_for(tombstone):
                tombstones.append(tombstone)
    is_left = len(tombstones) < len(committed)
    if not is_left and not pending and group.may_expire:
        own = list(group.tombstones())
        if all(map(draft.has_room_for, own)):
            tombstones += own
    draft.records += tombstones
    return True


def _has_expired(offset: OffsetAndMetadata, since: int, retention_ms: int, now: int) -> bool:
    if offset.expire_timestamp != NO_TIMESTAMP:
        return now >= offset.expire_timestamp
    return now - since >= retention_ms


def _offset_tombstone(group_id: str, partition: PartitionKey) -> CoordinatorRecord:
    topic, number = partition
    return write_tombstone(OffsetCommitKey(group=group_id, topic=topic, partition=number))
