"""The classes that Spark calls. They are pickled: all they hold is settings.

Rules kept here:
1. The query's id names a stream's sink (unless the option sinkId does), the job group its run, and
   a local property its batch: Spark tells a task all three.
2. A batch job's run is a uuid, made when the job begins.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pyspark_ottla.sink.errors import SinkError
from pyspark_ottla.sink.messages import Task, all_written, complete, present
from pyspark_ottla.sink.resolving import Resolved, owner_of_batches
from pyspark_ottla.sink.settings import SinkSettings
from pyspark_ottla.workers import settle

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

    Messages = list[WriterCommitMessage | None]

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"
BATCH_SINK = "~batch"
"""The sink's name in the transactional ids of batch jobs: no sinkId can be the same, or the sweep
of a stream would end the transactions of jobs."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Write the rows of one task."""
        from pyspark_ottla.sink import task

        settle()
        if not self._settings.exactly_once:
            query = _property(_context(), QUERY_ID)
            return task.write_at_least_once(self._settings, query, iterator)
        return task.write_in_stream(self._settings, self._task(), iterator)

    def commit(self, messages: "Messages", batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Make a batch visible."""
        from pyspark_ottla.sink.commit import commit_batch
        from pyspark_ottla.sink.plain_report import report_rows

        if not self._settings.exactly_once:
            report_rows(self._settings, all_written(messages), batchId)
            return
        commit_batch(self._settings, complete(messages), batchId)

    def abort(self, messages: "Messages", batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Undo a batch that was not committed."""
        from pyspark_ottla.sink.commit import abort_batch

        if self._settings.exactly_once:
            abort_batch(self._settings, present(messages), batchId)

    def _task(self) -> Task:
        context = _context()
        query = _property(context, QUERY_ID)
        sink = self._settings.sink_id or query
        batch = int(_property(context, BATCH_ID))
        return Task(sink, query, _property(context, RUN_ID), batch, context.partitionId())


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a batch job."""

    def __init__(self, settings: SinkSettings, run: str) -> None:
        self._settings = settings
        self._run = run

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Write the rows of one task."""
        from pyspark_ottla.sink import task

        settle()
        if not self._settings.exactly_once:
            return task.write_at_least_once(self._settings, self._run, iterator)
        this = Task(BATCH_SINK, self._run, self._run, 0, _context().partitionId())
        return task.write_in_batch(self._settings, this, iterator)

    def commit(self, messages: "Messages") -> None:
        """Make all rows visible."""
        from pyspark_ottla.sink.batch_commit import commit_write
        from pyspark_ottla.sink.plain_report import report_rows

        if not self._settings.exactly_once:
            report_rows(self._settings, all_written(messages), 0)
            return
        commit_write(self._settings, complete(messages))

    def abort(self, messages: "Messages") -> None:
        """Make none of the rows visible."""
        from pyspark_ottla.sink.batch_commit import abort_write

        if self._settings.exactly_once:
            reports = present(messages)
            abort_write(
                self._settings,
                reports,
                sink=BATCH_SINK,
                run=self._run,
                all_reported=len(reports) == len(messages),
            )


class NumberedWriter(DataSourceArrowWriter):
    """Writes the rows of a batch job that has a number, once (`once`)."""

    def __init__(self, settings: SinkSettings, run: str, sink: str, resolved: Resolved) -> None:
        self._settings = settings
        self._run = run
        self._sink = sink
        self._batch = resolved.batch
        self._resolved = resolved

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Write the rows of one task, unless they are there."""
        from pyspark_ottla.sink import task

        settle()
        context = _context()
        owner = owner_of_batches(context.getLocalProperty(QUERY_ID), self._settings.topic)
        this = Task(self._sink, owner, self._run, self._batch, context.partitionId())
        return task.write_once(self._settings, this, self._resolved, iterator)

    def commit(self, messages: "Messages") -> None:
        """Make all rows visible."""
        from pyspark_ottla.sink.commit import commit_batch

        commit_batch(self._settings, complete(messages), self._batch)

    def abort(self, messages: "Messages") -> None:
        """Make none of the rows visible, unless it is decided that they are to be."""
        from pyspark_ottla.sink.once import abort_once

        abort_once(self._settings, present(messages), self._sink, self._run, self._batch)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SinkError("rows are written in tasks of Spark only")
    return context


def _property(context: TaskContext, name: str) -> str:
    value = context.getLocalProperty(name)
    if value is None:
        raise SinkError(
            f"Spark did not set the property {name}, which identifies the batch. "
            "Only micro-batch triggers are supported"
        )
    return value
