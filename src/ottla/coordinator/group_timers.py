"""The timers of groups, and intervals that have none.

Rules kept here:
1. Each kind of group has timers of its own, as an enum in its folder. A timer of another kind
   than the group has now is ignored: the group was converted after the timer was set.
"""

from enum import Enum

from msgspec import Struct


class GroupTimerKind(Enum):
    """What happens when the time is up: the base of each kind's enum."""

    __hash__ = object.__hash__  # Enum's own is a function in Python, and every heartbeat needs it


class ShardTimer(GroupTimerKind):
    """Timers that belong to no group."""

    EXPIRE_OFFSETS = "offsets past their retention are deleted"


class GroupTimer(Struct, frozen=True, gc=False):
    """The key of a timer."""

    kind: GroupTimerKind
    group_id: str = ""
    member_id: str = ""


def has_passed(interval_ms: int, since: int, now: int) -> bool:
    """Whether an interval is over that began at a time of the wall clock.

    A beginning in the future was noted before the clock was set back: how long ago is not known,
    and waiting for that time to come again could take hours.
    """
    return not since <= now < since + interval_ms
