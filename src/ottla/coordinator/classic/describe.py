"""DescribeGroups, versions 0 to 6: classic groups as administrators see them.

Rules kept here:
1. Groups of other kinds do not exist for it: they are "Dead", from version 6 on with an error.
2. The metadata of members is shown only while the group is stable.
"""

from ottla.coordinator.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.classic.member import ClassicMember
from ottla.coordinator.group_state import GroupState
from ottla.wire.errors import KafkaError
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember

NOT_FOUND_FROM = 6


def described(state: GroupState, group_id: str, version: int) -> DescribedGroup:
    """A classic group."""
    try:
        group = state.of_kind(group_id, ClassicGroup)
    except KafkaError as problem:
        reply = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
        if version >= NOT_FOUND_FROM:
            reply.error_code = problem.code
            reply.error_message = problem.message
        return reply
    is_stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type or "",
        protocol_data=group.protocol_name or "" if is_stable else "",
        members=[_described_member(group, member, is_stable) for member in group.members.values()],
    )


def _described_member(
    group: ClassicGroup, member: ClassicMember, is_stable: bool
) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
        member_assignment=member.assignment,
    )
