"""What the coordinator does with consumer groups: their row in the table of kinds."""

from collections.abc import Iterable

from ottla.coordinator.classic.join import join_new_group
from ottla.coordinator.consumer import classic_members
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.leave import remove_members
from ottla.coordinator.consumer.member import MemberState
from ottla.coordinator.consumer.timers import MEMBER_TIMERS, ConsumerTimer
from ottla.coordinator.group_kind import GroupKind
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import GroupTimer
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import Deferred, RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ConsumerKind(GroupKind[ConsumerGroup]):
    """Consumer groups. Requests of the classic protocol are those of their classic members."""

    def start_timers(self, state: GroupState, group: ConsumerGroup, draft: ResultDraft) -> None:
        """Start the sessions, and give those time that have partitions to give up."""
        timeout_ms = state.config_of(group.group_id).group_consumer_session_timeout_ms
        for member in group.members.values():
            session = GroupTimer(ConsumerTimer.SESSION, group.group_id, member.member_id)
            draft.set_timer(session, timeout_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                revocation = GroupTimer(ConsumerTimer.REBALANCE, group.group_id, member.member_id)
                draft.set_timer(revocation, member.rebalance_timeout_ms)

    def expire(
        self, state: GroupState, group: ConsumerGroup, timer: GroupTimer, draft: ResultDraft
    ) -> None:
        """A member's time is over."""
        if timer.kind in MEMBER_TIMERS and timer.member_id in group.members:
            remove_members(state, group, [timer.member_id], draft)

    def join(
        self,
        state: GroupState,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        context: RequestContext,
        draft: ResultDraft,
    ) -> JoinGroupResponse | Deferred:
        """Handle a JoinGroup. An empty group becomes a classic one by it."""
        if group.is_empty:
            return join_new_group(state, request, context, draft, replaced=group)
        return classic_members.join(state, group, request, context, draft)

    def sync(
        self, state: GroupState, group: ConsumerGroup, request: SyncGroupRequest, draft: ResultDraft
    ) -> SyncGroupResponse | Deferred:
        """Handle a SyncGroup."""
        return classic_members.sync(state, group, request, draft)

    def heartbeat(
        self, state: GroupState, group: ConsumerGroup, request: HeartbeatRequest, draft: ResultDraft
    ) -> ErrorCode:
        """Handle a Heartbeat."""
        return classic_members.heartbeat(state, group, request, draft)

    def leave(
        self,
        state: GroupState,
        group: ConsumerGroup,
        leaving: Iterable[MemberIdentity],
        draft: ResultDraft,
    ) -> list[MemberResponse]:
        """Handle a LeaveGroup."""
        return classic_members.leave(state, group, leaving, draft)
