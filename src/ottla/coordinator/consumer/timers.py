"""The timers of a consumer group. Each is a member's; when it is due, the member is removed."""

from ottla.coordinator.group_timers import GroupTimerKind


class ConsumerTimer(GroupTimerKind):
    """Why the member is removed."""

    SESSION = "the member was silent"
    REBALANCE = "the member did not give up partitions in time"
    JOIN = "a classic member did not join again in time"
    SYNC = "a classic member did not sync in time"


MEMBER_TIMERS = tuple(ConsumerTimer)
