"""A consumer group whose members all use the classic protocol becomes a classic group again.

It happens when the last member with the consumer protocol leaves or is removed, or is a static one
that comes back with the classic protocol, so that a move to the new protocol can be taken back one
member at a time.

Rules kept here:
1. The members keep their ids, protocols and sessions; the generation is the group's epoch, so a
   generation never goes back. What each shall have becomes its assignment.
2. They rebalance at once, since a member has just left, and one has to lead.
3. A group that cannot be converted stays a consumer group, and serves its classic members.
"""

from collections.abc import Set

from ottla.coordinator.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.classic.member import ClassicMember
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import ConsumerMember
from ottla.coordinator.consumer.protocol import PROTOCOL_TYPE, read_version, write_assignment
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.topics import TopicView
from ottla.wire.codec import DecodeError


def downgraded(
    config: GroupConfig,
    group: ConsumerGroup,
    leaving: Set[str],
    topics: TopicView,
    now: int,
    joining: ConsumerMember | None = None,
) -> ClassicGroup | None:
    """The classic group of those who stay, None where it stays a consumer group.

    `joining` takes the place of a static member among those who leave.
    """
    staying = [member for member in group.members.values() if member.member_id not in leaving]
    if joining is not None:
        staying.append(joining)
    if (
        not config.group_consumer_downgrade
        or not 0 < len(staying) <= config.group_max_size
        or any(member.classic is None for member in staying)
    ):
        return None
    classic = ClassicGroup(
        group.group_id,
        state=ClassicState.STABLE,
        state_timestamp=now,
        generation=group.epoch,
    )
    for member in staying:
        if member.classic is None:
            return None
        protocols = tuple(
            (protocol.name, protocol.metadata) for protocol in member.classic.supported_protocols
        )
        if classic.members and not classic.supports(PROTOCOL_TYPE, (name for name, _ in protocols)):
            return None
        try:
            version = read_version(protocols[0][1])
        except DecodeError:
            return None
        classic.add(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                protocols,
                write_assignment(group.target_of(member), topics, version),
            ),
            PROTOCOL_TYPE,
        )
    classic.protocol_name = classic.select_protocol()
    return classic
