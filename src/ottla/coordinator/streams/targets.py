"""Target assignments of a streams group.

Rules kept here:
1. A new group waits `streams.initial.rebalance.delay.ms` for more members before its first
   assignment; its members have no tasks meanwhile.
2. Target assignments are at least `streams.assignment.interval.ms` apart. A heartbeat meanwhile
   says by its status that there will be another assignment.
3. Without a topology that can run nobody gets a task.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.group_timers import has_passed
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.streams.assignor import assign
from ottla.coordinator.streams.configured import ConfiguredTopology, StatusCode
from ottla.coordinator.streams.group import NO_TIME, StreamsGroup
from ottla.coordinator.streams.member import StreamsMember
from ottla.coordinator.streams.records import target_epoch_record, target_record
from ottla.coordinator.streams.tasks import Target

STANDBY_REPLICAS = "num.standby.replicas"


class TargetAssignment(NamedTuple):
    """What all members shall have, and why there is no newer one."""

    epoch: int
    targets: Mapping[str, Target]
    delay: tuple[StatusCode, str] | None = None


def assignment_configs(config: GroupConfig) -> dict[str, str]:
    """The settings that an assignment depends on, by Kafka's names for them."""
    return {STANDBY_REPLICAS: str(config.group_streams_num_standby_replicas)}


def updated_targets(
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    configured: ConfiguredTopology,
    config: GroupConfig,
    epoch: int,
    draft: ResultDraft,
    *,
    is_delayed: bool,
) -> TargetAssignment:
    """The target assignment; a new one is written where the epoch needs it."""
    if is_delayed:
        why = "Assignment delayed due to the configured initial rebalance delay."
        return TargetAssignment(group.assignment_epoch, {}, (StatusCode.ASSIGNMENT_DELAYED, why))
    if group.assignment_epoch >= epoch:
        return TargetAssignment(group.assignment_epoch, group.targets)
    interval = config.group_streams_assignment_interval_ms
    if not (
        group.assignment_timestamp == NO_TIME
        or interval == 0
        or has_passed(interval, group.assignment_timestamp, draft.now)
    ):
        why = "Assignment delayed due to the configured assignment interval."
        return TargetAssignment(
            group.assignment_epoch, group.targets, (StatusCode.ASSIGNMENT_DELAYED, why)
        )
    subtopologies = configured.subtopologies if configured.is_ready else {}
    replicas = config.group_streams_num_standby_replicas
    targets = assign(members, group.targets, subtopologies, replicas)
    draft.records.extend(
        target_record(group.group_id, member_id, target)
        for member_id, target in targets.items()
        if target != group.targets.get(member_id)
    )
    draft.records.append(target_epoch_record(group.group_id, epoch, draft.now))
    return TargetAssignment(epoch, targets)
