"""A member of a streams group: one stream thread, what it said of itself, and what it has.

Rules kept here:
1. A member is a value: handlers make changed copies, only replay puts one into its group.
2. Members of one process share its folder of state: a process has a task once at most.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from ottla.coordinator.streams.schemas import (
    CurrentTaskIds,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
)
from ottla.coordinator.streams.tasks import ActiveTasks, Owned, Target, Task, TaskIds, read

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_STATIC_EPOCH = -2


class MemberState(IntEnum):
    """Where a member is on its way to its target, by Kafka's numbers."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """One member."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    """A member whose last answer was lost comes with this one."""
    state: MemberState = MemberState.STABLE
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    """Where it answers interactive queries: host and port."""
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: Owned = field(default_factory=Owned)
    pending: Owned = field(default_factory=Owned)
    """What it has to give up."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has all of a target assignment."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def epoch_of(self, task: Task) -> int | None:
        """The epoch in which it got an active task, also one that it is to give up."""
        name, number = task
        for owned in (self.assigned, self.pending):
            epoch = owned.active.get(name, {}).get(number)
            if epoch is not None:
                return epoch
        return None

    def moved(
        self, state: MemberState, epoch: int, assigned: Owned, pending: Owned
    ) -> "StreamsMember":
        """The member in another epoch, with other tasks."""
        return replace(
            self,
            state=state,
            previous_member_epoch=self.member_epoch,
            member_epoch=epoch,
            assigned=assigned,
            pending=pending,
        )

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> "StreamsMember":
        """As its record says."""
        endpoint = value.user_endpoint
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            client_tags={tag.key: tag.value for tag in value.client_tags},
        )

    def with_current(self, value: StreamsGroupCurrentMemberAssignmentValue) -> "StreamsMember":
        """As its record says."""
        epoch = value.member_epoch
        return replace(
            self,
            member_epoch=epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=Owned(
                _active(value.active_tasks, epoch),
                read(value.standby_tasks),
                read(value.warmup_tasks),
            ),
            pending=Owned(
                _active(value.active_tasks_pending_revocation, epoch),
                read(value.standby_tasks_pending_revocation),
                read(value.warmup_tasks_pending_revocation),
            ),
        )


def said(
    active: Iterable[TaskIds] | None,
    standby: Iterable[TaskIds] | None,
    warmup: Iterable[TaskIds] | None,
) -> Target | None:
    """What a heartbeat says that its member has; None where it says nothing of it."""
    if active is None or standby is None or warmup is None:
        return None
    return Target(read(active), read(standby), read(warmup))


def _active(found: Iterable[CurrentTaskIds], epoch: int) -> ActiveTasks:
    tasks: dict[str, dict[int, int]] = {}
    for each in found:
        epochs = each.assignment_epochs
        if len(epochs) != len(each.partitions):  # as Kafka reads a record from before 4.2
            epochs = [epoch] * len(each.partitions)
        if each.partitions:
            tasks.setdefault(each.subtopology_id, {}).update(
                zip(each.partitions, epochs, strict=True)
            )
    return tasks
