"""The source: topics as rows, in batches and streams."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark_ottla.options import Use
from pyspark_ottla.source.settings import SourceSettings

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_ottla.source.batch import BatchReader
    from pyspark_ottla.source.stream import StreamReader


def source_schema(options: Mapping[str, str]) -> "StructType":
    """The columns of a source with these options, which are checked."""
    from pyspark_ottla.source.columns import schema

    return schema(SourceSettings.of(options, Use.READ).include_headers)


def batch_reader(schema: "StructType", options: Mapping[str, str]) -> "BatchReader":
    """The reader for `spark.read`."""
    from pyspark_ottla.source.batch import BatchReader
    from pyspark_ottla.source.columns import check_schema

    settings = SourceSettings.of(options, Use.BATCH_READ)
    check_schema(schema, settings.include_headers)
    return BatchReader(settings)


def stream_reader(schema: "StructType", options: Mapping[str, str]) -> "StreamReader":
    """The reader for `spark.readStream`."""
    from pyspark_ottla.source.columns import check_schema
    from pyspark_ottla.source.stream import StreamReader

    settings = SourceSettings.of(options, Use.STREAM_READ)
    check_schema(schema, settings.include_headers)
    return StreamReader(settings)
