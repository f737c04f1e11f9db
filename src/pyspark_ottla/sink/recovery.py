"""What to do with a batch that may have been written before (pure): the table of the sink.

| marker found when batch b runs          | action                                              |
|-----------------------------------------|-----------------------------------------------------|
| none, or DONE of an older batch         | WRITE                                               |
| DONE(b)                                 | NOTHING: tasks write nothing                        |
| PREPARED(b), a proof is unknown         | UNKNOWN: fail, the operator decides                 |
| PREPARED(b), a proof says open          | END_AGAIN: with the recorded version, and look again |
| PREPARED(b), all proven committed       | FINISH: tasks write nothing, DONE follows           |
| PREPARED(b), all proven aborted         | WRITE: again, with a new PREPARED(b)                |
| PREPARED(b), some of each               | REPAIR: only aborted partitions are written again   |
| a later batch                           | ROLLED_BACK: fail, the checkpoint is older          |

PREPARED of an older batch, which only batch jobs can meet, is brought to its end first: unknown and
open are as above, some of each is UNFINISHED (fail: that batch has to be written again first), and
all committed or all aborted is WRITE.

A record that is undecided counts as none for a task; commit and abort never see one, since they
take the fence first. When b turns out to be won by another list, commit takes what that list has
committed and aborts its own transactions for it: `merged` says which.

Rules kept here:
1. Committed and aborted are final: two who look at different times may only differ where one saw
   nothing yet. So each partition's fate can be decided by itself.
2. When anything of a batch is committed, what is added must be the same rows: every partition's
   count and digest must equal the record's, or the batch fails and names them.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import NamedTuple

from pyspark_ottla.sink.errors import SinkError
from pyspark_ottla.sink.marker import Decision, Done, Written


class Proof(Enum):
    """What the log says about a transaction."""

    COMMITTED = auto()
    ABORTED = auto()
    OPEN = auto()
    UNKNOWN = auto()


class Action(Enum):
    """What is to be done with a batch; the table says when."""

    WRITE = auto()
    NOTHING = auto()
    UNKNOWN = auto()
    END_AGAIN = auto()
    FINISH = auto()
    REPAIR = auto()
    ROLLED_BACK = auto()
    UNFINISHED = auto()


def action(decision: Decision | None, batch: int, proofs: Iterable[Proof]) -> Action:
    """The action for a batch; the proofs are those of the decision's transactions."""
    if decision is None:
        return Action.WRITE
    if decision.batch > batch:
        return Action.ROLLED_BACK
    is_older = decision.batch < batch
    if isinstance(decision, Done):
        return Action.WRITE if is_older else Action.NOTHING
    found = set(proofs)
    if Proof.UNKNOWN in found:
        return Action.UNKNOWN
    if Proof.OPEN in found:
        return Action.END_AGAIN
    if Proof.ABORTED in found and Proof.COMMITTED in found:
        return Action.UNFINISHED if is_older else Action.REPAIR
    return Action.WRITE if is_older or Proof.ABORTED in found else Action.FINISH


class PartitionReport(NamedTuple):
    """What a task found in its partition, and wrote of it (None where it wrote nothing)."""

    partition: int
    rows: int
    digest: int
    written: Written | None


class Merged(NamedTuple):
    """The transactions that make up a batch, and those that are left over."""

    kept: list[Written]
    """Committed already, by an earlier list."""
    to_commit: list[Written]
    to_abort: list[Written]


def merged(
    reports: Iterable[PartitionReport], theirs: Mapping[int, tuple[Written, Proof]]
) -> Merged:
    """Join what this attempt wrote with what an earlier one has committed.

    `theirs` is the earlier list by partition, each entry proven committed or aborted.
    """
    kept = {
        partition: written
        for partition, (written, proof) in theirs.items()
        if proof is Proof.COMMITTED
    }
    mine = {report.partition: report for report in reports}
    if kept:
        _check_same_rows(mine, {partition: written for partition, (written, _) in theirs.items()})
    own = [report.written for report in mine.values() if report.written is not None]
    missing = [
        str(report.partition)
        for report in mine.values()
        if report.rows and report.written is None and report.partition not in kept
    ]
    if missing:
        raise SinkError(
            f"partitions {', '.join(missing)} were not written, since an earlier attempt was "
            "thought to have committed them; it had not. Start the query again"
        )
    return Merged(
        list(kept.values()),
        [written for written in own if written.partition not in kept],
        [written for written in own if written.partition in kept],
    )


def _check_same_rows(mine: Mapping[int, PartitionReport], theirs: Mapping[int, Written]) -> None:
    differing = []
    for partition in sorted(mine.keys() | theirs.keys()):
        now, before = mine.get(partition), theirs.get(partition)
        now_rows, now_digest = (now.rows, now.digest) if now else (0, 0)
        rows, digest = (before.rows, before.digest) if before else (0, 0)
        if (now_rows, now_digest) != (rows, digest):
            differing.append(f"partition {partition} had {rows} rows and now has {now_rows}")
    if differing:
        raise SinkError(
            "part of the batch is committed, and the rest cannot be added, since the batch no "
            f"longer has the same rows: {'; '.join(differing)} (where the numbers are equal, the "
            "rows differ)"
        )
