"""What the records of a streams group change in a group shard.

Rules kept here:
1. A group is of one kind. Records of a streams group take the place of a classic group, which may
   only stand for offsets that were read first; where a group of another kind is in the way, the log
   is wrong, and that raises.
2. Deletions touch only a streams group, since another kind may have followed.
"""

from ottla.coordinator.group import GroupType
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.record_keys import GroupKey
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.schemas import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from ottla.wire.message import Message


def replay_epoch(
    state: GroupState,
    key: StreamsGroupMetadataKey,
    value: StreamsGroupMetadataValue | None,
    producer_id: int,
) -> None:
    """The group has a new epoch, or was deleted."""
    group = _group(state, key, value)
    if group is not None and value is not None:
        group.replay_epoch(value)
    elif group is not None:
        del state.groups[key.group_id]


def replay_topology(
    state: GroupState,
    key: StreamsGroupTopologyKey,
    value: StreamsGroupTopologyValue | None,
    producer_id: int,
) -> None:
    """The group has a topology."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_topology(value)


def replay_member(
    state: GroupState,
    key: StreamsGroupMemberMetadataKey,
    value: StreamsGroupMemberMetadataValue | None,
    producer_id: int,
) -> None:
    """A member described itself, or left."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_member(key.member_id, value)


def replay_target_epoch(
    state: GroupState,
    key: StreamsGroupTargetAssignmentMetadataKey,
    value: StreamsGroupTargetAssignmentMetadataValue | None,
    producer_id: int,
) -> None:
    """There is a new target assignment."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_target_epoch(value)


def replay_target(
    state: GroupState,
    key: StreamsGroupTargetAssignmentMemberKey,
    value: StreamsGroupTargetAssignmentMemberValue | None,
    producer_id: int,
) -> None:
    """A member has another target."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_target(key.member_id, value)


def replay_current(
    state: GroupState,
    key: StreamsGroupCurrentMemberAssignmentKey,
    value: StreamsGroupCurrentMemberAssignmentValue | None,
    producer_id: int,
) -> None:
    """A member has other tasks."""
    group = _group(state, key, value)
    if group is not None:
        group.replay_current(key.member_id, value)


def _group(state: GroupState, key: GroupKey, value: Message | None) -> StreamsGroup | None:
    """The group that a record is of; None for a deletion in a group that is not there."""
    group = state.find(key.group_id, StreamsGroup)
    if group is None and value is not None:
        existing = state.groups.get(key.group_id)
        if existing is not None and existing.TYPE is not GroupType.CLASSIC:
            raise RuntimeError(
                f"a record of a streams group, but {key.group_id} is of kind {existing.TYPE.value}"
            )
        group = state.groups[key.group_id] = StreamsGroup(key.group_id)
    return group
