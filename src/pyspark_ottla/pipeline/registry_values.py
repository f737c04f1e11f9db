"""Records whose values have a schema in a registry, to columns, and what is said of broken ones.

Rules kept here: those of `parsing`. A record is broken if its value is null or cannot be decoded by
the reader's schema. The source is read in the mode `permissive`, or `keep` where the bytes of good
records are needed too.
"""

from typing import TYPE_CHECKING

from pyspark_ottla.pipeline.parsing import RECORD_FIELDS, as_letters

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ERROR, BYTES = "valueError", "valueBytes"


def decoded_rows(records: "DataFrame", *, metadata: bool, strict: bool) -> "DataFrame":
    """The rows of the records that are not broken: the fields of the value, and `kafka` if wanted.
    With `strict` a broken record is an error that ends the query.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    if strict:
        where = [f.lit("record "), f.col("offset").cast("string"), f.lit(" in partition ")]
        where += [f.col("partition").cast("string"), f.lit(" of topic "), f.col("topic")]
        complaint = f.concat(*where, f.lit(": "), _reason(), f.lit(" (dead_letters would take it)"))
        stop = f.raise_error(complaint).cast("boolean")
        good = records.where(f.when(_reason().isNotNull(), stop).otherwise(True))
    else:
        good = records.where(_reason().isNull())
    is_struct = isinstance(records.schema["value"].dataType, StructType)
    columns = [f.col("value.*") if is_struct else f.col("value")]
    if metadata:
        columns.append(f.struct(*RECORD_FIELDS).alias("kafka"))
    return good.select(*columns)


def undecoded_letters(records: "DataFrame", pipeline: str) -> "DataFrame":
    """The broken records as they were (read with headers), with the reason in more headers."""
    return _letters(records.where(_reason().isNotNull()), _reason(), pipeline)


def late_decoded_letters(
    records: "DataFrame", pipeline: str, sink: str, column: str, watermark: str
) -> "DataFrame":
    """The records (read with all bytes), as dead letters, whose time is not after a watermark."""
    from pyspark.sql import functions as f

    late = records.where(f.col(f"value.{column}") <= f.lit(watermark).cast("timestamp"))
    reason = f"{column} is before the watermark of the sink {sink}, {watermark}"
    return _letters(late.where(_reason().isNull()), f.lit(reason), pipeline)


def _reason() -> "Column":
    """Why a record is broken; null where it is not."""
    from pyspark.sql import functions as f

    is_null = f.when(f.col("value").isNull(), f.lit("the value is null"))
    return f.coalesce(f.col(ERROR), is_null)


def _letters(records: "DataFrame", reason: "Column", pipeline: str) -> "DataFrame":
    from pyspark.sql import functions as f

    told = records.withColumn("_reason", reason).withColumn("value", f.col(BYTES))
    return as_letters(told, f.col("_reason"), pipeline)
