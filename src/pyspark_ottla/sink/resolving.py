"""Carries out the table of `recovery`: proofs are got, open transactions of PREPARED are ended.

Once PREPARED is committed the batch is decided, so anyone may end its transactions: a task of the
next run as well as the process that wrote it. All push in the same direction.
"""

from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

from ottla.client import Client
from ottla.client.transactional import Transactions
from ottla.wire.errors import ErrorCode
from pyspark_ottla.sink.errors import (
    RolledBackError,
    SharedSinkError,
    SinkError,
    UnknownOutcomeError,
)
from pyspark_ottla.sink.marker import Decision, Prepared, Written
from pyspark_ottla.sink.proof import prove
from pyspark_ottla.sink.recovery import Action, Proof, action

BATCH_WRITES = "batch writes"


class Resolved(NamedTuple):
    """What is to be done with a batch: WRITE, NOTHING, FINISH or REPAIR."""

    batch: int
    action: Action
    theirs: dict[int, tuple[Written, Proof]]
    """The transactions of an earlier PREPARED by partition, each committed or aborted."""
    finished: Prepared | None = None
    """An older batch whose transactions are all committed, and which has no DONE yet."""

    def is_committed(self, partition: int) -> bool:
        """True where an earlier attempt has committed the partition's rows."""
        return self.action in (Action.NOTHING, Action.FINISH) or (
            partition in self.theirs and self.theirs[partition][1] is Proof.COMMITTED
        )


def check_owner(sink: str, decision: Decision | None, query: str) -> None:
    """Raise where a sink belongs to another query: the numbers of its batches are not this one's,
    and a batch would count as written that never was.
    """
    if not is_of(decision, query):
        assert decision is not None
        raise SharedSinkError(
            f"the sink {sink} belongs to {_whose(decision.query)}, which has written its batch "
            f"{decision.batch}; this is {_whose(query)}. No two queries or targets can share a "
            "sinkId, and a new checkpoint cannot continue with an old one: take another sinkId here"
        )


def owner_of_batches(query: str | None, topic: str | None) -> str:
    """Whose decisions those of batch writes are: two writes in one `foreachBatch` that share a
    sinkId by mistake differ in their topics, if in nothing else.
    """
    of = "" if query is None else f" of the query {query}"
    return f"{BATCH_WRITES}{of}" + ("" if topic is None else f" to topic {topic}")


def _whose(query: str) -> str:
    return query if query.startswith(BATCH_WRITES) else f"the query {query}"


def is_of(decision: Decision | None, query: str) -> bool:
    """Whether a decision may be the query's own."""
    return decision is None or decision.query in ("", query)


def check_rows(sink: str, batch: int, before: int | None, now: int) -> None:
    """Raise where a batch that is committed, and will not be written again, has other rows now."""
    if before is not None and before != now:
        raise RolledBackError(
            f"batch {batch} of the sink {sink} was written with {before} rows, and now has {now}: "
            "the checkpoint is older than the sink (restored or copied), or the query gives other "
            "rows for the same input. Use the newest checkpoint, or another sinkId; to leave the "
            "batch as it was written, start once with the option unknownOutcome=committed"
        )


def resolve(
    client: Client,
    transactions: Transactions,
    sink: str,
    decision: Decision | None,
    batch: int,
    unknown_outcome: Proof,
) -> Resolved:
    """Find out what is to be done; raises where nothing can be."""
    written: Sequence[Written] = ()
    if isinstance(decision, Prepared) and decision.batch <= batch:
        written = decision.written
    proofs = {item.partition: (item, _proof(client, item, unknown_outcome)) for item in written}
    deadline = monotonic() + client.settings.deadline
    pause = client.settings.backoff
    while True:
        what = action(decision, batch, [proof for _, proof in proofs.values()])
        match what:
            case Action.ROLLED_BACK:
                assert decision is not None
                raise RolledBackError(
                    f"batch {batch} is to be written to the sink {sink}, but batch "
                    f"{decision.batch} was already written: the checkpoint is older than the sink "
                    "(restored, or a new one with an old sinkId). Use the newest checkpoint, or "
                    "another sinkId"
                )
            case Action.UNKNOWN:
                assert decision is not None
                raise UnknownOutcomeError(_unknown(sink, decision.batch, list(proofs.values())))
            case Action.UNFINISHED:
                assert decision is not None
                raise SinkError(
                    f"batch {decision.batch} of the sink {sink} is committed in part, and batch "
                    f"{batch} is to be written. Write batch {decision.batch} again first, with the "
                    "same rows: that completes it"
                )
            case Action.END_AGAIN:
                if monotonic() > deadline:
                    raise SinkError(_still_open(sink, batch, list(proofs.values())))
                assert isinstance(decision, Prepared)
                open_ones = [item for item, proof in proofs.values() if proof is Proof.OPEN]
                endings = transactions.end(
                    [item.key for item in open_ones],
                    commit=True,
                    end_txn_version=decision.end_txn_version,
                )
                for item in open_ones:
                    if endings[item.key].error_code is ErrorCode.NONE:
                        proofs[item.partition] = item, Proof.COMMITTED
                    else:
                        # It was aborted, or committed otherwise: its markers may be on their way.
                        pause = client.pause(pause)
                        proofs[item.partition] = item, _proof(client, item, unknown_outcome)
            case _ if isinstance(decision, Prepared) and decision.batch < batch:
                is_finished = all(proof is Proof.COMMITTED for _, proof in proofs.values())
                return Resolved(batch, what, {}, decision if is_finished else None)
            case _:
                return Resolved(batch, what, proofs)


def _proof(client: Client, written: Written, unknown_outcome: Proof) -> Proof:
    proof = prove(client, written)
    return unknown_outcome if proof is Proof.UNKNOWN else proof


def _unknown(sink: str, batch: int, proofs: Sequence[tuple[Written, Proof]]) -> str:
    lost = "; ".join(
        f"{item.rows} rows of task {item.partition} at " + _places(item)
        for item, proof in proofs
        if proof is Proof.UNKNOWN
    )
    others = {proof.name.lower() for _, proof in proofs} - {"unknown"}
    rest = f" (of the others, the log says {' and '.join(sorted(others))})" if others else ""
    return (
        f"batch {batch} of the sink {sink} was about to be committed when its last run ended, and "
        f"the log no longer tells whether it was: {lost}{rest}. Find out whether readers have had "
        "these rows, and start once with the option unknownOutcome=committed or =aborted"
    )


def _still_open(sink: str, batch: int, proofs: Sequence[tuple[Written, Proof]]) -> str:
    names = ", ".join(item.transactional_id for item, proof in proofs if proof is Proof.OPEN)
    return f"batch {batch} of the sink {sink}: transactions that cannot be ended: {names}"


def _places(item: Written) -> str:
    return ", ".join(
        f"{place.topic}-{place.partition} offsets {place.first} to {place.last}"
        for place in item.places
    )
