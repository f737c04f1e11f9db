"""What the record of a committed offset changes in a group shard.

Rules kept here:
1. An offset of a group that nobody knows makes a simple group: a classic one without members.
"""

from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.offsets.records import OffsetCommitKey, OffsetCommitValue


def replay_offset(
    state: GroupState, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int
) -> None:
    """An offset was committed, in a producer's transaction if an id is given, or deleted."""
    partition = (key.topic, key.partition)
    if value is None:
        state.offsets.replay_tombstone(key.group, partition)
        return
    if key.group not in state.groups:
        state.groups[key.group] = ClassicGroup(key.group)
    state.offsets.replay_commit(key.group, partition, value, producer_id)
