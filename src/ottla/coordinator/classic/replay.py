"""What the record of a classic group changes in a group shard.

Rules kept here:
1. While a partition is loaded, a classic group is recreated from each of its records. Later its
   records only say what is durable of it (`stored`): the live group is what they were made of.
2. A group is of one kind. A classic group's record takes the place of a group of any other kind,
   as in Kafka; its deletion touches only a classic group, since another kind may have followed.
"""

from ottla.coordinator.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.classic.schemas import GroupMetadataKey, GroupMetadataValue
from ottla.coordinator.group_state import GroupState


def replay_classic_group(
    state: GroupState, key: GroupMetadataKey, value: GroupMetadataValue | None, producer_id: int
) -> None:
    """A group was written, or deleted."""
    group = state.find(key.group, ClassicGroup)
    if value is not None:
        if state.is_loading or group is None:
            state.groups[key.group] = ClassicGroup.from_value(key.group, value)
        else:
            group.stored = value
    elif group is not None:
        group.move_to(ClassicState.DEAD, group.state_timestamp)
        del state.groups[key.group]
