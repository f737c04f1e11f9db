"""Sources and steps as Spark's DataFrames.

Rules kept here:
1. Each query has frames of its own: its reader commits to a consumer group with the query's name,
   so that lag tools show each sink of a pipeline by itself.
2. PySpark takes no subclass of str, such as the texts of a pipeline file: it gets plain ones.
3. What Spark finds wrong in a step's SQL becomes a problem in the pipeline file's line. So does a
   plan that Spark does not run as a stream, before any query is started: the first step that cannot
   be run is named, not the sink.
"""

from typing import TYPE_CHECKING

from pyspark_ottla.formats.settings import KEEP
from pyspark_ottla.pipeline.document import Text
from pyspark_ottla.pipeline.failures import POSITION, cause
from pyspark_ottla.pipeline.model import (
    REGISTRY_FORMATS,
    Pipeline,
    PipelineStep,
    Source,
    TableSource,
    TopicSource,
    Watermark,
)
from pyspark_ottla.pipeline.options import source_options
from pyspark_ottla.pipeline.parsing import (
    dead_letters,
    late_letters,
    parsed_rows,
    strictly_parsed_rows,
)
from pyspark_ottla.pipeline.places import resolve
from pyspark_ottla.pipeline.problems import Problem, WrongFileError
from pyspark_ottla.pipeline.registry_values import (
    decoded_rows,
    late_decoded_letters,
    undecoded_letters,
)
from pyspark_ottla.pipeline.sql import WrongSqlError, read_query

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
        self._made: dict[str, DataFrame] = {}
        """Sources and steps by their names in lower case."""

    def frame(self, name: str) -> "DataFrame":
        """The rows of a source or step, by its name in any case."""
        for source in self._pipeline.sources.values():
            self._keep(source.name, self._source(source))
        for step in self._pipeline.steps.values():
            self._keep(step.name, self._step(step))
        return self._made[name.lower()]

    def _keep(self, name: str, frame: "DataFrame") -> None:
        frame.createOrReplaceTempView(str(name))
        self._made[name.lower()] = frame

    def check(self, name: str, mode: str, sink: Text) -> None:
        """WrongFileError where Spark would not run a frame as a stream in an output mode."""
        wrong = self._refusal(name, mode)
        if wrong is None:
            return
        steps = {each.lower(): step for each, step in self._pipeline.steps.items()}
        for each in self._behind(name):
            refused = self._refusal(each, mode) if each in steps else None
            if refused is not None:
                what = f"step {steps[each].name}, for the sink {sink} in mode {mode}"
                raise self._wrong(steps[each].sql.line, what, refused)
        raise self._wrong(sink.line, f"sink {sink}", wrong)

    def _refusal(self, name: str, mode: str) -> "PySparkException | None":
        from pyspark.errors import PySparkException

        jvm = self._spark._jvm
        assert jvm is not None
        checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
        modes = jvm.org.apache.spark.sql.streaming.OutputMode
        analyzed = self._made[name.lower()]._jdf.queryExecution().analyzed()
        try:
            checker.checkForStreaming(analyzed, getattr(modes, mode.capitalize())())
        except PySparkException as wrong:
            return wrong
        return None

    def _behind(self, name: str) -> list[str]:
        """What a frame is made of and itself, in the order of the file, in lower case."""
        wanted = {name.lower()}
        steps = list(self._pipeline.steps.values())
        for step in reversed(steps):  # A step reads only what is above it.
            if step.name.lower() in wanted:
                wanted |= _tables(step)
        return [step.name.lower() for step in steps if step.name.lower() in wanted]

    def dead_letters(self, source: TopicSource) -> "DataFrame":
        """The records of a source that do not parse."""
        records = self._records(source, {"includeHeaders": "true"})
        if source.format in REGISTRY_FORMATS:
            return undecoded_letters(records, self._pipeline.name)
        return dead_letters(records, self._schema(source), self._pipeline.name)

    def late_letters(
        self, source: TopicSource, stretch: dict[str, str], column: str, watermark: str
    ) -> "DataFrame":
        """The records in a stretch of a source whose time is not after the query's watermark."""
        given = source_options(self._pipeline, source, self._query)
        kept = ("kafka.", "value.", "schema.registry.")
        options = {name: text for name, text in given.items() if name.startswith(kept)}
        options |= {**stretch, "includeHeaders": "true", "failOnDataLoss": "false"}
        if source.format in REGISTRY_FORMATS:
            options["value.mode"] = KEEP
        records = self._spark.read.format("ottla").options(**options).load()
        name = self._pipeline.name
        if source.format in REGISTRY_FORMATS:
            return late_decoded_letters(records, name, self._query, column, watermark)
        schema = self._schema(source)
        return late_letters(records, schema, name, self._query, column, watermark)

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
        elif source.format in REGISTRY_FORMATS:
            strict = source.dead_letters is None
            rows = decoded_rows(records, metadata=source.metadata, strict=strict)
        elif source.format == "text":
            text = {name: records[name].cast("string") for name in ("key", "value")}
            rows = records.withColumns(text)
        else:
            rows = records
        if source.watermark is not None:
            try:
                rows = _watermarked(rows, source.watermark)
            except PySparkException as wrong:
                what = f"source {source.name}: watermark"
                raise self._wrong(source.watermark.column.line, what, wrong) from None
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

    def _step(self, step: PipelineStep) -> "DataFrame":
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


def _tables(step: PipelineStep) -> set[str]:
    """What a step reads, in lower case, as far as that is known."""
    try:
        return {table.name.lower() for table in read_query(step.sql, {}).tables}
    except WrongSqlError:
        return set()


def _watermarked(rows: "DataFrame", watermark: Watermark) -> "DataFrame":
    return rows.withWatermark(str(watermark.column), str(watermark.delay))
