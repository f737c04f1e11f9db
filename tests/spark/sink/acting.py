"""Plays Spark's part in the sink's protocol, without Spark: tasks, commits, aborts, restarts.

Every process boundary that Spark has can be had here too (`forget_process`), so that a test can
stand at any point of the protocol in milliseconds.
"""

from collections.abc import Iterable, Sequence
from uuid import uuid4

import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
from pyspark.sql.types import StringType, StructType

from ottla.audit.events import AUDIT_TOPIC, Event, Tier
from ottla.client import Admin, Client, Reader, TopicPartition
from ottla.client.admin import EARLIEST, LATEST
from ottla.client.transactional import Transactions
from pyspark_ottla.options import Use
from pyspark_ottla.sink import marker_log, process
from pyspark_ottla.sink.commit import abort_batch, commit_batch
from pyspark_ottla.sink.fence import Fence
from pyspark_ottla.sink.marker import Decision, Prepared, Written
from pyspark_ottla.sink.messages import Task, TaskReport
from pyspark_ottla.sink.names import pattern
from pyspark_ottla.sink.settings import SinkSettings, sink_settings
from pyspark_ottla.sink.task import write_in_stream

SCHEMA = StructType().add("key", StringType()).add("value", StringType())


def arrow(values: Sequence[str], *, per_batch: int = 1000) -> list[pa.RecordBatch]:
    """Rows whose key is their value."""
    parts = [values[at : at + per_batch] for at in range(0, len(values), per_batch)]
    return [pa.record_batch([pa.array(part), pa.array(part)], ["key", "value"]) for part in parts]


def settings(bootstrap: str, topic: str, **options: str) -> SinkSettings:
    """The settings of a stream that writes to a topic; dots in options are underscores."""
    given = {name.replace("_", "."): value for name, value in options.items()}
    given |= {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    return sink_settings(SCHEMA, given, Use.STREAM_WRITE)


class Run:
    """One run of a query: from its start, or restart, to its end."""

    def __init__(self, options: SinkSettings, sink: str, query: str = "query") -> None:
        self.options = options
        self.sink = sink
        self.query = query
        self.run = uuid4().hex
        forget_process()

    def task(self, batch: int, partition: int, values: Sequence[str]) -> TaskReport:
        """A task that writes some rows."""
        this = Task(self.sink, self.query, self.run, batch, partition)
        return write_in_stream(self.options, this, arrow(values))

    def tasks(self, batch: int, rows: Sequence[Sequence[str]]) -> list[TaskReport]:
        """The tasks of a batch, one for each list of rows."""
        return [self.task(batch, partition, values) for partition, values in enumerate(rows)]

    def commit(self, batch: int, reports: Sequence[TaskReport]) -> None:
        """What the driver does after the tasks."""
        commit_batch(self.options, reports, batch)

    def abort(self, batch: int, reports: Sequence[TaskReport]) -> None:
        """What the driver does after a failure."""
        abort_batch(self.options, reports, batch)

    def batch(self, batch: int, rows: Sequence[Sequence[str]]) -> None:
        """A whole batch."""
        self.commit(batch, self.tasks(batch, rows))


def forget_process() -> None:
    """As if a new process continued."""
    process._process = process._Process()
    marker_log._process = marker_log._Process()


def listed(reports: Iterable[TaskReport]) -> list[Written]:
    """The transactions that tasks have left open."""
    return [item.report.written for item in reports if item.report.written is not None]


def decide(client: Client, sink: str, decision: Decision) -> None:
    """Make a decision as the run that it names would."""
    transactions = Transactions(client)
    Fence.take(client, transactions, sink).decide(decision)


def prepare(client: Client, run: Run, batch: int, reports: Iterable[TaskReport]) -> Prepared:
    """Bring a batch to its commit point, and no further."""
    version = Transactions(client).end_txn_version
    prepared = Prepared(batch, run.run, version, listed(reports))
    decide(client, run.sink, prepared)
    return prepared


def end(client: Client, written: Iterable[Written], *, commit: bool) -> None:
    """End transactions."""
    transactions = Transactions(client)
    transactions.end(
        [item.key for item in written],
        commit=commit,
        end_txn_version=transactions.end_txn_version,
    )


def visible(client: Client, topic: str) -> list[str]:
    """The values that a read_committed reader sees up to the end of the topic, sorted.

    It waits for the markers of all transactions that are being ended; an open one makes it fail.
    """
    admin = Admin(client)
    partitions = admin.partitions(topic)
    ends = admin.list_offsets(dict.fromkeys(partitions, LATEST))
    starts = admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    _await_stable(client, admin, {where: end.offset for where, end in ends.items()})
    values = []
    positions = {where: start.offset for where, start in starts.items()}
    until = {where: end.offset for where, end in ends.items()}
    with Reader(client, positions, until=until, read_committed=True) as reader:
        for batch in reader:
            values += [(record.value or b"").decode() for record in batch.records]
    return sorted(values)


def told(client: Client, topic: str) -> list[Event]:
    """What sinks have told the audit of a topic, batch by batch."""
    events = [Event.decode(value.encode()) for value in visible(client, AUDIT_TOPIC)]
    found = [event for event in events if (event.tier, event.topic) == (Tier.SPARK_SINK, topic)]
    return sorted(found, key=lambda event: event.sequence)


def _await_stable(client: Client, admin: Admin, ends: dict[TopicPartition, int]) -> None:
    pause = 0.01
    for _ in range(12):
        stable = admin.list_offsets(dict.fromkeys(ends, LATEST), read_committed=True)
        if all(stable[where].offset >= end for where, end in ends.items()):
            return
        pause = client.pause(pause)
    raise AssertionError(f"an open transaction holds up readers: {stable}, the ends are {ends}")


def open_ids(client: Client, sink: str) -> list[str]:
    """The open transactions of a sink's workers."""
    return Transactions(client).ongoing(pattern(sink, None), lambda name: f".{sink}." in name)
