"""A pipeline as plain values: what its file says, with defaults filled in and nothing started."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark_ottla.pipeline.document import Text

LAKE_FORMATS = ("parquet", "delta", "iceberg")
REGISTRY_FORMATS = ("avro", "json-schema", "protobuf")
"""Values carry the id of their schema, which a registry has."""
TOPIC_FORMATS = ("json", "text", "binary", *REGISTRY_FORMATS)
TABLE_FORMATS = ("parquet", "csv", "json", "orc")
TIME_UNITS = ("hour", "day", "month", "year")
DEAD_LETTERS = "dead_letters"
LATE_TO_DEAD_LETTERS = DEAD_LETTERS
LATE = ("drop", LATE_TO_DEAD_LETTERS)


@dataclass(frozen=True, slots=True)
class Watermark:
    """How late rows may be, by the time in a column."""

    column: Text
    delay: Text
    late: str = "drop"
    """What becomes of rows that are later: one of LATE."""


@dataclass(frozen=True, slots=True)
class TopicSource:
    """A stream: the records of topics, parsed."""

    name: Text
    topics: tuple[Text, ...]
    pattern: Text | None
    format: str
    schema: Text | None
    subject: Text | None
    """The registry's subject whose schema gives the columns; None: the topic's own."""
    start: str
    rows_per_batch: int | None
    metadata: bool
    """Whether the rows of a JSON topic have a column `kafka` beside those of the schema."""
    dead_letters: Text | None
    watermark: Watermark | None
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table: files, read as a whole, to be joined with a stream."""

    name: Text
    files: Text
    format: str
    schema: Text | None
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """A named query over sources and earlier steps."""

    name: Text
    sql: Text
    watermark: Watermark | None
    unique: tuple[Text, ...]
    """Columns of which no two rows within the watermark's delay have the same values."""


@dataclass(frozen=True, slots=True)
class TopicSink:
    """Rows to a topic, or to several by a name with {expressions} in it."""

    name: Text
    source: Text
    topic: Text
    key: Text | None
    value: Text | None
    headers: Mapping[str, Text]
    format: Text | None
    """One of REGISTRY_FORMATS; None: the value is text or bytes."""
    subject: Text | None
    mode: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A column that divides a lake into folders, or a time unit of one."""

    column: Text
    unit: str | None
    """One of TIME_UNITS."""

    @property
    def folder(self) -> str:
        """The name of the folders' column."""
        return f"{self.column}_{self.unit}" if self.unit else str(self.column)

    def hides(self, columns: Iterable[str]) -> bool:
        """Whether the folders' column would take the place of one that the rows have."""
        return self.unit is not None and self.folder.lower() in {each.lower() for each in columns}

    @property
    def hiding(self) -> str:
        """What is wrong then."""
        return (
            f"partition_by: {self.unit}({self.column}) adds the column {self.folder}, which the "
            f"rows already have: rename theirs, or use {self.folder} itself"
        )


@dataclass(frozen=True, slots=True)
class LakeSink:
    """Rows to a folder of files."""

    name: Text
    source: Text
    path: Text
    format: str
    partition_by: tuple[Partitioning, ...]
    table: Text | None
    """The name of an Iceberg table in its catalog."""
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConsoleSink:
    """Rows to standard output."""

    name: Text
    source: Text
    mode: str
    rows: int


Source = TopicSource | TableSource
Sink = TopicSink | LakeSink | ConsoleSink


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The whole file."""

    path: str
    name: Text
    bootstrap: str
    kafka: Mapping[str, str]
    """Settings of Kafka's clients for all topics: how to log in, for one."""
    schema_registry: Text | None
    checkpoint: Text | None
    trigger: Text | None
    audit: bool
    report: bool
    """Whether its progress is reported to the cluster."""
    spark: Mapping[str, str]
    sources: Mapping[str, Source]
    steps: Mapping[str, PipelineStep]
    sinks: Mapping[str, Sink]
