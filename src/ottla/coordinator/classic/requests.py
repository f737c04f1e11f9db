"""SyncGroup, Heartbeat and LeaveGroup to a classic group.

Rules kept here:
1. The leader's sync brings the assignments: they are written, and everyone who waits gets its
   own. A member the leader forgot gets an empty one. Where they do not fit into a batch, everyone
   who waits is refused, and the group rebalances.
2. A request of another generation gets ILLEGAL_GENERATION, of a stranger UNKNOWN_MEMBER_ID, of a
   static member whose place was taken FENCED_INSTANCE_ID.
3. Several members can leave with one request, each with its own result; an administrator may
   remove a static member by its instance id alone.
"""

from collections.abc import Iterable

from ottla.coordinator.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.classic.join import UNKNOWN_MEMBER_ID
from ottla.coordinator.classic.rebalance import (
    answer_sync,
    complete_join_if_all_joined,
    rebalance,
    remove_member,
    start_rebalance,
)
from ottla.coordinator.classic.timers import sync_timer
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.shard import Deferred
from ottla.coordinator.step import Step
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.leave_group import MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(
    config: GroupConfig, group: ClassicGroup, request: SyncGroupRequest, step: Step, token: int
) -> SyncGroupResponse | Deferred:
    """Answer or park a sync."""
    member_id = request.member_id
    error = _sync_error(group, request)
    if error is not ErrorCode.NONE:
        return SyncGroupResponse(error_code=error)
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        step.cancel_timer(sync_timer(group.group_id))
    if group.state is ClassicState.STABLE:
        return _synced(group, group.members[member_id].assignment)
    # A second sync takes the place of the first, whose client has most likely gone.
    answer_sync(group, member_id, step, ErrorCode.REBALANCE_IN_PROGRESS)
    group.awaiting_sync[member_id] = token
    if member_id == group.leader and not _assign(group, request, step):
        for waiting_id in list(group.awaiting_sync):
            answer_sync(group, waiting_id, step, step.refusal)
            group.expect_heartbeat(group.members[waiting_id], step)
        start_rebalance(config, group, step)
    return Deferred(token)


def _sync_error(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    error = group.membership_error(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
        None,
        group.protocol_name,
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _assign(group: ClassicGroup, request: SyncGroupRequest, step: Step) -> bool:
    """Give everyone its assignment; False, and nothing has changed, where they are too large."""
    assignments = {part.member_id: part.assignment for part in request.assignments}
    value = group.to_value()
    value.current_state_timestamp = step.now
    for part in value.members:
        part.assignment = assignments.get(part.member_id, b"")
    record = group.record(value)
    if not step.fits(record):
        return False
    step.records.append(record)
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    group.move_to(ClassicState.STABLE, step.now)
    for member_id, token in group.awaiting_sync.items():
        member = group.members[member_id]
        step.complete(token, _synced(group, member.assignment))
        group.expect_heartbeat(member, step)
    group.awaiting_sync.clear()
    return True


def _synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )


def heartbeat(group: ClassicGroup, request: HeartbeatRequest, step: Step) -> ErrorCode:
    """Keep a member's session alive, and tell it of a rebalance."""
    error = group.membership_error(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    group.expect_heartbeat(group.members[request.member_id], step)
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(
    config: GroupConfig, group: ClassicGroup, leaving: Iterable[MemberIdentity], step: Step
) -> list[MemberResponse]:
    """Let members go."""
    results = []
    for identity in leaving:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        error = ErrorCode.NONE
        if member_id == UNKNOWN_MEMBER_ID and instance_id in group.static_members:
            member_id = group.static_members[instance_id]
        elif member_id not in group.pending_members:
            error = group.membership_error(member_id, instance_id)
        if error is ErrorCode.NONE:
            remove_member(group, member_id, step)
        results.append(
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error,
            )
        )
    if any(result.error_code == ErrorCode.NONE for result in results):
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            rebalance(config, group, step)
        else:
            complete_join_if_all_joined(group, step)
    return results
