"""What the coordinator does with streams groups: their row in the table of kinds.

Requests of the classic protocol are refused, as `GroupKind` does it; except that an empty group
becomes a classic one when a classic member joins.
"""

from ottla.coordinator.classic.join import join_new_group
from ottla.coordinator.group_kind import GroupKind
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import GroupTimer
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import Deferred, RequestContext
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.heartbeat import assign_delayed
from ottla.coordinator.streams.leave import remove_member
from ottla.coordinator.streams.member import MemberState
from ottla.coordinator.streams.timers import StreamsTimer
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


class StreamsKind(GroupKind[StreamsGroup]):
    """Streams groups."""

    def start_timers(self, state: GroupState, group: StreamsGroup, draft: ResultDraft) -> None:
        """Start the sessions, and give those time that have tasks to give up."""
        timeout_ms = state.config_of(group.group_id).group_streams_session_timeout_ms
        for member in group.members.values():
            session = GroupTimer(StreamsTimer.SESSION, group.group_id, member.member_id)
            draft.set_timer(session, timeout_ms)
            if member.state is MemberState.UNREVOKED_TASKS:
                revocation = GroupTimer(StreamsTimer.REBALANCE, group.group_id, member.member_id)
                draft.set_timer(revocation, max(0, member.rebalance_timeout_ms))

    def expire(
        self, state: GroupState, group: StreamsGroup, timer: GroupTimer, draft: ResultDraft
    ) -> None:
        """A member's time is over, or a new group has waited long enough."""
        if timer.kind is StreamsTimer.INITIAL_REBALANCE:
            assign_delayed(state, group, draft)
            return
        member = group.members.get(timer.member_id)
        if member is None:
            return
        is_silent = timer.kind is StreamsTimer.SESSION
        is_late = (
            timer.kind is StreamsTimer.REBALANCE and member.state is MemberState.UNREVOKED_TASKS
        )
        if is_silent or is_late:
            remove_member(group, member, draft)

    def join(
        self,
        state: GroupState,
        group: StreamsGroup,
        request: JoinGroupRequest,
        context: RequestContext,
        draft: ResultDraft,
    ) -> JoinGroupResponse | Deferred:
        """Handle a JoinGroup."""
        if group.is_empty:
            return join_new_group(state, request, context, draft, replaced=group)
        return super().join(state, group, request, context, draft)
