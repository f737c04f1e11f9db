"""JSON records to columns, and what to say of those that are no such JSON.

Rules kept here:
1. A record is broken if its value is null, is not JSON, has data after the JSON, does not fit the
   schema, or lacks a field that the schema calls NOT NULL. Fields that the schema does not name are
   ignored.
2. A broken record never vanishes: it goes to the dead letters, whole, with the reason in its
   headers; where there are none, the query fails, and says which record it was.
3. Reasons cost more than parsing, and are found for broken records only.
"""

from functools import reduce
from secrets import token_hex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

BROKEN = "_broken"
FOUND = f"_found_{token_hex(8)}"
END = f"_end_{token_hex(8)}"
"""Names that no record can know: one that has them in it could pass for what stands around it."""
PARSED = "_parsed"
OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BROKEN}
HEADER_PREFIX = "ottla."
RECORD_FIELDS = ("key", "topic", "partition", "offset", "timestamp")


def parsed_rows(records: "DataFrame", schema: "StructType", *, metadata: bool) -> "DataFrame":
    """The rows of the records that are not broken: the schema's columns, and `kafka` if wanted."""
    rows = _parsed(records, schema).where(~_is_broken(schema))
    return rows.select(*_columns(schema, metadata))


def strictly_parsed_rows(
    records: "DataFrame", schema: "StructType", *, metadata: bool
) -> "DataFrame":
    """As parsed_rows; a broken record is an error that ends the query."""
    from pyspark.sql import functions as f

    where = [f.lit("record "), f.col("offset").cast("string"), f.lit(" in partition ")]
    where += [f.col("partition").cast("string"), f.lit(" of topic "), f.col("topic"), f.lit(": ")]
    complaint = f.concat(*where, _reason(schema), f.lit(" (dead_letters would take it)"))
    stop = f.raise_error(complaint).cast("boolean")
    # In the column alone it would be looked for only where the query needs the column.
    parsed = _parsed(records, schema).where(f.when(_is_broken(schema), stop).otherwise(True))
    checked = parsed.withColumn(
        PARSED, f.when(_is_broken(schema), f.raise_error(complaint)).otherwise(f.col(PARSED))
    )
    return checked.select(*_columns(schema, metadata))


def dead_letters(records: "DataFrame", schema: "StructType", pipeline: str) -> "DataFrame":
    """The broken records as they were (read with headers), with the reason in more headers."""
    broken = _parsed(records, schema).where(_is_broken(schema))
    return as_letters(broken, _reason(schema), pipeline)


def late_letters(
    records: "DataFrame",
    schema: "StructType",
    pipeline: str,
    sink: str,
    column: str,
    watermark: str,
) -> "DataFrame":
    """The records, as dead letters, whose time in a column is not after a sink's watermark."""
    from pyspark.sql import functions as f

    parsed = _parsed(records, schema).where(~_is_broken(schema))
    name = next(field.name for field in schema.fields if field.name.lower() == column.lower())
    late = parsed.where(_first()[name] <= f.lit(watermark).cast("timestamp"))
    reason = f"{name} is before the watermark of the sink {sink}, {watermark}"
    return as_letters(late, f.lit(reason), pipeline)


def as_letters(records: "DataFrame", reason: "Column", pipeline: str) -> "DataFrame":
    """Records as they were, with the reason and where they were in more headers."""
    from pyspark.sql import functions as f

    def header(name: str, value: "Column") -> "Column":
        key = f.lit(HEADER_PREFIX + name).alias("key")
        return f.struct(key, value.cast("string").cast("binary").alias("value"))

    added = f.array(
        header("reason", reason),
        header("pipeline", f.lit(pipeline)),
        *(header(name, f.col(name)) for name in ("topic", "partition", "offset", "timestamp")),
    )
    return records.select(
        "key", "value", f.concat(f.coalesce(f.col("headers"), f.array()), added).alias("headers")
    )


def _columns(schema: "StructType", metadata: bool) -> "list[Column]":
    from pyspark.sql import functions as f

    columns = [_first()[field.name].alias(field.name) for field in schema.fields]
    return [*columns, f.struct(*RECORD_FIELDS).alias("kafka")] if metadata else columns


def _parsed(records: "DataFrame", schema: "StructType") -> "DataFrame":
    """The records with what is found in each. Spark looks no further than the first JSON in a text,
    so it is given that of an array, in which more than one, or other things, are seen; and an end
    behind it, which is not there where the record itself has closed the array.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, BooleanType, StructField

    before, behind = f.lit(f'{{"{FOUND}":['), f.lit(f',{{"{END}":true}}]}}')
    text = f.concat(before, f.col("value").cast("string"), behind)
    element = _loose([*schema.fields, StructField(END, BooleanType())])
    found = StructField(FOUND, ArrayType(element))
    whole = f.from_json(text, _with_broken([found]), OPTIONS)
    return records.withColumn(PARSED, whole)


def _first() -> "Column":
    """The one JSON of a record that is not broken."""
    from pyspark.sql import functions as f

    return f.get(f.col(f"{PARSED}.{FOUND}"), f.lit(0))


def _is_one() -> "Column":
    """Whether a record has one JSON, and nothing else."""
    from pyspark.sql import functions as f

    found = f.col(f"{PARSED}.{FOUND}")
    return (f.size(found) == 2) & f.get(found, f.lit(1))[END].isNotNull()


def _loose(fields: "list[StructField]") -> "StructType":
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, field.dataType) for field in fields])


def _with_broken(fields: "list[StructField]") -> "StructType":
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([*_loose(fields).fields, StructField(BROKEN, StringType())])


def _required(schema: "StructType") -> "list[str]":
    return [field.name for field in schema.fields if not field.nullable]


def _is_broken(schema: "StructType") -> "Column":
    from pyspark.sql import functions as f

    tests = [_first().isNull(), f.col(f"{PARSED}.{BROKEN}").isNotNull()]
    tests += [~_is_one()]
    tests += [_first()[name].isNull() for name in _required(schema)]
    return reduce(lambda one, other: one | other, tests)


def _reason(schema: "StructType") -> "Column":
    """Why a record is broken. To find the wrong fields, each is parsed alone."""
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    wrong = [
        f.when(
            f.from_json(text, _with_broken([field]), OPTIONS)[BROKEN].isNotNull(),
            f.lit(f"{field.name} is not {field.dataType.simpleString().upper()}"),
        )
        for field in schema.fields
    ]
    missing = [
        f.when(_first()[name].isNull(), f.lit(f"{name} is missing")) for name in _required(schema)
    ]
    anything = f.try_parse_json(text)
    alone = f.from_json(text, _with_broken(schema.fields), OPTIONS)
    is_more = f.col(f"{PARSED}.{BROKEN}").isNotNull() | ~_is_one()
    return (
        f.when(f.col("value").isNull(), f.lit("the value is null"))
        .when(f.trim(text) == "", f.lit("the value is empty"))
        .when(
            is_more & alone.isNotNull() & alone[BROKEN].isNull(),
            f.lit("unexpected data after the JSON"),
        )
        .when(anything.isNull(), f.lit("the value is not JSON"))
        .when(
            ~f.schema_of_variant(anything).startswith("OBJECT"),
            f.lit("the value is JSON, but not an object"),
        )
        .when(f.col(f"{PARSED}.{BROKEN}").isNotNull(), f.concat_ws("; ", *wrong))
        .otherwise(f.concat_ws("; ", *missing))
    )
