"""ShareGroupDescribe: a share group as administrators see it."""

from ottla.coordinator.group_state import GroupState, check_group_id
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.member import ShareMember
from ottla.coordinator.topics import TopicView
from ottla.wire.errors import KafkaError
from ottla.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

ASSIGNOR = "simple"


def described(state: GroupState, group_id: str) -> DescribedGroup:
    """One group, or why not."""
    try:
        check_group_id(group_id)
        group = state.of_kind(group_id, ShareGroup)
    except KafkaError as problem:
        return DescribedGroup(
            group_id=group_id, error_code=problem.code, error_message=problem.message
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_described(member, state.topics) for member in group.members.values()],
    )


def _described(member: ShareMember, topics: TopicView) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(
                    topic_id=topic_id, topic_name=topic.name, partitions=sorted(numbers)
                )
                for topic_id, numbers in member.assigned.items()
                if (topic := topics.by_id(topic_id)) is not None
            ]
        ),
    )
