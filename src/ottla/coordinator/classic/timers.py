"""The timers of a classic group."""

from typing import Final

from ottla.coordinator.group_timers import GroupTimer, GroupTimerKind


class ClassicTimer(GroupTimerKind):
    """What happens when the time is up."""

    SESSION = "a member that was silent, or never came back to join, is removed"
    JOIN = "the rebalance continues without the members that have not joined"
    SYNC = "members that did not ask for their assignment are removed"


# By these names: to look a member up in its class costs more than to make a timer.
_SESSION: Final = ClassicTimer.SESSION
_JOIN: Final = ClassicTimer.JOIN
_SYNC: Final = ClassicTimer.SYNC


def session_timer(group_id: str, member_id: str) -> GroupTimer:
    """Of a member, or of an id that was given out."""
    return GroupTimer(_SESSION, group_id, member_id)


def join_timer(group_id: str) -> GroupTimer:
    """Of a group that waits for its members to join."""
    return GroupTimer(_JOIN, group_id)


def sync_timer(group_id: str) -> GroupTimer:
    """Of a group that waits for its members to sync."""
    return GroupTimer(_SYNC, group_id)
