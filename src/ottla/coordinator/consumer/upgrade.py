"""A classic group of Kafka consumers becomes a consumer group, while its members stay (KIP-848).

It happens when the first member with the new protocol joins. The classic members are served by the
consumer group from then on.

Rules kept here:
1. Everything is checked before anything changes; a group that cannot be converted stays as it is,
   and the new member gets GROUP_ID_NOT_FOUND, as Kafka says.
2. The members keep what the last leader gave them, as current and as target assignment, in an
   epoch that is the generation. If it gave a partition twice, the first member has it.
3. Nothing is kept of the user data of custom assignors, so a group that has it is not converted.
"""

from uuid import UUID

from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.member import ClassicMember
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import ConsumerMember
from ottla.coordinator.consumer.protocol import read_assignment, read_subscription
from ottla.coordinator.consumer.schemas import ClassicMemberMetadata, ClassicProtocol
from ottla.coordinator.consumer.subscriptions import metadata_hash, topic_names
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.topics import TopicView
from ottla.wire.codec import DecodeError
from ottla.wire.errors import ErrorCode, KafkaError


def upgraded(config: GroupConfig, classic: ClassicGroup, topics: TopicView) -> ConsumerGroup:
    """The consumer group that a classic group becomes. It is not in use before its replay."""
    if not config.group_consumer_upgrade:
        raise _refusal(classic, "online upgrade is disabled")
    if not classic.uses_consumer_protocol:
        raise _refusal(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > config.group_consumer_max_size:
        raise _refusal(classic, "the group size exceeds the consumer group maximum size")
    group = ConsumerGroup(
        classic.group_id, epoch=classic.generation, assignment_epoch=classic.generation
    )
    taken: set[tuple[UUID, int]] = set()
    for member in classic.members.values():
        try:
            _convert(group, classic, member, topics, taken)
        except DecodeError:
            raise _refusal(classic, "the embedded consumer protocol is malformed") from None
    names = topic_names(group.members.values(), {})
    group.metadata_hash = metadata_hash(names, topics)
    return group


def _convert(
    group: ConsumerGroup,
    classic: ClassicGroup,
    member: ClassicMember,
    topics: TopicView,
    taken: set[tuple[UUID, int]],
) -> None:
    # In its first rebalance a group has no protocol yet.
    subscription = read_subscription(
        member.metadata(classic.protocol_name) or member.protocols[0][1]
    )
    assigned: dict[UUID, dict[int, int]] = {}
    if member.assignment:
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _refusal(classic, "an unsupported custom assignor is in use")
        for part in assignment.assigned_partitions:
            topic = topics.by_name(part.topic)
            for number in part.partitions if topic is not None else ():
                if topic is not None and (topic.topic_id, number) not in taken:
                    taken.add((topic.topic_id, number))
                    assigned.setdefault(topic.topic_id, {})[number] = classic.generation
    group.members[member.member_id] = ConsumerMember(
        member.member_id,
        member_epoch=classic.generation,
        previous_member_epoch=classic.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        subscribed_topics=frozenset(subscription.topics),
        assigned=assigned,
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=data) for name, data in member.protocols
            ],
        ),
    )
    if member.instance_id is not None:
        group.static_members[member.instance_id] = member.member_id
    group.targets[member.member_id] = {
        topic_id: frozenset(numbers) for topic_id, numbers in assigned.items()
    }
    for topic_id, numbers in assigned.items():
        owners = group.owners.setdefault(topic_id, {})
        owners.update(dict.fromkeys(numbers, member.member_id))


def _refusal(classic: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )
