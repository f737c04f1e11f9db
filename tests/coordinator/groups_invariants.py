"""What must hold for a group shard after every step, whatever happened before.

1. A partition has at most one owner: in a consumer group at any time, in a classic group in each
   generation (the simulations check that on the replies to members).
2. What the log holds, read from its bytes, is the durable state of the live shard.
3. A classic group that is stable or empty is what its record says; the record of an empty one may
   not have fitted.
4. Epochs and generations never go back.
"""

from ottla.coordinator.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.group_shard import GroupShard

from .groups_world import World


def durable(shard: GroupShard) -> dict[str, object]:
    """All of a shard that must outlive it."""
    state = shard._state
    found: dict[str, object] = {"offsets": vars(state.offsets)}
    for group_id, group in state.groups.items():
        if isinstance(group, ClassicGroup):
            if group.stored is not None:
                found[group_id] = group.stored
        else:
            assert isinstance(group, ConsumerGroup)
            found[group_id] = (
                group.epoch,
                group.metadata_hash,
                group.assignment_epoch,
                group.assignment_timestamp,
                group.members,
                group.static_members,
                group.targets,
                group.owners,
                group.regexes,
            )
    return found


def check(world: World) -> None:
    """The invariants that need only the shard."""
    for group in world.shard._state.groups.values():
        if isinstance(group, ConsumerGroup):
            _check_consumer(group)
        else:
            assert isinstance(group, ClassicGroup)
            _check_classic(group, world.was_limited)


def _check_consumer(group: ConsumerGroup) -> None:
    owners = {}
    for member in group.members.values():
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, numbers in partitions.items():
                for number in numbers:
                    assert (topic_id, number) not in owners, "two owners"
                    owners[topic_id, number] = member.member_id
        if member.instance_id is not None:
            assert group.static_members[member.instance_id] == member.member_id
    assert owners == {
        (topic_id, number): member_id
        for topic_id, numbers in group.owners.items()
        for number, member_id in numbers.items()
    }
    assert group.targets.keys() <= group.members.keys()
    assert group.assignment_epoch <= group.epoch
    targets = [
        (topic_id, number)
        for target in group.targets.values()
        for topic_id, numbers in target.items()
        for number in numbers
    ]
    assert len(targets) == len(set(targets)), "two shall own it"


def _check_classic(group: ClassicGroup, was_limited: bool) -> None:
    written = [ClassicState.STABLE] if was_limited else [ClassicState.STABLE, ClassicState.EMPTY]
    if group.stored is not None and group.state in written:
        assert group.to_value() == group.stored
    assert group.awaiting_join.keys() <= group.members.keys()
    assert group.awaiting_sync.keys() <= group.members.keys()
    assert not group.awaiting_sync or group.state is ClassicState.COMPLETING_REBALANCE
    assert not group.awaiting_join or group.state is ClassicState.PREPARING_REBALANCE
    assert (group.leader is None) == (not group.members)
    assert group.leader is None or group.leader in group.members
    assert not (group.is_empty and group.members)
    # A rebalance that lost its last member ends with its timer.
    assert group.members or group.is_empty or group.state is ClassicState.PREPARING_REBALANCE
    assert set(group.static_members.values()) <= group.members.keys()
    assert not group.pending_members & group.members.keys()


def check_log(world: World) -> None:
    """The log gives the same shard again."""
    assert durable(world.loaded_anew()) == durable(world.shard)
