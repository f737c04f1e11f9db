"""The timers of a streams group."""

from ottla.coordinator.group_timers import GroupTimerKind


class StreamsTimer(GroupTimerKind):
    """What happens when the time is up."""

    SESSION = "the member was silent and is removed"
    REBALANCE = "the member did not give up tasks in time and is removed"
    INITIAL_REBALANCE = "the members that have joined a new group get their tasks"
