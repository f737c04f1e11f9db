"""The timers of groups: what each of them is for; and intervals that have none."""

from enum import Enum

from msgspec import Struct


class TimerKind(Enum):
    """What happens when the time is up."""

    CLASSIC_SESSION = "a member of a classic group was silent, or never came back to join"
    CLASSIC_JOIN = "a classic group goes on without those who have not joined"
    CLASSIC_SYNC = "members of a classic group that did not ask for their assignment go"
    CONSUMER_SESSION = "a member of a consumer group was silent"
    CONSUMER_REBALANCE = "a member of a consumer group did not give up partitions in time"
    CONSUMER_JOIN = "a classic member of a consumer group did not join again in time"
    CONSUMER_SYNC = "a classic member of a consumer group did not sync in time"
    EXPIRE_OFFSETS = "offsets past their retention go"

    __hash__ = object.__hash__  # Enum's own is a function in Python, and every heartbeat needs it


class GroupTimer(Struct, frozen=True, gc=False):
    """The key of a timer."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


def has_passed(interval_ms: int, since: int, now: int) -> bool:
    """Whether an interval is over that began at a time of the wall clock.

    A beginning in the future was noted before the clock was set back: how long ago is not known,
    and waiting for that time to come again could take hours.
    """
    return not since <= now < since + interval_ms
