"""The columns of the source: those of Spark's Kafka source, in its order; with a format the column
value has the type of the reader's schema, whose id is in the column's metadata.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec.structs import replace
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_ottla.errors import OptionError
from pyspark_ottla.formats.settings import FormatSettings

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

    from pyspark_ottla.source.settings import SourceSettings

ROWS = 10_000
"""Rows in a batch for Spark: with a fifth of that, reading takes more than twice the time."""
BYTES = 8 << 20
"""Bytes in a batch for Spark, where rows are large."""


def schema(include_headers: bool) -> StructType:
    """The columns, with or without headers."""
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if include_headers:
        header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        fields.append(StructField("headers", ArrayType(header)))
    return StructType(fields)


def with_values(found: StructType, settings: FormatSettings) -> StructType:
    """The columns with decoded values: asks the registry, unless the settings have a schema."""
    from pyspark_ottla.formats.columns import BYTES, ERROR, SCHEMA_ID, language_of

    if not settings.schema_id:
        settings = replace(settings, schema_id=settings.chosen().id)
    kind = language_of(settings).type()
    value = StructField("value", kind, True, {SCHEMA_ID: settings.schema_id})
    fields = [value if field.name == "value" else field for field in found]
    if settings.is_permissive:
        fields += [StructField(ERROR, StringType()), StructField(BYTES, BinaryType())]
    return StructType(fields)


def check_schema(given: StructType, settings: "SourceSettings") -> "SourceSettings":
    """A job may name a schema only if it is this one. Returns the settings with the schema of the
    registry that the plan was made with.
    """
    own = schema(settings.include_headers)
    if settings.format is not None:
        from pyspark_ottla.formats.columns import SCHEMA_ID

        value = next((field for field in given if field.name == "value"), None)
        planned = None if value is None else (value.metadata or {}).get(SCHEMA_ID)
        schema_id = planned or settings.format.chosen().id
        settings = replace(settings, format=replace(settings.format, schema_id=schema_id))
        assert settings.format is not None
        own = with_values(own, settings.format)
    _check_columns(given, own)
    return settings


def _check_columns(given: StructType, own: StructType) -> None:
    if [(field.name, field.dataType) for field in given] != [
        (field.name, field.dataType) for field in own
    ]:
        raise OptionError(
            f"the source has the schema {own.simpleString()}, and no other can be given"
        )


class RowBatches:
    """Adds topic and partition to the columns of records."""

    def __init__(self, topic: str, partition: int) -> None:
        import pyarrow as pa

        # A part has fewer than twice as many rows as a batch should have.
        self._topic = pa.array([topic], pa.string()).take(pa.array([0] * 2 * ROWS, pa.int32()))
        self._partition = pa.array([partition] * 2 * ROWS, pa.int32())

    def of(self, records: "pa.RecordBatch") -> Iterator["pa.RecordBatch"]:
        """Batches for Spark, of a size that it likes."""
        import pyarrow as pa

        total = records.num_rows
        if not total:
            return
        parts = max(total // ROWS, 1)
        # Parts of equal size: a small one at the end would cost Spark as much as a large one.
        for start, end in pairwise(total * number // parts for number in range(parts + 1)):
            part, rows = records.slice(start, end - start), end - start
            columns = dict(zip(part.schema.names, part.columns, strict=True))
            columns["topic"] = self._topic.slice(0, rows)
            columns["partition"] = self._partition.slice(0, rows)
            names = [name for name in _ORDER if name in columns]
            yield pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


_ORDER = [*schema(include_headers=True).names, "valueError", "valueBytes"]
