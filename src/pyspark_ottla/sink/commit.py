"""The driver's side of a stream: the protocol that makes a batch's rows visible once.

Steps of a commit:
1. Once a run, take the fence; then read the marker. What it says now is final.
2. Follow the table of `recovery`: the batch may be done, decided by another run, or half committed.
3. Check that every listed transaction is open. Up to here nothing is lost by failing.
4. PREPARED, committed: the commit point. From here on the batch is only finished, never undone.
5. End the transactions; then DONE, and with it the audit event; then sweep what attempts
   have left behind.

An abort takes the fence, and reads the marker: a batch that is decided is not touched, the next run
finishes it. Otherwise its transactions are aborted.
"""

from collections.abc import Iterable, Sequence
from time import time

from ottla.audit.events import Event
from ottla.client import Client
from ottla.client.transactional import Transactions
from ottla.wire.errors import ErrorCode
from pyspark_ottla.connections import borrowed
from pyspark_ottla.sink import steps
from pyspark_ottla.sink.counting import events
from pyspark_ottla.sink.ending import abort_listed, check_open, sweep
from pyspark_ottla.sink.errors import FencedError, SinkError
from pyspark_ottla.sink.fence import Fence
from pyspark_ottla.sink.marker import Decision, Done, Prepared, Written
from pyspark_ottla.sink.marker_log import read_marker
from pyspark_ottla.sink.messages import TaskReport
from pyspark_ottla.sink.process import forget_fence, state_of
from pyspark_ottla.sink.recovery import Action, Proof, merged
from pyspark_ottla.sink.resolving import check_owner, check_rows, is_of, resolve
from pyspark_ottla.sink.settings import SinkSettings
from pyspark_ottla.sink.steps import CommitStep


def commit_batch(settings: SinkSettings, reports: Sequence[TaskReport], batch: int) -> None:
    """Make the rows of a batch visible, all of them and once."""
    if not reports:
        return
    sink, run = reports[0].sink, reports[0].run
    try:
        with borrowed(settings.client) as client:
            _Commit(settings, client, reports[0]).commit(reports, batch)
    except BaseException:
        forget_fence(settings.client.bootstrap_servers, sink, run)
        raise


def abort_batch(settings: SinkSettings, reports: Sequence[TaskReport], batch: int) -> None:
    """Undo a batch that is not to be committed, unless it is decided already."""
    if not reports:
        return
    sink, query, run = reports[0].sink, reports[0].query, reports[0].run
    forget_fence(settings.client.bootstrap_servers, sink, run)
    with borrowed(settings.client) as client:
        transactions = Transactions(client)
        seen = read_marker(client, sink).decision
        if is_of(seen, query) and not _is_overtaken(seen, run, batch):
            Fence.take(client, transactions, sink)
            steps.reached(CommitStep.ABORT_FENCED)
            decision = read_marker(client, sink).decision
            if decision is not None and decision.batch >= batch:
                return
        abort_listed(transactions, _written(reports))
        steps.reached(CommitStep.ABORTED)
        sweep(client, transactions, sink, run)


def _is_overtaken(decision: Decision | None, run: str, batch: int) -> bool:
    """True where another run has decided the batch: this run can decide nothing more, and taking
    the fence would only stop the other one.
    """
    return decision is not None and decision.run != run and decision.batch >= batch


def _written(reports: Sequence[TaskReport]) -> list[Written]:
    return [item.report.written for item in reports if item.report.written is not None]


def _rows(written: Iterable[Written]) -> int:
    return sum(item.rows for item in written)


