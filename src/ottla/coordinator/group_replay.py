"""What each record of `__consumer_offsets` changes in a group shard.

Rules kept here:
1. While a partition is loaded, a classic group is recreated from each of its records. Later its
   records only say what is durable of it (`stored`): the live group is what they were made of.
2. A group is of one kind. Records of a consumer group take the place of a classic group; deletions
   touch only a group of their own kind, since one of the other kind may have followed.
3. An offset of a group that nobody knows makes a simple group: one without members.
"""

from ottla.coordinator.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupKey,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberKey,
)
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.offsets.records import OffsetCommitKey, OffsetCommitValue
from ottla.wire.message import Message


def replay(
    state: GroupState,
    key: Message,
    value: Message | None,
    producer_id: int,
    *,
    is_loading: bool,
) -> None:
    """Apply one record."""
    if isinstance(key, OffsetCommitKey):
        partition = (key.topic, key.partition)
        if isinstance(value, OffsetCommitValue):
            if key.group not in state.groups:
                state.groups[key.group] = ClassicGroup(key.group)
            state.offsets.replay_commit(key.group, partition, value, producer_id)
        else:
            state.offsets.replay_tombstone(key.group, partition)
    elif isinstance(key, GroupMetadataKey):
        _replay_classic(state, key.group, value, is_loading)
    elif isinstance(key, GroupKey | MemberKey | ConsumerGroupRegularExpressionKey):
        _replay_consumer(state, key, value)


def _replay_classic(
    state: GroupState, group_id: str, value: Message | None, is_loading: bool
) -> None:
    group = state.groups.get(group_id)
    if isinstance(value, GroupMetadataValue):
        if is_loading or not isinstance(group, ClassicGroup):
            state.groups[group_id] = ClassicGroup.from_value(group_id, value)
        else:
            group.stored = value
    elif isinstance(group, ClassicGroup):
        group.move_to(ClassicState.DEAD, group.state_timestamp)
        del state.groups[group_id]


def _replay_consumer(
    state: GroupState,
    key: GroupKey | MemberKey | ConsumerGroupRegularExpressionKey,
    value: Message | None,
) -> None:
    group = state.groups.get(key.group_id)
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return
        group = state.groups[key.group_id] = ConsumerGroup(key.group_id)
    match key, value:
        case ConsumerGroupCurrentMemberAssignmentKey(), (
            ConsumerGroupCurrentMemberAssignmentValue() | None
        ):
            group.replay_current(key.member_id, value)
        case ConsumerGroupMemberMetadataKey(), ConsumerGroupMemberMetadataValue() | None:
            group.replay_member(key.member_id, value)
        case ConsumerGroupTargetAssignmentMemberKey(), (
            ConsumerGroupTargetAssignmentMemberValue() | None
        ):
            group.replay_target(key.member_id, value)
        case ConsumerGroupTargetAssignmentMetadataKey(), (
            ConsumerGroupTargetAssignmentMetadataValue() | None
        ):
            group.replay_target_epoch(value)
        case ConsumerGroupRegularExpressionKey(), (ConsumerGroupRegularExpressionValue() | None):
            group.replay_regex(key.regular_expression, value)
        case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue():
            group.replay_epoch(value)
        case ConsumerGroupMetadataKey(), None:
            del state.groups[key.group_id]
        case ConsumerGroupPartitionMetadataKey(), _:
            group.has_topic_records = value is not None
