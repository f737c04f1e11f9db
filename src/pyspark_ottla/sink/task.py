"""The task's side of the sink: rows into the log, in a transaction that stays open.

Rules kept here:
1. When a process first sees a run of a query it reads the marker: a batch that is committed, or
   partly, is not written again. What a task sees undecided counts as nothing; the driver finds out.
2. A transaction is begun with the first row, under an id of this process. Empty tasks begin none.
3. The report is returned only when every record is acknowledged and no request is on its way: a
   late one would get into the transaction even after it was committed.
4. After any failure the transaction is aborted, as well as that can be done.
5. With at-least-once rows go out as they come, in no transaction.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from secrets import randbelow
from time import time
from typing import TYPE_CHECKING

from ottla.client import Client
from ottla.client.batch_sender import BatchSender
from ottla.client.cluster import NO_LEADER
from ottla.client.transactional import TransactionKey, Transactions
from ottla.wire.errors import ErrorCode, KafkaError
from pyspark_ottla.connections import borrowed
from pyspark_ottla.sink import steps
from pyspark_ottla.sink.counting import SinkTally
from pyspark_ottla.sink.errors import RowError, SinkError
from pyspark_ottla.sink.marker import Written, places
from pyspark_ottla.sink.marker_log import read_marker
from pyspark_ottla.sink.messages import RowsWritten, Task, TaskReport
from pyspark_ottla.sink.names import NUMBERED
from pyspark_ottla.sink.process import RunState, state_of
from pyspark_ottla.sink.recovery import Action, PartitionReport
from pyspark_ottla.sink.resolving import Resolved, check_owner, resolve
from pyspark_ottla.sink.routing import Routing
from pyspark_ottla.sink.settings import SinkSettings
from pyspark_ottla.sink.steps import CommitStep
from pyspark_ottla.sink.topics import partition_count

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

    Batches = Iterable[pa.RecordBatch]


NO_SUCH_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION})

ENDED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""The error of a producer whose transaction has timed out."""


def write_at_least_once(settings: SinkSettings, writer: str, batches: "Batches") -> RowsWritten:
    """Write rows, each at least once; `writer` is the stream's query, or the run of a job."""
    with borrowed(settings.client) as client:
        routing = _routing(settings, client)
        tally = SinkTally(settings.audit)
        sender = BatchSender(client, codec=settings.codec, on_acknowledged=tally.add)
        for piece in routing.pieces(_encoded(settings, batches), _now_ms, digest=False):
            sender.send(*piece)
        sender.flush()
        return RowsWritten(routing.rows, writer, tally.counted(sender.spans))


def write_in_stream(settings: SinkSettings, task: Task, batches: "Batches") -> TaskReport:
    """Write a task's rows of a stream's batch, unless they were committed before."""
    with borrowed(settings.client) as client:
        transactions = Transactions(client)
        state = state_of(settings.client.bootstrap_servers, task.sink, task.run)
        resolved = _resolved(settings, client, transactions, state, task)
        if resolved.is_committed(task.partition):
            return _count(settings, client, resolved, task, batches)
        return _write(settings, client, transactions, state, task, batches)


def write_once(
    settings: SinkSettings, task: Task, resolved: Resolved, batches: "Batches"
) -> TaskReport:
    """Write a task's rows of a batch with a number, unless they were committed before, which the
    driver has found out.
    """
    with borrowed(settings.client) as client:
        if resolved.is_committed(task.partition):
            return _count(settings, client, resolved, task, batches)
        state = state_of(settings.client.bootstrap_servers, task.sink, NUMBERED)
        return _write(settings, client, Transactions(client), state, task, batches)


def write_in_batch(settings: SinkSettings, task: Task, batches: "Batches") -> TaskReport:
    """Write a task's rows of a batch job."""
    with borrowed(settings.client) as client:
        state = state_of(settings.client.bootstrap_servers, task.sink, task.run)
        return _write(settings, client, Transactions(client), state, task, batches)


def _resolved(
    settings: SinkSettings,
    client: Client,
    transactions: Transactions,
    state: RunState,
    task: Task,
) -> Resolved:
    if state.resolved is None:
        decision = read_marker(client, task.sink).decision
        check_owner(task.sink, decision, task.query)
        state.resolved = resolve(
            client, transactions, task.sink, decision, task.batch, settings.unknown_outcome
        )
    if state.resolved.batch != task.batch:
        # Later batches of a run follow one that this run has committed.
        state.resolved = Resolved(task.batch, Action.WRITE, {})
    return state.resolved


