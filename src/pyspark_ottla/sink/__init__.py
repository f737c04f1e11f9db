"""Spark's rows into topics: exactly once by default, at least once where that is asked for.

`docs/spark_sink.md` tells the protocol; `recovery` has its table, `commit` its steps.
"""

from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark_ottla.errors import OptionError
from pyspark_ottla.options import Use
from pyspark_ottla.sink.settings import sink_settings, with_schema
from pyspark_ottla.workers import settle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

__all__ = ["batch_writer", "stream_writer"]


def batch_writer(
    schema: "StructType", options: "Mapping[str, str]", overwrite: bool
) -> "DataSourceWriter":
    """For `DataFrame.write`."""
    from pyspark_ottla.sink.writers import BatchWriter, NumberedWriter

    if overwrite:
        raise OptionError('a topic cannot be overwritten: use mode("append")')
    settings = with_schema(sink_settings(schema, options, Use.BATCH_WRITE), schema)
    if settings.sink_id is None or settings.batch_id is None:
        return BatchWriter(settings, uuid4().hex)
    from pyspark_ottla.sink.once import look

    settle()  # Spark asks in each batch of a foreachBatch, in processes that it keeps.
    resolved = look(settings, settings.sink_id, settings.batch_id)
    return NumberedWriter(settings, uuid4().hex, settings.sink_id, resolved)


def stream_writer(
    schema: "StructType", options: "Mapping[str, str]", overwrite: bool
) -> "DataSourceStreamWriter":
    """For `DataFrame.writeStream`. In complete mode each batch's rows are appended, as in Spark's
    Kafka sink.
    """
    from pyspark_ottla.sink.writers import StreamWriter

    settle()  # Spark asks in each batch, in processes that it keeps.
    return StreamWriter(with_schema(sink_settings(schema, options, Use.STREAM_WRITE), schema))
