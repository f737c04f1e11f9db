"""What a follower asks its leader, and what it does with the answer. Pure; one partition.

A `Following` is one term: made when the image names a leader and an epoch, dropped when it names
others. A broker that is to lead drops it first, and only then begins to lead.

Rules kept here:
1. An answer counts only if it answers a fetch of this term, from where the log still ends. All
   others are dropped unread.
2. The log is cut only where the leader says that the two part (`DivergingEpoch`), by epochs and
   never by the high watermark. Where our own epochs are sparser than the leader's, the cut may take
   several rounds, each to an earlier epoch.
3. A log that ends where the leader's begins, or before, is given up whole and begins there. So does
   an empty one. Any other OFFSET_OUT_OF_RANGE changes nothing.
4. The follower's high watermark is the leader's, as far as the own log goes. It does not go back
   unless the log was cut: the new leader of a term learns late what was committed.
5. The own log start follows the leader's (DeleteRecords), not past the own high watermark.

What an answer leads to:

| the answer                                         | the step                       |
|----------------------------------------------------|--------------------------------|
| of another term, or to a fetch from elsewhere      | DROP                           |
| a diverging epoch                                  | TRUNCATE to `offset`, ask again |
| OFFSET_OUT_OF_RANGE, our log ends before theirs    | RESTART at `offset`, ask again |
| any other error                                    | BACK_OFF                       |
| records, or none                                   | APPEND, then `marks`           |
"""

from enum import Enum
from typing import NamedTuple

from ottla.cluster.epochs import Epochs, truncation_offset
from ottla.wire.errors import ErrorCode


class Fetch(NamedTuple):
    """What a follower asks for one partition."""

    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start: int


class Answer(NamedTuple):
    """What a leader answers for one partition; `diverging` is an epoch and its end offset."""

    error: ErrorCode
    high_watermark: int = -1
    log_start: int = -1
    diverging: tuple[int, int] | None = None


class Action(Enum):
    """What to do with an answer."""

    DROP = "drop"
    TRUNCATE = "truncate"
    RESTART = "restart"
    APPEND = "append"
    BACK_OFF = "back off"


class Step(NamedTuple):
    """An action, and the offset that it goes to."""

    action: Action
    offset: int = -1


class Marks(NamedTuple):
    """Where the high watermark and the log start are after an append."""

    high_watermark: int
    log_start: int


class Following:
    """One term of a partition's follower."""

    __slots__ = ("leader", "leader_epoch")

    def __init__(self, leader: int, leader_epoch: int) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch

    def fetch(self, log_end: int, epochs: Epochs, log_start: int) -> Fetch:
        """What to ask next."""
        return Fetch(self.leader_epoch, log_end, epochs.latest, log_start)

    def answered(self, fetch: Fetch, answer: Answer, log_end: int, epochs: Epochs) -> Step:
        """What an answer to that fetch leads to."""
        if fetch.leader_epoch != self.leader_epoch or fetch.offset != log_end:
            return Step(Action.DROP)
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            is_empty = epochs.latest < 0
            if answer.log_start >= log_end or (is_empty and answer.log_start >= 0):
                return Step(Action.RESTART, answer.log_start)
        if answer.error != ErrorCode.NONE:
            return Step(Action.BACK_OFF)
        if answer.diverging is not None:
            if min(answer.diverging) < 0:  # the leader does not know: no reason to cut anything
                return Step(Action.BACK_OFF)
            return Step(Action.TRUNCATE, truncation_offset(answer.diverging, log_end, epochs))
        return Step(Action.APPEND)


def marks(answer: Answer, high_watermark: int, log_end: int, log_start: int) -> Marks:
    """High watermark and log start, once the answer's records are in the log."""
    known = min(max(high_watermark, answer.high_watermark), log_end)
    return Marks(known, max(log_start, min(answer.log_start, known)))
