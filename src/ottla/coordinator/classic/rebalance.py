"""Rebalancing a classic group: how it gets its next generation.

Rules kept here:
1. A rebalance starts by asking everyone to join again: members that wait for an assignment are sent
   away with REBALANCE_IN_PROGRESS, heartbeats answer the same.
2. It ends when all members and pending ids have joined, or at the longest rebalance timeout of
   the members; dynamic members that have not joined by then are removed, static ones stay.
3. The first rebalance of an empty group is put off by `group.initial.rebalance.delay.ms`, again
   and again while members come, but no longer than the rebalance timeout.
4. A generation without members is written at once; one with members when its leader has brought
   the assignments. One without members that does not fit into a batch is not written, as in Kafka:
   a coordinator that loads the group finds the generation before it, whose sessions then end.
5. Every member must then ask for its assignment within the rebalance timeout, or it is removed.
6. Removing or replacing a member answers its parked requests.
"""

from ottla.coordinator.classic.group import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from ottla.coordinator.classic.timers import join_timer, session_timer, sync_timer
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.result_draft import ResultDraft
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupResponse

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000
"""A new member cannot send heartbeats while its first join is parked; if its client is gone, this
is when it goes too."""


def rebalance(config: GroupConfig, group: ClassicGroup, draft: ResultDraft) -> None:
    """Start a rebalance; where one is under way, see whether it is complete."""
    if group.can_rebalance:
        start_rebalance(config, group, draft)
    else:
        complete_join_if_all_joined(group, draft)


def start_rebalance(config: GroupConfig, group: ClassicGroup, draft: ResultDraft) -> None:
    """Ask everyone to join."""
    if group.state is COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
            if member.member_id in group.awaiting_sync:
                answer_sync(group, member.member_id, draft, ErrorCode.REBALANCE_IN_PROGRESS)
                group.expect_heartbeat(member, draft)
    group.pending_sync.clear()
    draft.cancel_timer(sync_timer(group.group_id))
    is_first = group.is_empty
    group.move_to(PREPARING_REBALANCE, draft.now)
    if is_first:
        group.initial_delay_ms = config.group_initial_rebalance_delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - group.initial_delay_ms, 0)
        group.new_member_added = False
        draft.set_timer(join_timer(group.group_id), group.initial_delay_ms)
    elif group.all_have_joined:
        complete_join(group, draft)
    else:
        draft.set_timer(join_timer(group.group_id), group.rebalance_timeout_ms)


def complete_join_if_all_joined(group: ClassicGroup, draft: ResultDraft) -> None:
    """Continue where nobody is waited for. The first rebalance takes its time in any case."""
    if (
        group.state is PREPARING_REBALANCE
        and not group.in_first_rebalance
        and group.all_have_joined
    ):
        complete_join(group, draft)


def complete_join(group: ClassicGroup, draft: ResultDraft) -> None:
    """Start the next generation with those who have joined."""
    draft.cancel_timer(join_timer(group.group_id))
    group.initial_remaining_ms = 0
    for member in list(group.members.values()):
        if member.member_id not in group.awaiting_join and member.instance_id is None:
            group.remove(member.member_id)
            draft.cancel_timer(session_timer(group.group_id, member.member_id))
    if group.members and not group.elect_joined_leader():
        # Only static members are left, and none has come: wait until one does or its session ends.
        draft.set_timer(join_timer(group.group_id), group.rebalance_timeout_ms)
        return
    group.start_generation(draft.now)
    if group.is_empty:
        record = group.record()
        if draft.fits(record):
            draft.records.append(record)
        return
    for member in group.members.values():
        token = group.awaiting_join.pop(member.member_id, None)
        if token is not None:
            draft.complete(token, joined(group, member.member_id))
        group.expect_heartbeat(member, draft)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    draft.set_timer(sync_timer(group.group_id), group.rebalance_timeout_ms)


def joined(group: ClassicGroup, member_id: str) -> JoinGroupResponse:
    """The reply to a member of the present generation; the leader gets all members."""
    members = []
    if member_id == group.leader:
        members = [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(group.protocol_name),
            )
            for member in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or "",
        leader=group.leader or "",
        member_id=member_id,
        members=members,
    )


def answer_join(
    group: ClassicGroup, member_id: str, draft: ResultDraft, reply: JoinGroupResponse
) -> None:
    """Answer a member's parked join, if it has one."""
    token = group.awaiting_join.pop(member_id, None)
    if token is not None:
        draft.complete(token, reply)


def answer_sync(group: ClassicGroup, member_id: str, draft: ResultDraft, error: ErrorCode) -> None:
    """Send a member's parked sync away, if it has one."""
    token = group.awaiting_sync.pop(member_id, None)
    if token is not None:
        draft.complete(token, SyncGroupResponse(error_code=error))


def remove_member(group: ClassicGroup, member_id: str, draft: ResultDraft) -> None:
    """Remove a member or a pending id. The client may come back as a new member."""
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    answer_join(group, member_id, draft, JoinGroupResponse(error_code=unknown))
    answer_sync(group, member_id, draft, unknown)
    group.remove(member_id)
    draft.cancel_timer(session_timer(group.group_id, member_id))


def after_removal(config: GroupConfig, group: ClassicGroup, draft: ResultDraft) -> None:
    """Continue without those who were just removed."""
    if group.state in (STABLE, COMPLETING_REBALANCE):
        start_rebalance(config, group, draft)
    elif group.state is PREPARING_REBALANCE and group.all_have_joined:
        complete_join(group, draft)


def dismiss_all(group: ClassicGroup, draft: ResultDraft) -> None:
    """Send all waiting members away, and forget all timers: the group ends."""
    again = ErrorCode.REBALANCE_IN_PROGRESS
    for member_id in group.members:
        answer_join(
            group, member_id, draft, JoinGroupResponse(error_code=again, member_id=member_id)
        )
        answer_sync(group, member_id, draft, again)
        draft.cancel_timer(session_timer(group.group_id, member_id))
    for member_id in group.pending_members:
        draft.cancel_timer(session_timer(group.group_id, member_id))
    draft.cancel_timer(join_timer(group.group_id))
    draft.cancel_timer(sync_timer(group.group_id))


def expire_session(
    config: GroupConfig, group: ClassicGroup, member_id: str, draft: ResultDraft
) -> None:
    """A member was silent for the length of its session, or a pending id was not used."""
    if member_id in group.pending_members:
        remove_member(group, member_id, draft)
        if group.state is PREPARING_REBALANCE and group.all_have_joined:
            complete_join(group, draft)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    waits = member_id in group.awaiting_join or member_id in group.awaiting_sync
    if waits and not member.is_new:
        # It cannot send heartbeats while it waits; its session starts again with the answer.
        return
    remove_member(group, member_id, draft)
    after_removal(config, group, draft)


def expire_join(config: GroupConfig, group: ClassicGroup, draft: ResultDraft) -> None:
    """The time to join is up, unless more members came to a first rebalance."""
    if group.state is not PREPARING_REBALANCE:
        return
    if group.in_first_rebalance and group.new_member_added and group.initial_remaining_ms > 0:
        group.new_member_added = False
        delay = min(config.group_initial_rebalance_delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay
        draft.set_timer(join_timer(group.group_id), delay)
    else:
        complete_join(group, draft)


def expire_sync(config: GroupConfig, group: ClassicGroup, draft: ResultDraft) -> None:
    """The time to ask for the assignment is up."""
    if group.state not in (COMPLETING_REBALANCE, STABLE) or not group.pending_sync:
        return
    for member_id in list(group.pending_sync):
        remove_member(group, member_id, draft)
    start_rebalance(config, group, draft)
