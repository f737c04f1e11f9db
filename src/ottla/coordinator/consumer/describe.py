"""ConsumerGroupDescribe, versions 0 and 1: consumer groups as administrators see them.

Rules kept here:
1. Groups of other kinds do not exist for it: GROUP_ID_NOT_FOUND.
2. What a member has includes what it is giving up.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import ConsumerMember
from ottla.coordinator.consumer.member_update import preferred_assignor
from ottla.coordinator.group_state import GroupState, check_group_id
from ottla.coordinator.topics import TopicView
from ottla.wire.errors import KafkaError
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def described(state: GroupState, group_id: str) -> DescribedGroup:
    """One group, or why not."""
    try:
        check_group_id(group_id)
        group = state.of_kind(group_id, ConsumerGroup)
    except KafkaError as problem:
        return DescribedGroup(
            group_id=group_id, error_code=problem.code, error_message=problem.message
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(state.config, group.members.values()),
        members=[
            _described_consumer(group, member, state.topics) for member in group.members.values()
        ],
    )


def _described_consumer(group: ConsumerGroup, member: ConsumerMember, topics: TopicView) -> Member:
    owned: dict[UUID, set[int]] = {}
    for partitions in (member.assigned, member.pending_revocation):
        for topic_id, numbers in partitions.items():
            owned.setdefault(topic_id, set()).update(numbers)
    return Member(
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


def _assignment(partitions: Mapping[UUID, Iterable[int]], topics: TopicView) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(numbers))
            for topic_id, numbers in partitions.items()
            if (topic := topics.by_id(topic_id)) is not None
        ]
    )
