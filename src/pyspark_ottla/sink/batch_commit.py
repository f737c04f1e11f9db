"""The driver's side of a batch job: all transactions are committed, or none.

Rules kept here:
1. Nothing is committed before all tasks have reported and all their transactions are open.
2. When one of them is committed, the others are to be: an abort that finds one committed continues
   with the rest. Only a driver that dies between the first and the last leaves a part.
3. After a failure the run is swept, also where no task has reported: one may have written, and its
   report be lost with the job. Nobody else would end its transaction.
4. The audit event is written when all are committed; it counts once, however often it is written.
"""

from collections.abc import Sequence

from ottla.client import Client
from ottla.client.transactional import Transactions
from ottla.wire.errors import ErrorCode
from pyspark_ottla.connections import borrowed
from pyspark_ottla.sink import steps
from pyspark_ottla.sink.ending import abort_listed, check_open, sweep
from pyspark_ottla.sink.errors import SinkError
from pyspark_ottla.sink.marker import Written
from pyspark_ottla.sink.messages import TaskReport
from pyspark_ottla.sink.plain_report import report_parts
from pyspark_ottla.sink.proof import prove
from pyspark_ottla.sink.recovery import Proof
from pyspark_ottla.sink.settings import SinkSettings
from pyspark_ottla.sink.steps import CommitStep


def commit_write(settings: SinkSettings, reports: Sequence[TaskReport]) -> None:
    """Make the rows of a batch job visible."""
    written = _written(reports)
    if not reports:
        return
    with borrowed(settings.client) as client:
        transactions = Transactions(client)
        check_open(client, written, "the write")
        steps.reached(CommitStep.CHECKED)
        _end_all(transactions, written)
        steps.reached(CommitStep.ENDED)
        _report(settings, client, reports)
        sweep(client, transactions, reports[0].sink, reports[0].run)


def abort_write(
    settings: SinkSettings,
    reports: Sequence[TaskReport],
    *,
    sink: str,
    run: str,
    all_reported: bool,
) -> None:
    """Undo a batch job, or finish it where a part is visible already."""
    written = _written(reports)
    with borrowed(settings.client) as client:
        transactions = Transactions(client)
        if all_reported and any(prove(client, item) is Proof.COMMITTED for item in written):
            _end_all(transactions, written)
            _report(settings, client, reports)
        elif written:
            abort_listed(transactions, written)
        sweep(client, transactions, sink, run)


def _written(reports: Sequence[TaskReport]) -> list[Written]:
    return [item.report.written for item in reports if item.report.written is not None]


def _report(settings: SinkSettings, client: Client, reports: Sequence[TaskReport]) -> None:
    parts = [item.counted for item in _written(reports)]
    report_parts(settings, client, parts, instance=reports[0].run, sequence=0)


def _end_all(transactions: Transactions, written: Sequence[Written]) -> None:
    endings = transactions.end(
        [item.key for item in written],
        commit=True,
        end_txn_version=transactions.end_txn_version,
    )
    failed = [ending for ending in endings.values() if ending.error_code is not ErrorCode.NONE]
    if failed:
        raise SinkError(
            f"{len(failed)} transactions of a write could not be committed: "
            f"{failed[0].next_key.transactional_id} ({failed[0].error_code.name})"
        )
