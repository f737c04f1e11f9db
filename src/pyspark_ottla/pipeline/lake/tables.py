"""What a lake table is to the sink: a folder, columns, and a commit that happens once.

A table is described by plain values that are sent to the tasks; each process opens it by itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pyspark_ottla.pipeline.lake.files import File, FileWriter
from pyspark_ottla.pipeline.problems import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

TRIES = 20
"""Commits that other writers of the table may come before."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """All that is needed to open a table."""

    format: str
    """delta or iceberg."""
    path: str
    folders: list[str]
    """The columns that divide the rows into folders, in order."""
    units: list[str | None]
    """For each folder: the time unit, or None for the values of a column."""
    columns: list[str]
    """For each folder: the column that it is made of."""
    name: str
    """In an Iceberg catalog."""
    options: dict[str, str]

    def document(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


class LakeTable(ABC):
    """A table of a lake, in one process."""

    def __init__(self, options: TableOptions) -> None:
        self.options = options
        self.folders = options.folders

    @property
    def name(self) -> str:
        """For messages to people."""
        return self.options.path

    @property
    @abstractmethod
    def dropped(self) -> Sequence[str]:
        """Columns that no file holds."""

    @abstractmethod
    def root(self) -> str:
        """The folder that files are written to."""

    def writer(self) -> FileWriter:
        """Writes a task's files where the table's options let it."""
        return FileWriter(self.root(), self.folders, self.dropped)

    @abstractmethod
    def prepare(self, schema: "pa.Schema") -> None:
        """Make the table, or see that rows of that schema fit the one that is there."""

    @abstractmethod
    def commit(self, files: Sequence[File], query: str, batch: int) -> bool:
        """Add the files of a batch in one change; False if that batch of the query is in it."""

    def is_in(self, batch: int, last: int | None) -> bool:
        """Whether a batch is in the table, whose last batch of the query is `last`.

        Spark runs no batch again but the last one. PipelineError where one before that comes: its
        rows may be others than those that the table has, and would be dropped in silence.
        """
        if last is not None and last > batch:
            raise PipelineError(
                f"{self.name}: batch {batch} is to be added, but the table has batch {last} of "
                "this query already: the checkpoint is older than the table (restored or copied). "
                "Use the newest checkpoint, or give the sink another name and folder: it then "
                "starts over"
            )
        return last == batch

    def check_folders(self, schema: "pa.Schema") -> None:
        """PipelineError where a column that divides the rows has no texts to name folders by."""
        import pyarrow as pa

        for folder in self.folders:
            kind = schema.field(folder).type
            if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
                raise PipelineError(f"{self.name}: partition_by cannot take {folder}: it is BINARY")

    def fit(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """The rows with the types that files have: times are in UTC."""
        return batch.cast(utc(batch.schema))


def open_table(document: Mapping[str, object]) -> LakeTable:
    """The table that `TableOptions.document` describes."""
    options = TableOptions(**document)  # type: ignore[arg-type] # it is what asdict made of one
    try:
        if options.format == "delta":
            from pyspark_ottla.pipeline.lake.delta import DeltaLakeTable

            return DeltaLakeTable(options)
        from pyspark_ottla.pipeline.lake.iceberg import IcebergTable

        return IcebergTable(options)
    except ImportError as missing:
        raise PipelineError(
            f"format: {options.format} needs the package {missing.name}: pip install 'ottla[lake]'"
        ) from None


def arrow_schema(spark: "SparkSession", schema: "StructType") -> "pa.Schema":
    """The Arrow schema of the rows that Spark will hand over."""
    return utc(spark.createDataFrame([], schema).toArrow().schema)


def utc(schema: "pa.Schema") -> "pa.Schema":
    """The schema with all its times in UTC, at the outermost level."""
    import pyarrow as pa

    changed = [
        column.with_type(pa.timestamp("us", "UTC"))
        if pa.types.is_timestamp(column.type) and column.type.tz
        else column
        for column in schema
    ]
    return pa.schema(changed)


def must_fit(name: str, wanted: "pa.Schema", found: "pa.Schema") -> None:
    """PipelineError that names the columns which differ from those of a table."""
    rows = {column.name: column.type for column in wanted}
    there = {column.name: column.type for column in found}
    if set(rows) == set(there):
        return
    added = ", ".join(f"{column} {rows[column]}" for column in rows if column not in there)
    missing = ", ".join(column for column in there if column not in rows)
    differences = [
        text
        for text in (
            f"it lacks {added}" if added else "",
            f"the rows lack {missing}" if missing else "",
        )
        if text
    ]
    raise PipelineError(
        f"{name}: its columns are not those of the rows: {' and '.join(differences)}. "
        "Change the step or the table, or write to another folder"
    )


def must_have_types(name: str, wanted: Mapping[str, str], found: Mapping[str, str]) -> None:
    """PipelineError that names the columns whose types differ from those of a table."""
    differences = [
        f"{column} is {found[column]} there and {kind} here"
        for column, kind in wanted.items()
        if kind != found[column]
    ]
    if differences:
        raise PipelineError(f"{name}: {'; '.join(differences)}. Write to another folder or table")


def must_be_divided(name: str, wanted: Collection[str], found: Collection[str]) -> None:
    """PipelineError if a table is partitioned by other columns than the sink's."""
    if set(wanted) != set(found):
        raise PipelineError(
            f"{name}: partition_by cannot change: the table is partitioned by "
            f"{', '.join(found) or 'nothing'}, not by {', '.join(wanted) or 'nothing'}. "
            "Write to another folder or table"
        )
