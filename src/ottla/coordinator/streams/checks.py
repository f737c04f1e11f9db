"""What no member of a streams group may say, with Kafka's refusals."""

from collections.abc import Iterable, Mapping

from ottla.coordinator.streams.configured import ConfiguredSubtopology
from ottla.coordinator.streams.member import (
    JOINING_EPOCH,
    LEAVING_STATIC_EPOCH,
    StreamsMember,
)
from ottla.coordinator.streams.tasks import Target
from ottla.coordinator.streams.topology import check_topology
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Refuse what is wrong whatever the group is like, and what Kafka 4.3 does not support yet."""
    _check_supported(request)
    for name, value in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    epoch = request.member_epoch
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        for name, said in zip(("Active", "Standby", "Warmup"), tasks, strict=True):
            if said is None or said:
                raise _invalid(f"{name}Tasks must be empty when (re-)joining.")
        if request.topology is None:
            raise _invalid("Topology must be non-null when (re-)joining.")
        check_topology(request.topology)
    elif epoch == LEAVING_STATIC_EPOCH:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_STATIC_EPOCH:
        raise _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    if any(said is not None for said in tasks) and any(said is None for said in tasks):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if epoch != JOINING_EPOCH and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    if request.instance_id is not None:
        raise _invalid("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise _invalid("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise _invalid("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise _invalid("WarmupTasks are not supported yet.")
    subtopologies = [] if request.topology is None else request.topology.subtopologies
    if any(each.source_topic_regex for each in subtopologies):
        raise _invalid("Regular expressions for source topics are not supported yet.")


def check_epoch(member: StreamsMember, epoch: int, has: Target | None) -> None:
    """Refuse an epoch that is not the member's.

    The one before is accepted: the answer with the new one may have been lost.
    """
    if epoch == member.member_epoch:
        return
    if (
        epoch == member.previous_member_epoch < member.member_epoch
        and has is not None
        and member.assigned.has_all_of(has)
    ):
        return
    relation = "greater" if epoch > member.member_epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {relation} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.member_epoch}). The member must abandon all its "
        "partitions and rejoin.",
    )


def check_tasks(
    subtopologies: Mapping[str, ConfiguredSubtopology], *said: Iterable[TaskIds] | None
) -> None:
    """Refuse tasks that the topology does not have."""
    for tasks in said:
        for each in tasks or ():
            name = each.subtopology_id
            subtopology = subtopologies.get(name)
            if subtopology is None:
                raise _invalid(f"Subtopology {name} does not exist in the topology.")
            for number in each.partitions:
                if not 0 <= number < subtopology.tasks:
                    raise _invalid(
                        f"Task {number} for subtopology {name} is invalid. Number of tasks for "
                        f"this subtopology: {subtopology.tasks}"
                    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
