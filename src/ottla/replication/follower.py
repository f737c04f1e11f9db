"""What a follower asks its leader, and what it does with the answer. Pure; one partition.

A `Following` is one term: made when the image names a leader and an epoch, dropped when it names
others. A broker that becomes leader drops it first.

Rules kept here:
1. An answer counts only if it is for a fetch of this term, from the offset where the log still
   ends. All others are dropped.
2. The log is truncated only where the leader says that the logs diverge (`DivergingEpoch`), by
   epochs and never by the high watermark. Where our own epochs are sparser than the leader's, that
   may take several rounds, each to an earlier epoch.
3. A log that ends where the leader's begins, or before, is truncated fully and begins there. So
   does an empty one. Any other OFFSET_OUT_OF_RANGE changes nothing.
   That the leader's log begins there must be explained: by DeleteRecords, which is recorded in the
   partition's document, or by retention, which could have deleted what we have. Where it is not (an
   older version has deleted them, or retention had other settings then), a copy is kept as a stray
   folder.
4. The follower's high watermark is the leader's, as far as the own log goes. It does not go back
   unless the log was truncated: the new leader of a term learns late what was committed.
5. The own log start follows the leader's (DeleteRecords), not past the own high watermark, and only
   where that is explained as in rule 3. Where it is not, the records are kept, and nothing else
   changes: the logs agree above them.
6. The safety net: records known as committed are removed only where an unclean election has been
   recorded since our log last agreed with a leader's (`may_lose`). Otherwise the leader lacks
   committed records: nothing is truncated, nothing is copied, and an operator has to decide.
   A leader that does not know our last epoch lacks nothing if the epoch before it reaches up to our
   high watermark in its log: compaction has removed all batches of that epoch. What we have of it
   is copied again.

What an answer leads to:

| the answer                                         | the step                       |
|----------------------------------------------------|--------------------------------|
| of another term, or to a fetch from elsewhere      | DROP                           |
| a diverging epoch                                  | TRUNCATE to `offset`, ask again |
| ... below our high watermark, and so the leader's  | HALT: ask later, keep the log   |
|     epoch ends                                     |                                |
| OFFSET_OUT_OF_RANGE, our log ends before theirs    | RESTART at `offset`, ask again |
| ... and nothing explains that theirs starts there  | SET_ASIDE: RESTART, keep a copy |
| any other error                                    | BACK_OFF                       |
| records, or none                                   | APPEND, then `marks`           |
"""

from enum import Enum
from typing import NamedTuple

from ottla.replication.epochs import Epochs, truncation_offset
from ottla.wire.errors import ErrorCode


class FollowerFetch(NamedTuple):
    """What a follower asks for one partition."""

    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start: int


class LeaderAnswer(NamedTuple):
    """What a leader answers for one partition; `diverging` is an epoch and its end offset."""

    error: ErrorCode
    high_watermark: int = -1
    log_start: int = -1
    diverging: tuple[int, int] | None = None


class FollowerAction(Enum):
    """What a follower does with an answer."""

    DROP = "drop"
    TRUNCATE = "truncate"
    RESTART = "restart"
    SET_ASIDE = "set aside"
    APPEND = "append"
    HALT = "halt"
    BACK_OFF = "back off"


class FollowerStep(NamedTuple):
    """An action, and the offset that it goes to."""

    action: FollowerAction
    offset: int = -1


class Marks(NamedTuple):
    """Where the high watermark and the log start are after an append."""

    high_watermark: int
    log_start: int


class Following:
    """One term of a partition's follower."""

    __slots__ = ("leader", "leader_epoch", "may_lose")

    def __init__(self, leader: int, leader_epoch: int, *, may_lose: bool = False) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.may_lose = may_lose
        """An unclean election explains that this leader lacks what we know as committed."""

    def fetch(self, log_end: int, epochs: Epochs, log_start: int) -> FollowerFetch:
        """What to ask next."""
        return FollowerFetch(self.leader_epoch, log_end, epochs.latest, log_start)

    def answered(
        self,
        fetch: FollowerFetch,
        answer: LeaderAnswer,
        log_end: int,
        epochs: Epochs,
        high_watermark: int,
        *,
        was_deleted: bool = True,
    ) -> FollowerStep:
        """What an answer to that fetch leads to.

        `was_deleted` returns whether it is explained that the leader's log starts where it does.
        """
        if fetch.leader_epoch != self.leader_epoch or fetch.offset != log_end:
            return FollowerStep(FollowerAction.DROP)
        if answer.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            has_nothing = fetch.log_start >= log_end
            if has_nothing and epochs.latest < 0 <= answer.log_start:
                return FollowerStep(FollowerAction.RESTART, answer.log_start)
            if answer.log_start >= log_end:
                may_restart = has_nothing or was_deleted or self.may_lose
                return FollowerStep(
                    FollowerAction.RESTART if may_restart else FollowerAction.SET_ASIDE,
                    answer.log_start,
                )
        if answer.error != ErrorCode.NONE:
            return FollowerStep(FollowerAction.BACK_OFF)
        if answer.diverging is not None:
            if min(answer.diverging) < 0:  # the leader does not know: no reason to truncate
                return FollowerStep(FollowerAction.BACK_OFF)
            offset = truncation_offset(answer.diverging, log_end, epochs)
            lacks_nothing = max(offset, answer.diverging[1]) >= high_watermark
            may_cut = lacks_nothing or self.may_lose
            return FollowerStep(FollowerAction.TRUNCATE if may_cut else FollowerAction.HALT, offset)
        return FollowerStep(FollowerAction.APPEND)


def marks(
    answer: LeaderAnswer,
    high_watermark: int,
    log_end: int,
    log_start: int,
    *,
    was_deleted: bool = True,
) -> Marks:
    """High watermark and log start, once the answer's records are in the log."""
    known = min(max(high_watermark, answer.high_watermark), log_end)
    if not was_deleted:
        return Marks(known, log_start)
    return Marks(known, max(log_start, min(answer.log_start, known)))
