"""How far consumer groups are behind, in messages and in seconds. Pure.

Rules kept here:
1. Lag in messages is the partition's high watermark less the committed offset, never below 0.
2. Lag in seconds is the age of the first message that is not committed yet: when the high watermark
   passed the committed offset, between the two looks at it that enclose that moment. Where it
   passed before the first look, the age of that look is reported: too little rather than too
   much.
3. What is kept is bounded: a fixed number of looks for each partition with a group.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

LOOKS: Final = 120

TopicPartition = tuple[str, int]


class CommittedPosition(NamedTuple):
    """A group's committed offset in a partition."""

    group: str
    topic: str
    partition: int
    offset: int


@dataclass
class GroupPositions:
    """The groups that a broker coordinates, and where the partitions end that they read."""

    members: dict[str, int] = field(default_factory=dict)
    positions: list[CommittedPosition] = field(default_factory=list)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    left_out: int = 0
    """What was left out, because there is too much."""


class GroupLag(NamedTuple):
    """How far a position is behind."""

    position: CommittedPosition
    messages: int
    seconds: float


class EndHistory:
    """Where partitions ended, and when that was seen."""

    def __init__(self) -> None:
        self._looks: dict[TopicPartition, deque[tuple[float, int]]] = {}

    def saw(self, ends: Mapping[TopicPartition, int], now: float) -> None:
        """Note a look at all partitions that matter; others are forgotten."""
        self._looks = {key: looks for key, looks in self._looks.items() if key in ends}
        for key, end in ends.items():
            looks = self._looks.setdefault(key, deque(maxlen=LOOKS))
            if looks and end < looks[-1][1]:
                looks.clear()  # truncated, or another topic of the name
            if len(looks) > 1 and looks[-1][1] == looks[-2][1] == end:
                looks.pop()  # at rest: the first and the last look say it all
            looks.append((now, end))

    def seconds_behind(self, key: TopicPartition, offset: int, now: float) -> float:
        """How long ago the partition's end passed an offset; 0 where it has not."""
        looks = self._looks.get(key)
        if not looks or looks[-1][1] <= offset:
            return 0.0
        after = looks[-1]
        for look in reversed(looks):
            if look[1] <= offset:
                (began, low), (ended, high) = look, after
                return now - (began + (ended - began) * (offset - low) / (high - low))
            after = look
        return now - looks[0][0]


def lag_of(position: CommittedPosition, end: int, history: EndHistory, now: float) -> GroupLag:
    """How far a group is behind in a partition that ends there."""
    key = (position.topic, position.partition)
    behind = history.seconds_behind(key, position.offset, now)
    return GroupLag(position, max(0, end - position.offset), behind)
