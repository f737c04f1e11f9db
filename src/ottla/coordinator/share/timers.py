"""The timers of a share group."""

from ottla.coordinator.group_timers import GroupTimerKind


class ShareTimer(GroupTimerKind):
    """What happens when the time is up."""

    SESSION = "the member was silent and is removed"
    INITIALIZATION = "members that wait for share partitions get what there is"
