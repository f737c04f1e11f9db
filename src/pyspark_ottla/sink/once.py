"""Batch writes that happen once, by a number: `DataFrame.write` with sinkId and batchId.

The protocol is that of streams (`recovery`, `commit`). What differs:
1. Each write is a run of its own. The marker is read when it begins, on the driver, and what is to
   be done goes to the tasks with the writer. A commit always takes the fence, and looks again.
2. Nobody makes sure that a batch is finished before the next one is written. So the one that comes
   with a later one ends what PREPARED has left open, and fails where that batch was written in
part. 3. Writes share their transactional ids (`names`): they are swept only by who has the fence,
   and not where PREPARED is the last word, since its transactions may be among them.
"""

from collections.abc import Sequence

from ottla.client.transactional import Transactions
from pyspark_ottla.connections import borrowed
from pyspark_ottla.sink import steps
from pyspark_ottla.sink.ending import abort_listed, sweep
from pyspark_ottla.sink.fence import Fence
from pyspark_ottla.sink.marker import Decision, Prepared, Written
from pyspark_ottla.sink.marker_log import read_marker
from pyspark_ottla.sink.messages import TaskReport
from pyspark_ottla.sink.names import NUMBERED
from pyspark_ottla.sink.resolving import Resolved, is_of, resolve
from pyspark_ottla.sink.settings import SinkSettings
from pyspark_ottla.sink.steps import CommitStep


def look(settings: SinkSettings, sink: str, batch: int) -> Resolved:
    """What is to be done with a batch; raises where nothing can be."""
    with borrowed(settings.client) as client:
        decision = read_marker(client, sink).decision
        unknown = settings.unknown_outcome
        return resolve(client, Transactions(client), sink, decision, batch, unknown)


def abort_once(
    settings: SinkSettings, reports: Sequence[TaskReport], sink: str, run: str, batch: int
) -> None:
    """Undo a batch, unless it is decided already; also where no task has reported."""
    with borrowed(settings.client) as client:
        transactions = Transactions(client)
        decision = read_marker(client, sink).decision
        is_own = not reports or is_of(decision, reports[0].query)
        is_fenced = is_own and not _reaches(decision, batch)
        if is_fenced:
            Fence.take(client, transactions, sink)
            steps.reached(CommitStep.ABORT_FENCED)
            decision = read_marker(client, sink).decision
        if decision is not None and decision.batch == batch and decision.run == run:
            return  # It was decided after all: the next write of the batch finishes it.
        abort_listed(transactions, _written(reports))
        steps.reached(CommitStep.ABORTED)
        if is_fenced and not isinstance(decision, Prepared):
            sweep(client, transactions, sink, NUMBERED)


def _reaches(decision: Decision | None, batch: int) -> bool:
    return decision is not None and decision.batch >= batch


def _written(reports: Sequence[TaskReport]) -> list[Written]:
    return [item.report.written for item in reports if item.report.written is not None]
