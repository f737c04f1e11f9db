"""Where two logs diverge, by the leader epochs of their records (KIP-101, 279, 595). Pure.

A log is known here by its end and by its `Epochs`: which leader epoch began at which offset. Two
logs agree up to the end of an epoch that both have: one leader wrote it, once.

1. A follower sends the end of its log and its last epoch. The leader answers with its own largest
   epoch up to that one and where it ends, if the follower's log is longer than that.
2. The follower truncates there, or where its own largest epoch up to the answered one ends,
   whichever comes first; its next fetch shows whether to truncate further.
3. Below the leader's log start there is nothing to compare with. A follower that ends there is out
   of range and restarts at the leader's log start: what it has was deleted, or was never committed.
   One that ends exactly at it continues if the leader still knows the epoch of its last record:
   their logs agreed up to there, and it keeps its producers' state. A follower without any record
   begins at the leader's log start, wherever its own log starts: else it would be in sync without
   the records below.
4. A leader notes its epoch, which begins at the end of its log, *before* it answers any fetch: else
   it would not know epochs that are older than its own and newer than its last record's.
"""

from typing import Protocol

from ottla.wire.errors import ErrorCode, KafkaError


class Epochs(Protocol):
    """The leader epochs of one log."""

    latest: int

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int] | None:
        """The largest known epoch up to the asked one, and where it ends; None: not known."""

    def epoch_of(self, offset: int) -> int:
        """The epoch of the leader that wrote an offset, -1 if it is not known."""


def diverging(epochs: Epochs, log_end: int, epoch: int, offset: int) -> tuple[int, int] | None:
    """Where a log that ends at `offset` in `epoch` diverges from this one, if it does."""
    if epoch < 0:
        return None
    found = epochs.end_offset_for(epoch, log_end)
    if found is None:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"nothing is known of epoch {epoch}")
    return found if found[0] < epoch or found[1] < offset else None


def check_start(
    epochs: Epochs, log_start: int, offset: int, own_start: int, last_epoch: int
) -> None:
    """Refuse a follower whose log, from its own start to an offset, ends before this one's begins.

    Otherwise records that were never committed would stay at its beginning, and be read when it
    leads. Call it before `diverging`, which is for logs that are too long.
    """
    is_empty = last_epoch < 0 and own_start >= offset
    if (
        offset < log_start
        or (is_empty and offset > log_start)
        or (own_start < offset == log_start and last_epoch != epochs.epoch_of(log_start))
    ):
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"a log from {own_start} to {offset} does not reach the log's start {log_start}",
        )


def truncation_offset(parting: tuple[int, int], log_end: int, epochs: Epochs) -> int:
    """Where to truncate the own log after this answer of the leader."""
    epoch, end = parting
    own = epochs.end_offset_for(epoch, log_end)
    return min(end, log_end) if own is None else min(end, own[1], log_end)
