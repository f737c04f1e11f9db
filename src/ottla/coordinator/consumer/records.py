"""The records that a consumer group is written as."""

from typing import NamedTuple

from ottla.coordinator.consumer.assignment import Assignment
from ottla.coordinator.consumer.member import ConsumerMember
from ottla.coordinator.consumer.schemas import (
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


class ResolvedRegex(NamedTuple):
    """The topics that a pattern matched, at a version of the topics."""

    topics: frozenset[str]
    version: int
    timestamp: int


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
    """The pattern is no longer used."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return write_tombstone(key)


def topics_tombstone(group_id: str) -> CoordinatorRecord:
    """What a Kafka before 4.1 kept of the group's topics is no longer needed."""
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


def target_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    """There is no target assignment left."""
    return write_tombstone(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The group is gone. It comes after all its other tombstones."""
    return write_tombstone(ConsumerGroupMetadataKey(group_id=group_id))
