"""What a task tells the driver: the only state that gets from one to the other. It is pickled."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from pyspark_ottla.sink.counting import Counted
from pyspark_ottla.sink.errors import SinkError
from pyspark_ottla.sink.recovery import PartitionReport


class Task(NamedTuple):
    """Which task of which batch this is."""

    sink: str
    query: str
    """Spark's id of the query; of a batch job, its run."""
    run: str
    batch: int
    partition: int


@dataclass(frozen=True)
class TaskReport(WriterCommitMessage):
    """What became of a task's rows."""

    sink: str
    query: str
    run: str
    report: PartitionReport


@dataclass(frozen=True)
class RowsWritten(WriterCommitMessage):
    """The report of a task whose rows are there already (at-least-once)."""

    rows: int
    writer: str
    """The query of a stream, or the run of a batch job: the audit knows rows by it. A sinkId would
    not do, since with another checkpoint the numbers of its batches start over."""
    counted: Counted | None = None


def complete(messages: Sequence[WriterCommitMessage | None]) -> list[TaskReport]:
    """The reports of all tasks of a batch; raises where one is missing."""
    reports = present(messages)
    if len(reports) != len(messages):
        raise SinkError(
            "a task has not reported what it wrote, so the batch cannot be committed. "
            "Trigger.Continuous does that: it is not supported, use a micro-batch trigger"
        )
    if len({(report.sink, report.run) for report in reports}) > 1:
        raise SinkError("reports of several runs in one batch")
    return reports


def present(messages: Sequence[WriterCommitMessage | None]) -> list[TaskReport]:
    """The reports that have come."""
    return [message for message in messages if isinstance(message, TaskReport)]


def all_written(messages: Sequence[WriterCommitMessage | None]) -> list[RowsWritten]:
    """The reports of all tasks of a batch without transactions; raises where one is missing."""
    reports = [message for message in messages if isinstance(message, RowsWritten)]
    if len(reports) != len(messages):
        raise SinkError(
            "a task has not reported what it wrote. "
            "Trigger.Continuous does that: it is not supported, use a micro-batch trigger"
        )
    return reports