class _Commit:
    """One commit, in the process that does it."""

    def __init__(self, settings: SinkSettings, client: Client, of: TaskReport) -> None:
        self._settings = settings
        self._client = client
        self._transactions = Transactions(client)
        self._sink = of.sink
        self._query = of.query
        self._run = of.run
        self._state = state_of(settings.client.bootstrap_servers, of.sink, of.run)

    def commit(self, reports: Sequence[TaskReport], batch: int) -> None:
        if self._state.fence is not None:
            try:
                return self._attempt(reports, batch)
            except FencedError:
                # The queries of an application share Spark's commit processes, so another one may
                # have decided for this run since. To start over is safe at every step then, and
                # fails where another run has taken the fence and decided nothing yet.
                decision = read_marker(self._client, self._sink).decision
                if decision is None or decision.run != self._run:
                    raise
                self._state.fence = None
        return self._attempt(reports, batch)

    def _attempt(self, reports: Sequence[TaskReport], batch: int) -> None:
        is_first = self._state.fence is None
        fence, decision = self._fence()
        resolved = resolve(
            self._client,
            self._transactions,
            self._sink,
            decision,
            batch,
            self._settings.unknown_outcome,
        )
        has_decided = not is_first
        if resolved.finished is not None:
            older = resolved.finished.batch, resolved.finished.written
            fence.decide(self._done(*older), self._events(*older))
            has_decided = True
        match resolved.action:
            case Action.NOTHING:
                assert isinstance(decision, Done)
                self._check_rows(batch, decision.rows, reports)
                abort_listed(self._transactions, _written(reports))
            case Action.FINISH:
                theirs = [written for written, _ in resolved.theirs.values()]
                self._check_rows(batch, _rows(theirs), reports)
                abort_listed(self._transactions, _written(reports))
                fence.decide(self._done(batch, theirs), self._events(batch, theirs))
                has_decided = True
            case _:
                parts = merged([item.report for item in reports], resolved.theirs)
                abort_listed(self._transactions, parts.to_abort)
                if parts.to_commit:
                    self._decide(fence, batch, parts.kept, parts.to_commit)
                    has_decided = True
        # Where this run has decided nothing yet (no rows came), the next batch may be another
        # process's, which cannot see that the fence is this run's, and takes it.
        self._state.fence = fence.key if has_decided else None
        sweep(self._client, self._transactions, self._sink, None if is_first else self._run)
        steps.reached(CommitStep.SWEPT)

    def _fence(self) -> tuple[Fence, Decision | None]:
        """The fence, and what was decided before this batch."""
        key = self._state.fence
        if key is not None:
            # All decisions since were made by this run, for earlier batches.
            return Fence(self._client, self._transactions, self._sink, key), None
        # Before it is taken: the query whose sink it is would be stopped by it.
        check_owner(self._sink, read_marker(self._client, self._sink).decision, self._query)
        fence = Fence.take_once(self._client, self._transactions, self._sink, self._run)
        steps.reached(CommitStep.FENCED)
        decision = read_marker(self._client, self._sink).decision
        check_owner(self._sink, decision, self._query)
        return fence, decision

    def _decide(
        self, fence: Fence, batch: int, kept: list[Written], to_commit: list[Written]
    ) -> None:
        check_open(self._client, to_commit, f"batch {batch} of the sink {self._sink}")
        steps.reached(CommitStep.CHECKED)
        version = self._transactions.end_txn_version
        whole = [*kept, *to_commit]
        prepared = Prepared(batch, self._run, version, whole, self._query)
        fence.decide(prepared)
        self._end(to_commit, prepared)
        steps.reached(CommitStep.ENDED)
        fence.decide(self._done(batch, whole), self._events(batch, whole))

    def _done(self, batch: int, written: Iterable[Written]) -> Done:
        return Done(batch, self._run, self._query, _rows(written))

    def _check_rows(self, batch: int, before: int | None, reports: Sequence[TaskReport]) -> None:
        if self._settings.unknown_outcome is not Proof.COMMITTED:
            check_rows(self._sink, batch, before, sum(item.report.rows for item in reports))

    def _events(self, batch: int, written: Iterable[Written]) -> list[Event]:
        audit = self._settings.audit
        if audit is None:
            return []
        counted = [item.counted for item in written]
        now = int(time() * 1000)
        return events(audit, counted, instance=self._sink, sequence=batch, time=now)

    def _end(self, written: list[Written], prepared: Prepared) -> None:
        endings = self._transactions.end(
            [item.key for item in written], commit=True, end_txn_version=prepared.end_txn_version
        )
        if all(ending.error_code is ErrorCode.NONE for ending in endings.values()):
            return
        # Another run may have ended them for us: the log knows.
        resolved = resolve(
            self._client,
            self._transactions,
            self._sink,
            Prepared(prepared.batch, self._run, prepared.end_txn_version, written),
            prepared.batch,
            self._settings.unknown_outcome,
        )
        if resolved.action is not Action.FINISH:
            raise SinkError(
                f"a transaction of batch {prepared.batch} of the sink {self._sink} was aborted "
                "after the batch was decided. Start the query, or the write, again: that repairs it"
            )
