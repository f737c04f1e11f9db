"""The records that a consumer group is written as."""

from collections.abc import Iterator

from ottla.coordinator.consumer.group import Assignment, ConsumerGroup, ResolvedRegex
from ottla.coordinator.consumer.member import ConsumerMember
from ottla.coordinator.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TargetTopicPartitions,
)
from ottla.coordinator.record_codec import write_record, write_tombstone
from ottla.coordinator.shard import CoordinatorRecord


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """The group has this epoch."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return write_record(ConsumerGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """The member said this of itself."""
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return write_record(key, member.to_metadata())


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """The member owns this."""
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return write_record(key, member.to_current())


def target_record(group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    """The member shall have this."""
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in target.items()
        ]
    )
    return write_record(key, value)


def target_epoch_record(group_id: str, epoch: int, timestamp: int) -> CoordinatorRecord:
    """The target assignment is of this epoch."""
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp
    )
    return write_record(key, value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """The pattern matches these topics."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp
    )
    return write_record(key, value)


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """The pattern is not used any more."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return write_tombstone(key)


def topics_tombstone(group_id: str) -> CoordinatorRecord:
    """What a Kafka before 4.1 kept of the group's topics is not needed any more."""
    return write_tombstone(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The member is gone."""
    return [
        write_tombstone(
            ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
        ),
        write_tombstone(
            ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
        ),
        write_tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_records(group: ConsumerGroup) -> Iterator[CoordinatorRecord]:
    """The whole group, as it stands when a classic group has become one."""
    for member in group.members.values():
        yield member_record(group.group_id, member)
    yield epoch_record(group.group_id, group.epoch, group.metadata_hash)
    for member_id, target in group.targets.items():
        yield target_record(group.group_id, member_id, target)
    yield target_epoch_record(group.group_id, group.assignment_epoch, group.assignment_timestamp)
    for member in group.members.values():
        yield current_record(group.group_id, member)


def group_tombstones(group: ConsumerGroup) -> Iterator[CoordinatorRecord]:
    """The group is deleted."""
    for member_id in group.members:
        yield from member_tombstones(group.group_id, member_id)
    yield write_tombstone(ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id))
    for regex in group.regexes:
        yield regex_tombstone(group.group_id, regex)
    if group.has_topic_records:
        yield topics_tombstone(group.group_id)
    yield write_tombstone(ConsumerGroupMetadataKey(group_id=group.group_id))
