"""The records that a share group is written as."""

from ottla.coordinator.record_codec import write_record, write_tombstone
from ottla.coordinator.shard import CoordinatorRecord
from ottla.coordinator.share.initialization import StatePartitions
from ottla.coordinator.share.member import Partitions, ShareMember, write_topics
from ottla.coordinator.share.schemas import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """The group has this epoch."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return write_record(ShareGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """The member said this of itself."""
    key = ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return write_record(key, member.to_metadata())


def current_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """The member reads this."""
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return write_record(key, member.to_current())


def target_record(group_id: str, member_id: str, target: Partitions) -> CoordinatorRecord:
    """The member shall read this."""
    key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    value = ShareGroupTargetAssignmentMemberValue(topic_partitions=write_topics(target))
    return write_record(key, value)


def target_epoch_record(group_id: str, epoch: int, timestamp: int) -> CoordinatorRecord:
    """The target assignment is of this epoch."""
    key = ShareGroupTargetAssignmentMetadataKey(group_id=group_id)
    value = ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp
    )
    return write_record(key, value)


def state_record(group_id: str, partitions: StatePartitions) -> CoordinatorRecord:
    """These share partitions have state."""
    key = ShareGroupStatePartitionMetadataKey(group_id=group_id)
    return write_record(key, partitions.to_value())


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The member is gone."""
    names = {"group_id": group_id, "member_id": member_id}
    return [
        write_tombstone(ShareGroupCurrentMemberAssignmentKey(**names)),
        write_tombstone(ShareGroupTargetAssignmentMemberKey(**names)),
        write_tombstone(ShareGroupMemberMetadataKey(**names)),
    ]


def group_tombstones(group_id: str) -> list[CoordinatorRecord]:
    """The group is gone. They come after those of its members."""
    return [
        write_tombstone(ShareGroupStatePartitionMetadataKey(group_id=group_id)),
        write_tombstone(ShareGroupTargetAssignmentMetadataKey(group_id=group_id)),
        write_tombstone(ShareGroupMetadataKey(group_id=group_id)),
    ]
