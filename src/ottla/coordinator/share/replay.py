"""What the records of a share group change in a group shard.

Rules kept here:
1. A group is of one kind. Records of a share group take the place of a classic group, which may
   only stand for offsets that were read first; where a group of another kind is in the way, the log
   is wrong, and that raises.
2. Deletions touch only a share group, since another kind may have followed.
"""

from ottla.coordinator.group import GroupType
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.record_keys import GroupKey
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.schemas import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from ottla.wire.message import Message


def replay_epoch(
    state: GroupState,
    key: ShareGroupMetadataKey,
    value: ShareGroupMetadataValue | None,
    producer_id: int,
) -> None:
    """The group has a new epoch, or was deleted."""
    group = _group(state, key, value)
    if group is not None and value is not None:
        group.replay_epoch(value)
    elif group is not None:
        del state.groups[key.group_id]


def replay_member(
    state: GroupState,
    key: ShareGroupMemberMetadataKey,
    value: ShareGroupMemberMetadataValue | None,
    producer_id: int,
) -> None:
    """A member described itself, or left."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_member(key.member_id, value)


def replay_target_epoch(
    state: GroupState,
    key: ShareGroupTargetAssignmentMetadataKey,
    value: ShareGroupTargetAssignmentMetadataValue | None,
    producer_id: int,
) -> None:
    """There is a new target assignment."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_target_epoch(value)


def replay_target(
    state: GroupState,
    key: ShareGroupTargetAssignmentMemberKey,
    value: ShareGroupTargetAssignmentMemberValue | None,
    producer_id: int,
) -> None:
    """A member has another target."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_target(key.member_id, value)


def replay_current(
    state: GroupState,
    key: ShareGroupCurrentMemberAssignmentKey,
    value: ShareGroupCurrentMemberAssignmentValue | None,
    producer_id: int,
) -> None:
    """A member reads other partitions."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_current(key.member_id, value)


def replay_partitions(
    state: GroupState,
    key: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
    producer_id: int,
) -> None:
    """Other share partitions have state."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_partitions(value)


def _group(state: GroupState, key: GroupKey, value: Message | None) -> ShareGroup | None:
    """The group that a record is of; None for a deletion in a group that is not there."""
    group = state.find(key.group_id, ShareGroup)
    if group is None and value is not None:
        existing = state.groups.get(key.group_id)
        if existing is not None and existing.TYPE is not GroupType.CLASSIC:
            raise RuntimeError(
                f"a record of a share group, but {key.group_id} is of kind {existing.TYPE.value}"
            )
        group = state.groups[key.group_id] = ShareGroup(key.group_id)
    return group
