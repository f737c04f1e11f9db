"""The records that a streams group writes."""

from collections.abc import Mapping

from ottla.coordinator.record_codec import write_record, write_tombstone
from ottla.coordinator.shard import CoordinatorRecord
from ottla.coordinator.streams.member import StreamsMember
from ottla.coordinator.streams.schemas import (
    CurrentTaskIds,
    Endpoint,
    KeyValue,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    TargetTaskIds,
)
from ottla.coordinator.streams.tasks import ActiveTasks, Target, Tasks, listed


def epoch_record(
    group_id: str, epoch: int, metadata_hash: int, validated: int, configs: Mapping[str, str]
) -> CoordinatorRecord:
    """The group has this epoch."""
    return write_record(
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated,
            last_assignment_configs=[
                KeyValue(key=key, value=value) for key, value in sorted(configs.items())
            ],
        ),
    )


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> CoordinatorRecord:
    """The group has this topology."""
    return write_record(StreamsGroupTopologyKey(group_id=group_id), value)


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """A member said this of itself."""
    endpoint = member.endpoint
    return write_record(
        StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=None
            if endpoint is None
            else Endpoint(host=endpoint[0], port=endpoint[1]),
            client_tags=[KeyValue(key=key, value=tag) for key, tag in member.client_tags.items()],
        ),
    )


def target_record(group_id: str, member_id: str, target: Target) -> CoordinatorRecord:
    """A member shall have this."""
    return write_record(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        StreamsGroupTargetAssignmentMemberValue(
            active_tasks=_target(target.active),
            standby_tasks=_target(target.standby),
            warmup_tasks=_target(target.warmup),
        ),
    )


def target_epoch_record(group_id: str, epoch: int, now: int) -> CoordinatorRecord:
    """The target assignment is for this epoch."""
    return write_record(
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now),
    )


def current_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """A member has this."""
    assigned, pending = member.assigned, member.pending
    return write_record(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            active_tasks=_active(assigned.active),
            standby_tasks=_current(assigned.standby),
            warmup_tasks=_current(assigned.warmup),
            active_tasks_pending_revocation=_active(pending.active),
            standby_tasks_pending_revocation=_current(pending.standby),
            warmup_tasks_pending_revocation=_current(pending.warmup),
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The member is gone."""
    names = {"group_id": group_id, "member_id": member_id}
    return [
        write_tombstone(StreamsGroupCurrentMemberAssignmentKey(**names)),
        write_tombstone(StreamsGroupTargetAssignmentMemberKey(**names)),
        write_tombstone(StreamsGroupMemberMetadataKey(**names)),
    ]


def group_tombstones(group_id: str) -> list[CoordinatorRecord]:
    """The group is gone. They come after those of its members."""
    return [
        write_tombstone(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)),
        write_tombstone(StreamsGroupMetadataKey(group_id=group_id)),
        write_tombstone(StreamsGroupTopologyKey(group_id=group_id)),
    ]


def _target(tasks: Tasks) -> list[TargetTaskIds]:
    return [TargetTaskIds(subtopology_id=name, partitions=each) for name, each in listed(tasks)]


def _current(tasks: Tasks) -> list[CurrentTaskIds]:
    return [CurrentTaskIds(subtopology_id=name, partitions=each) for name, each in listed(tasks)]


def _active(tasks: ActiveTasks) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=name,
            partitions=numbers,
            assignment_epochs=[tasks[name][number] for number in numbers],
        )
        for name, numbers in listed(tasks)
    ]
