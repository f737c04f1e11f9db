"""What the coordinator does with classic groups: its row in the table of kinds."""

from collections.abc import Iterable

from ottla.coordinator.classic import requests
from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.join import join_group
from ottla.coordinator.classic.rebalance import (
    expire_join,
    expire_session,
    expire_sync,
    start_rebalance,
)
from ottla.coordinator.classic.timers import ClassicTimer
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


class ClassicKind(GroupKind[ClassicGroup]):
    """Classic groups."""

    def start_timers(self, state: GroupState, group: ClassicGroup, draft: ResultDraft) -> None:
        """Start the sessions; a group that is too large by now has to rebalance."""
        for member in group.members.values():
            group.expect_heartbeat(member, draft)
        if len(group.members) > state.config.group_max_size:
            start_rebalance(state.config, group, draft)

    def expire(
        self, state: GroupState, group: ClassicGroup, timer: GroupTimer, draft: ResultDraft
    ) -> None:
        """A session, the time to join, or the time to sync is over."""
        if timer.kind is ClassicTimer.SESSION:
            expire_session(state.config, group, timer.member_id, draft)
        elif timer.kind is ClassicTimer.JOIN:
            expire_join(state.config, group, draft)
        elif timer.kind is ClassicTimer.SYNC:
            expire_sync(state.config, group, draft)

    def join(
        self,
        state: GroupState,
        group: ClassicGroup,
        request: JoinGroupRequest,
        context: RequestContext,
        draft: ResultDraft,
    ) -> JoinGroupResponse | Deferred:
        """Handle a JoinGroup."""
        return join_group(state, group, request, context, draft)

    def sync(
        self, state: GroupState, group: ClassicGroup, request: SyncGroupRequest, draft: ResultDraft
    ) -> SyncGroupResponse | Deferred:
        """Handle a SyncGroup."""
        return requests.sync(state.config, group, request, draft, next(state.tokens))

    def heartbeat(
        self, state: GroupState, group: ClassicGroup, request: HeartbeatRequest, draft: ResultDraft
    ) -> ErrorCode:
        """Handle a Heartbeat."""
        return requests.heartbeat(group, request, draft)

    def leave(
        self,
        state: GroupState,
        group: ClassicGroup,
        leaving: Iterable[MemberIdentity],
        draft: ResultDraft,
    ) -> list[MemberResponse]:
        """Handle a LeaveGroup."""
        return requests.leave(state.config, group, leaving, draft)
