"""What the records of a consumer group change in a group shard.

Rules kept here:
1. A group is of one kind. Records of a consumer group take the place of a classic group, which may
   only stand for offsets that were read first; where a group of yet another kind is in the way, the
   log is wrong, and that raises.
2. Deletions touch only a consumer group, since another kind may have followed.
"""

from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla.coordinator.group import GroupType
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.record_keys import GroupKey
from ottla.wire.message import Message


def replay_epoch(
    state: GroupState,
    key: ConsumerGroupMetadataKey,
    value: ConsumerGroupMetadataValue | None,
    producer_id: int,
) -> None:
    """The group has a new epoch, or was deleted."""
    group = _group(state, key, value)
    if group is not None and value is not None:
        group.replay_epoch(value)
    elif group is not None:
        del state.groups[key.group_id]


def replay_topics(
    state: GroupState,
    key: ConsumerGroupPartitionMetadataKey,
    value: ConsumerGroupPartitionMetadataValue | None,
    producer_id: int,
) -> None:
    """A Kafka before 4.1 wrote the group's topics, or they were deleted."""
    group = _group(state, key, value)
    if group is not None:
        group.has_topic_records = value is not None


def replay_member(
    state: GroupState,
    key: ConsumerGroupMemberMetadataKey,
    value: ConsumerGroupMemberMetadataValue | None,
    producer_id: int,
) -> None:
    """A member described itself, or left."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_member(key.member_id, value)


def replay_target_epoch(
    state: GroupState,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
    producer_id: int,
) -> None:
    """There is a new target assignment."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_target_epoch(value)


def replay_target(
    state: GroupState,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
    producer_id: int,
) -> None:
    """A member has another target."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_target(key.member_id, value)


def replay_current(
    state: GroupState,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
    producer_id: int,
) -> None:
    """A member owns other partitions."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_current(key.member_id, value)


def replay_regex(
    state: GroupState,
    key: ConsumerGroupRegularExpressionKey,
    value: ConsumerGroupRegularExpressionValue | None,
    producer_id: int,
) -> None:
    """A pattern was looked up, or is no longer used."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_regex(key.regular_expression, value)


def _group(state: GroupState, key: GroupKey, value: Message | None) -> ConsumerGroup | None:
    """The group that a record is of; None for a deletion in a group that is not there."""
    group = state.find(key.group_id, ConsumerGroup)
    if group is None and value is not None:
        existing = state.groups.get(key.group_id)
        if existing is not None and existing.TYPE is not GroupType.CLASSIC:
            raise RuntimeError(
                f"a record of a consumer group, but {key.group_id} is of kind {existing.TYPE.value}"
            )
        group = state.groups[key.group_id] = ConsumerGroup(key.group_id)
    return group
