"""What the coordinator does with share groups: their row in the table of kinds.

Requests of the classic protocol are refused, as `GroupKind` does it.
"""

from ottla.coordinator.group_kind import GroupKind
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import GroupTimer
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.heartbeat import answer_waiting
from ottla.coordinator.share.leave import remove_member
from ottla.coordinator.share.timers import ShareTimer


class ShareKind(GroupKind[ShareGroup]):
    """Share groups."""

    def start_timers(self, state: GroupState, group: ShareGroup, draft: ResultDraft) -> None:
        """Start the sessions."""
        timeout_ms = state.config_of(group.group_id).group_share_session_timeout_ms
        for member_id in group.members:
            draft.set_timer(GroupTimer(ShareTimer.SESSION, group.group_id, member_id), timeout_ms)

    def expire(
        self, state: GroupState, group: ShareGroup, timer: GroupTimer, draft: ResultDraft
    ) -> None:
        """A member's session ended, or those who wait have waited long enough."""
        if timer.kind is ShareTimer.SESSION and timer.member_id in group.members:
            remove_member(state, group, group.members[timer.member_id], draft)
        elif timer.kind is ShareTimer.INITIALIZATION:
            answer_waiting(state, group, group.partitions.initialized, draft)
