"""Spark's format "ottla": `spark.read`, `readStream`, `write` and `writeStream`, with no jar.

Spark finds `DefaultSource` by this package's name, in each session that uses any data source
written in Python: importing it must stay cheap, so all else is imported when it is used. A driver's
program that imports it gets `each_batch`, and writers that take what the format can do (`driver`).
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pyspark_ottla.driver import change_writers
from pyspark_ottla.each_batch import each_batch

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource", "each_batch"]

change_writers()


class DefaultSource(DataSource):
    """Topics of Ottla or Apache Kafka as a source and a sink of rows."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "ottla"

    def schema(self) -> "StructType":
        """The columns of a source; wrong options are found here, before a query starts."""
        from pyspark_ottla.source import source_schema

        return source_schema(self.options)

    def reader(self, schema: "StructType") -> "DataSourceReader":
        """For `spark.read`."""
        from pyspark_ottla.source import batch_reader

        return batch_reader(schema, self.options)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802 (Spark's name)
        """For `spark.readStream`."""
        from pyspark_ottla.source import stream_reader

        return stream_reader(schema, self.options)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        """For `DataFrame.write`."""
        from pyspark_ottla.sink import batch_writer

        return batch_writer(schema, self.options, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802 (Spark's name)
        """For `DataFrame.writeStream`."""
        from pyspark_ottla.sink import stream_writer

        return stream_writer(schema, self.options, overwrite)
