"""Start offsets of a share group: which there are, and how they are altered and deleted.

The offsets are the share coordinator's. Each change is noted here first, then carried out there,
and then noted as done: a coordinator that takes over knows what was under way.

Rules kept here:
1. Offsets are altered and deleted only while the group has no members (NON_EMPTY_GROUP).
2. Altering the offsets of a group that does not exist creates it, as in Kafka.
"""

from collections.abc import Iterable
from uuid import UUID

from msgspec import Struct

from ottla.coordinator.group_state import GroupState
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.member import Partitions
from ottla.coordinator.share.records import state_record
from ottla.coordinator.topics import TopicSummary
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponseTopic,
)


class OffsetsAlteration(Struct, frozen=True):
    """What is to be initialized again, and what is said of every topic of the request."""

    state_epoch: int
    offsets: dict[UUID, dict[int, int]]
    topics: list[AlterShareGroupOffsetsResponseTopic]


class OffsetsDeletion(Struct, frozen=True):
    """The share partitions whose state is to be deleted, and topics that have none."""

    partitions: dict[UUID, frozenset[int]]
    refused: list[DeleteShareGroupOffsetsResponseTopic] = []


def _empty_group(state: GroupState, group_id: str) -> ShareGroup:
    group = state.of_kind(group_id, ShareGroup)
    group.check_delete()
    return group


def begin_alteration(
    state: GroupState, request: AlterShareGroupOffsetsRequest, draft: ResultDraft
) -> OffsetsAlteration:
    """Note that the share partitions of an AlterShareGroupOffsets are initialized again."""
    if request.group_id in state.groups:
        group = _empty_group(state, request.group_id)
    else:
        group = ShareGroup(request.group_id)
    alteration = OffsetsAlteration(group.epoch, {}, [])
    names = {}
    for topic in request.topics:
        info = state.topics.by_name(topic.topic_name)
        answer = AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
        alteration.topics.append(answer)
        if info is not None:
            answer.topic_id = info.topic_id
        for partition in topic.partitions:
            number = partition.partition_index
            result = AlterShareGroupOffsetsResponsePartition(partition_index=number)
            answer.partitions.append(result)
            if info is None or not 0 <= number < info.partitions:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                names[info.topic_id] = info.name
                wanted = alteration.offsets.setdefault(info.topic_id, {})
                wanted[number] = partition.start_offset
    if alteration.offsets:
        partitions = {key: frozenset(numbers) for key, numbers in alteration.offsets.items()}
        changed = group.partitions.begun(partitions, names)
        draft.records.append(state_record(group.group_id, changed))
        draft.check_fits()
        # A member that joins meanwhile does not begin it again, at another offset.
        state.groups.setdefault(request.group_id, group)
        group.initializing_since.update(dict.fromkeys(partitions, draft.now))
    return alteration


def begin_deletion(
    state: GroupState, request: DeleteShareGroupOffsetsRequest, draft: ResultDraft
) -> OffsetsDeletion:
    """Note that the offsets of a DeleteShareGroupOffsets are being deleted."""
    group = _empty_group(state, request.group_id)
    deletion = OffsetsDeletion({}, [])
    for topic in request.topics:
        info = state.topics.by_name(topic.topic_name)
        found = frozenset[int]() if info is None else _deletable(group, info)
        if info is not None and found:
            deletion.partitions[info.topic_id] = found
            continue
        deletion.refused.append(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message=None if info is None else "There is no offset information to delete.",
            )
        )
    _note_deletion(group, deletion.partitions, draft)
    return deletion


def begin_group_deletion(
    state: GroupState, group_id: str, draft: ResultDraft
) -> OffsetsDeletion | None:
    """Note that a share group is being deleted with all its state; None for another kind."""
    group = state.find(group_id, ShareGroup)
    if group is None or not group.is_empty:
        return None
    partitions = {}
    for topic_id in {
        *group.partitions.initialized,
        *group.partitions.initializing,
        *group.partitions.deleting,
    }:
        info = state.topics.by_id(topic_id)
        if info is not None:
            partitions[topic_id] = _deletable(group, info)
    _note_deletion(group, partitions, draft)
    return OffsetsDeletion(partitions)


def _deletable(group: ShareGroup, topic: TopicSummary) -> frozenset[int]:
    """The partitions of a topic that may have state."""
    noted = group.partitions
    if topic.topic_id in noted.deleting:
        return frozenset(range(topic.partitions))
    return noted.initialized.get(topic.topic_id, frozenset()) | noted.initializing.get(
        topic.topic_id, frozenset()
    )


def _note_deletion(group: ShareGroup, partitions: Partitions, draft: ResultDraft) -> None:
    if partitions:
        changed = group.partitions.deletion_begun(partitions)
        draft.records.append(state_record(group.group_id, changed))
        draft.check_fits()


def end_deletion(
    state: GroupState, group_id: str, topics: Iterable[UUID], draft: ResultDraft
) -> None:
    """The state of topics is deleted."""
    group = state.find(group_id, ShareGroup)
    gone = frozenset(topics)
    if group is not None and gone & group.partitions.deleting:
        changed = group.partitions.forgotten(gone & group.partitions.deleting)
        draft.records.append(state_record(group_id, changed))


def topics_deleted(state: GroupState, topics: Iterable[TopicSummary], draft: ResultDraft) -> None:
    """Topics are gone: the share coordinator deletes their state by itself."""
    gone = {topic.topic_id for topic in topics}
    for group in state.groups.values():
        if not isinstance(group, ShareGroup):
            continue
        noted = group.partitions
        if gone & {*noted.initializing, *noted.initialized, *noted.deleting}:
            record = state_record(group.group_id, noted.forgotten(gone))
            if draft.has_room_for(record):
                draft.records.append(record)


def initialized_partitions(state: GroupState, group_id: str) -> dict[UUID, frozenset[int]]:
    """The share partitions of a group that have state; of a group that is not there, none."""
    group = state.find(group_id, ShareGroup)
    return {} if group is None else dict(group.partitions.initialized)
