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

from ottla.coordinator.classic.group import (
    COMPLETING_REBALANCE,
    NO_ERROR,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
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
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import Deferred
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.leave_group import MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(
    config: GroupConfig,
    group: ClassicGroup,
    request: SyncGroupRequest,
    draft: ResultDraft,
    token: int,
) -> SyncGroupResponse | Deferred:
    """Answer or park a sync."""
    member_id = request.member_id
    error = _sync_error(group, request)
    if error is not NO_ERROR:
        return SyncGroupResponse(error_code=error)
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        draft.cancel_timer(sync_timer(group.group_id))
    if group.state is STABLE:
        return _synced(group, group.members[member_id].assignment)
    # A second sync takes the place of the first, whose client has most likely gone.
    answer_sync(group, member_id, draft, ErrorCode.REBALANCE_IN_PROGRESS)
    group.awaiting_sync[member_id] = token
    if member_id == group.leader and not _assign(group, request, draft):
        for waiting_id in list(group.awaiting_sync):
            answer_sync(group, waiting_id, draft, draft.refusal)
            group.expect_heartbeat(group.members[waiting_id], draft)
        start_rebalance(config, group, draft)
    return Deferred(token)


def _sync_error(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    error = group.membership_error(request.member_id, request.group_instance_id)
    if error is not NO_ERROR:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
        None,
        group.protocol_name,
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return NO_ERROR


def _assign(group: ClassicGroup, request: SyncGroupRequest, draft: ResultDraft) -> bool:
    """Give everyone its assignment; False, and nothing has changed, where they are too large."""
    assignments = {part.member_id: part.assignment for part in request.assignments}
    value = group.to_value()
    value.current_state_timestamp = draft.now
    for part in value.members:
        part.assignment = assignments.get(part.member_id, b"")
    record = group.record(value)
    if not draft.fits(record):
        return False
    draft.records.append(record)
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    group.move_to(STABLE, draft.now)
    for member_id, token in group.awaiting_sync.items():
        member = group.members[member_id]
        draft.complete(token, _synced(group, member.assignment))
        group.expect_heartbeat(member, draft)
    group.awaiting_sync.clear()
    return True


def _synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )


def heartbeat(group: ClassicGroup, request: HeartbeatRequest, draft: ResultDraft) -> ErrorCode:
    """Keep a member's session alive, and tell it of a rebalance."""
    error = group.membership_error(request.member_id, request.group_instance_id)
    if error is not NO_ERROR:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    group.expect_heartbeat(group.members[request.member_id], draft)
    if group.state is PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return NO_ERROR


def leave(
    config: GroupConfig, group: ClassicGroup, leaving: Iterable[MemberIdentity], draft: ResultDraft
) -> list[MemberResponse]:
    """Let members go."""
    results = []
    for identity in leaving:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        error = NO_ERROR
        if member_id == UNKNOWN_MEMBER_ID and instance_id in group.static_members:
            member_id = group.static_members[instance_id]
        elif member_id not in group.pending_members:
            error = group.membership_error(member_id, instance_id)
        if error is NO_ERROR:
            remove_member(group, member_id, draft)
        results.append(
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error,
            )
        )
    if any(result.error_code == NO_ERROR for result in results):
        if group.state in (STABLE, COMPLETING_REBALANCE):
            rebalance(config, group, draft)
        else:
            complete_join_if_all_joined(group, draft)
    return results