def _count(
    settings: SinkSettings, client: Client, resolved: Resolved, task: Task, batches: "Batches"
) -> TaskReport:
    """Report what is not written again: in a repair it must be the same rows, else as many."""
    if resolved.action is Action.REPAIR:
        routing = _routing(settings, client)
        routing.count_only(_encoded(settings, batches))
        report = PartitionReport(task.partition, routing.rows, routing.digest, None)
    else:
        report = PartitionReport(task.partition, sum(item.num_rows for item in batches), 0, None)
    return TaskReport(task.sink, task.query, task.run, report)


def _write(
    settings: SinkSettings,
    client: Client,
    transactions: Transactions,
    state: RunState,
    task: Task,
    batches: "Batches",
) -> TaskReport:
    routing = _routing(settings, client)
    pieces = routing.pieces(_encoded(settings, batches), _now_ms, digest=True)
    first = next(pieces, None)
    if first is None:
        return TaskReport(
            task.sink, task.query, task.run, PartitionReport(task.partition, 0, 0, None)
        )
    key = _begin(settings, transactions, state.ids.take(task.batch))
    with _aborting(transactions, key), _explaining(settings, task):
        steps.reached(CommitStep.TASK_BEGUN)
        tally = SinkTally(settings.audit)
        sender = BatchSender(
            client,
            transaction=(transactions, key),
            codec=settings.codec,
            on_acknowledged=tally.add,
        )
        for piece in chain([first], pieces):
            sender.send(*piece)
            steps.reached(CommitStep.TASK_HALF_WRITTEN)
        sender.flush()
        steps.reached(CommitStep.TASK_WRITTEN)
    written = Written(
        task.partition,
        *key,
        routing.rows,
        routing.digest,
        places(sender.spans.items()),
        tally.counted(sender.spans),
    )
    report = PartitionReport(task.partition, routing.rows, routing.digest, written)
    return TaskReport(task.sink, task.query, task.run, report)


def _encoded(settings: SinkSettings, batches: "Batches") -> "Batches":
    """The batches with their values as bytes."""
    if settings.format is None:
        return batches
    from pyspark_ottla.formats.writing import encoded

    return encoded(settings.format, batches, settings.columns.value)


def _begin(
    settings: SinkSettings, transactions: Transactions, transactional_id: str
) -> TransactionKey:
    try:
        return transactions.begin(transactional_id, settings.transaction_timeout_ms)
    except KafkaError as problem:
        if problem.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise
        raise SinkError(
            "the broker does not allow transactions of "
            f"{settings.transaction_timeout_ms} ms: lower the option kafka.transaction.timeout.ms "
            "to its transaction.max.timeout.ms, or raise that"
        ) from None


@contextmanager
def _aborting(transactions: Transactions, key: TransactionKey) -> Iterator[None]:
    """Abort a transaction when an exception leads out."""
    try:
        yield
    except BaseException:
        try:
            transactions.end([key], commit=False, end_txn_version=transactions.end_txn_version)
        except KafkaError:
            pass  # It is swept later, or times out; what went wrong first is what matters.
        raise


@contextmanager
def _explaining(settings: SinkSettings, task: Task) -> Iterator[None]:
    """SinkError with the likely cause where the broker has ended the transaction meanwhile."""
    try:
        yield
    except KafkaError as problem:
        if problem.code not in ENDED:
            raise
        raise SinkError(
            f"the broker has ended the transaction of task {task.partition} of batch {task.batch} "
            f"before all rows were written ({problem.code.name}). Likely it took longer than "
            f"kafka.transaction.timeout.ms ({settings.transaction_timeout_ms}): make batches "
            "smaller (maxOffsetsPerTrigger), or raise that, and transaction.max.timeout.ms of the "
            "broker"
        ) from None


def _routing(settings: SinkSettings, client: Client) -> Routing:
    counts: dict[str, int] = {}

    def count(topic: str) -> int:
        if topic not in counts:
            # Partitions may have been added since another task asked.
            client.forget(topic)
            try:
                counts[topic] = partition_count(client, topic)
            except KafkaError as problem:
                if problem.code not in NO_SUCH_TOPIC:
                    raise
                named = "column topic" if settings.topic is None else "option topic"
                raise RowError(f"{named}: {problem}") from None
        return counts[topic]

    def led(topic: str) -> list[int]:
        leaders = client.topic(topic).leaders
        return [index for index in range(count(topic)) if leaders.get(index, NO_LEADER) >= 0]

    return Routing(
        settings.columns,
        settings.topic,
        count,
        led,
        batch_bytes=settings.batch_bytes,
        # Forked workers would all draw the same number from `random`.
        first_partition=randbelow(1 << 16),
    )


def _now_ms() -> int:
    return int(time() * 1000)
