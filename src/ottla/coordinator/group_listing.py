"""ListGroups, DescribeGroups and ConsumerGroupDescribe: groups as administrators see them.

Rules kept here:
1. DescribeGroups knows classic groups, ConsumerGroupDescribe consumer groups; for each the other
   kind does not exist. DescribeGroups says "Dead" for that, from version 6 on with an error.
2. The metadata of members of a classic group is shown only while the group is stable.
3. What a member of a consumer group has includes what it is giving up.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from ottla.coordinator.classic.group import ClassicGroup, ClassicMember, ClassicState
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import ConsumerMember
from ottla.coordinator.consumer.member_update import preferred_assignor
from ottla.coordinator.consumer.protocol import PROTOCOL_TYPE
from ottla.coordinator.group_state import Group, GroupState
from ottla.coordinator.topics import TopicView
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import consumer_group_describe as consumer_messages
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.list_groups import ListedGroup

NOT_FOUND_FROM = 6

CLASSIC_TYPE = "classic"
CONSUMER_TYPE = "consumer"
CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def listed(
    groups: Iterable[Group], states: Iterable[str], types: Iterable[str]
) -> list[ListedGroup]:
    """The groups in these states and of these types; all, where none are given."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.strip().lower() for kind in types}
    found = []
    for group in groups:
        kind = CONSUMER_TYPE if isinstance(group, ConsumerGroup) else CLASSIC_TYPE
        if wanted_types and kind not in wanted_types:
            continue
        state = group.state.value
        if wanted_states and state.lower() not in wanted_states:
            continue
        found.append(
            ListedGroup(
                group_id=group.group_id,
                protocol_type=(
                    PROTOCOL_TYPE if isinstance(group, ConsumerGroup) else group.protocol_type or ""
                ),
                group_state=state,
                group_type=kind,
            )
        )
    return found


def described(state: GroupState, group_id: str, version: int) -> DescribedGroup:
    """A classic group."""
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        reply = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
        if version >= NOT_FOUND_FROM:
            reply.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            problem = "not found" if group is None else "is not a classic group"
            reply.error_message = f"Group {group_id} {problem}."
        return reply
    is_stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
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


def described_consumer_group(state: GroupState, group_id: str) -> consumer_messages.DescribedGroup:
    """A consumer group."""
    try:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "GroupId can't be empty.")
        group = state.consumer_group(group_id)
    except KafkaError as problem:
        return consumer_messages.DescribedGroup(
            group_id=group_id, error_code=problem.code, error_message=problem.message
        )
    return consumer_messages.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(state.config, group.members.values()),
        members=[
            _described_consumer(group, member, state.topics) for member in group.members.values()
        ],
    )


def _described_consumer(
    group: ConsumerGroup, member: ConsumerMember, topics: TopicView
) -> consumer_messages.Member:
    owned: dict[UUID, set[int]] = {}
    for partitions in (member.assigned, member.pending_revocation):
        for topic_id, numbers in partitions.items():
            owned.setdefault(topic_id, set()).update(numbers)
    return consumer_messages.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        subscribed_topic_regex=member.subscribed_regex,
        assignment=_assignment(owned, topics),
        target_assignment=_assignment(group.targets.get(member.member_id, {}), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(
    partitions: Mapping[UUID, Iterable[int]], topics: TopicView
) -> consumer_messages.Assignment:
    return consumer_messages.Assignment(
        topic_partitions=[
            consumer_messages.TopicPartitions(
                topic_id=topic_id, topic_name=topic.name, partitions=sorted(numbers)
            )
            for topic_id, numbers in partitions.items()
            if (topic := topics.by_id(topic_id)) is not None
        ]
    )
