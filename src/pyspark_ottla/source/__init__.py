"""The source: topics as rows, in batches and streams."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark_ottla.errors import OptionError
from pyspark_ottla.options import Use
from pyspark_ottla.source.settings import SourceSettings

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

    from pyspark_ottla.source.batch import BatchReader


def source_schema(options: Mapping[str, str]) -> "StructType":
    """The columns of a source with these options, which are checked."""
    from pyspark_ottla.source.columns import schema, with_values

    settings = SourceSettings.of(options, Use.READ)
    found = schema(settings.include_headers)
    return found if settings.format is None else with_values(found, settings.format)


def batch_reader(schema: "StructType", options: Mapping[str, str]) -> "BatchReader":
    """The reader for `spark.read`."""
    from pyspark_ottla.source.batch import BatchReader
    from pyspark_ottla.source.columns import check_schema

    settings = SourceSettings.of(options, Use.BATCH_READ)
    return BatchReader(check_schema(schema, settings))


def stream_reader(schema: "StructType", options: Mapping[str, str]) -> "DataSourceStreamReader":
    """The reader for `spark.readStream`. What is wrong is raised by its first answer: Spark loses
    what is raised here behind an error of its own.
    """
    from pyspark_ottla.source.columns import check_schema
    from pyspark_ottla.source.refusing import RefusingReader
    from pyspark_ottla.source.stream import StreamReader

    try:
        settings = SourceSettings.of(options, Use.STREAM_READ)
        settings = check_schema(schema, settings)
    except OptionError as problem:
        return RefusingReader(problem)
    return StreamReader(settings)
