"""Sources and steps as Spark's DataFrames.

Rules kept here:
1. Each query has frames of its own: its reader commits to a consumer group with the query's name,
   so that lag tools show each sink of a pipeline by itself.
2. PySpark takes no subclass of str, such as the texts of a pipeline file: it gets plain ones.
3. What Spark finds wrong in a step's SQL becomes a problem in the pipeline file's line.
"""

from typing import TYPE_CHECKING

from pyspark_ottla.pipeline.failures import POSITION, cause
from pyspark_ottla.pipeline.model import Pipeline, Source, Step, TableSource, TopicSource, Watermark
from pyspark_ottla.pipeline.options import source_options
from pyspark_ottla.pipeline.parsing import dead_letters, parsed_rows, strictly_parsed_rows
from pyspark_ottla.pipeline.places import resolve
from pyspark_ottla.pipeline.problems import Problem, WrongFileError

if TYPE_CHECKING:
    from pyspark.errors.exceptions.base import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Frames:
    """The frames of one query of a pipeline."""

    def __init__(self, spark: "SparkSession", pipeline: Pipeline, query: str) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._query = query

    def frame(self, name: str) -> "DataFrame":
        """The rows of a source or step, by its name in any case."""
        found: DataFrame | None = None
        for source in self._pipeline.sources.values():
            frame = self._source(source)
            frame.createOrReplaceTempView(str(source.name))
            found = frame if source.name.lower() == name.lower() else found
        for step in self._pipeline.steps.values():
            frame = self._step(step)
            frame.createOrReplaceTempView(str(step.name))
            found = frame if step.name.lower() == name.lower() else found
        assert found is not None
        return found

    def dead_letters(self, source: TopicSource) -> "DataFrame":
        """The records of a source that do not parse."""
        records = self._records(source, {"includeHeaders": "true"})
        return dead_letters(records, self._schema(source), self._pipeline.name)

    def _source(self, source: Source) -> "DataFrame":
        from pyspark.errors import PySparkException

        if isinstance(source, TableSource):
            reader = self._spark.read.format(source.format).options(**source.options)
            try:
                if source.schema is not None:
                    reader = reader.schema(str(source.schema))
                return reader.load(resolve(source.files, self._pipeline.path))
            except PySparkException as wrong:
                what = f"source {source.name}"
                raise self._wrong(source.files.line, what, wrong) from None
        records = self._records(source, {})
        if source.format == "json":
            parse = strictly_parsed_rows if source.dead_letters is None else parsed_rows
            rows = parse(records, self._schema(source), metadata=source.metadata)
        elif source.format == "text":
            text = {name: records[name].cast("string") for name in ("key", "value")}
            rows = records.withColumns(text)
        else:
            rows = records
        if source.watermark is not None:
            rows = _watermarked(rows, source.watermark)
        return rows

    def _records(self, source: TopicSource, extra: dict[str, str]) -> "DataFrame":
        """The source as it is in the topics."""
        from pyspark.errors import PySparkException

        options = source_options(self._pipeline, source, self._query) | extra
        try:
            return self._spark.readStream.format("ottla").options(**options).load()
        except PySparkException as wrong:
            raise self._wrong(source.name.line, f"source {source.name}", wrong) from None

    def _schema(self, source: TopicSource) -> "StructType":
        from pyspark.errors import PySparkException
        from pyspark.sql.types import StructType

        assert source.schema is not None
        try:
            schema = StructType.fromDDL(str(source.schema))
        except PySparkException as wrong:
            what = f"source {source.name}: schema"
            raise self._wrong(source.schema.line, what, wrong) from None
        if not isinstance(schema, StructType):
            text = f"source {source.name}: schema: it must have columns with types"
            raise WrongFileError(self._pipeline.path, [Problem(source.schema.line, text)])
        return schema

    def _step(self, step: Step) -> "DataFrame":
        from pyspark.errors import PySparkException

        try:
            frame = self._spark.sql(str(step.sql))
            if step.watermark is not None:
                frame = _watermarked(frame, step.watermark)
            if step.unique:
                frame = frame.dropDuplicatesWithinWatermark([str(name) for name in step.unique])
        except PySparkException as wrong:
            raise self._wrong(step.sql.line, f"step {step.name}", wrong) from None
        return frame

    def _wrong(self, line: int, what: str, wrong: "PySparkException") -> WrongFileError:
        text = str(wrong)
        position = POSITION.search(text)
        if position is not None:
            line += int(position[1]) - 1
        return WrongFileError(self._pipeline.path, [Problem(line, f"{what}: {cause(text)}")])


def _watermarked(rows: "DataFrame", watermark: Watermark) -> "DataFrame":
    return rows.withWatermark(str(watermark.column), str(watermark.delay))
