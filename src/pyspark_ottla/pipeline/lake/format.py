"""Spark's format "ottla_lake": a stream into a Delta or Iceberg table.

Rules kept here:
1. The query's id and the batch's number are in the same change of the table as its files. The id
   stays the same over restarts from one checkpoint, so a batch that comes again is recognised.
2. `abort` removes nothing: it is also called when a commit's outcome is not known.
3. Messages carry all that a commit needs: it runs in another process than the tasks.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_ottla.pipeline.lake.files import File
from pyspark_ottla.pipeline.lake.tables import LakeTable, open_table

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
    from pyspark.sql.types import StructType

NAME = "ottla_lake"
QUERY_ID = "sql.streaming.queryId"


@dataclass
class WrittenFiles(WriterCommitMessage):
    """What one task wrote."""

    query: str
    files: list[File] = field(default_factory=list)


class LakeWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of one query to one table."""

    def __init__(self, table: LakeTable) -> None:
        self._table = table

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WrittenFiles:
        """In a task: write files that nobody sees yet."""
        from pyspark import TaskContext

        context = TaskContext.get()
        query = context.getLocalProperty(QUERY_ID) if context is not None else None
        if query is None:
            raise RuntimeError(f"the format {NAME} writes streams only")
        writer = self._table.writer()
        for batch in iterator:
            writer.write(self._table.fit(batch))
        return WrittenFiles(query, writer.close())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Make the files a part of the table, unless the batch is in it already."""
        written = [message for message in messages if isinstance(message, WrittenFiles)]
        if len(written) != len(messages):
            raise RuntimeError("a task did not say what it wrote")
        files = [file for message in written for file in message.files]
        if files and not self._table.commit(files, written[0].query, batchId):
            print(f"{NAME}: batch {batchId} was in {self._table.name} already")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Nothing to do: what no commit names is no part of the table."""


class LakeFormat(DataSource):
    """The format; its options are made by `tables.table_options`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return NAME

    def streamWriter(self, schema: "StructType", overwrite: bool) -> LakeWriter:  # noqa: N802 (Spark's name)
        """For `DataFrame.writeStream`."""
        return LakeWriter(open_table(json.loads(self.options["table"])))
