"""Sinks as Spark's streaming queries, one for each sink and one for each source's dead letters.

Rules kept here:
1. Each query has a folder of its own in the checkpoint, with the query's name.
2. Each query counts the rows it hands to its sink (`rows` in its observed metrics), whatever the
   sink.
3. Each query has a session of its own, and can be started again after it has failed.
4. Exactly once everywhere: topics by the sink's transactions, Parquet by Spark's log of files,
   Delta and Iceberg by the batch's number in the table. The console is for looking.
"""

import json
from collections.abc import Callable, Iterator
from tempfile import mkdtemp
from typing import TYPE_CHECKING, NamedTuple

from pyspark_ottla.each_batch import each_batch
from pyspark_ottla.pipeline.document import Text
from pyspark_ottla.pipeline.failures import cause
from pyspark_ottla.pipeline.frames import Frames
from pyspark_ottla.pipeline.lake.parquet import must_stay_readable
from pyspark_ottla.pipeline.lake.tables import TableOptions, arrow_schema, open_table
from pyspark_ottla.pipeline.model import (
    DEAD_LETTERS,
    ConsoleSink,
    LakeSink,
    Partitioning,
    Pipeline,
    Sink,
    TopicSink,
    TopicSource,
)
from pyspark_ottla.pipeline.options import security_options, topic_options
from pyspark_ottla.pipeline.places import inside, resolve
from pyspark_ottla.pipeline.problems import PipelineError, Problem, WrongFileError
from pyspark_ottla.pipeline.session import session_of_query
from pyspark_ottla.pipeline.templates import expressions, topic_expression

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

OBSERVED = "ottla"
ROWS = "rows"
UPDATE = "update"
TIME_PATTERNS = {"hour": "yyyy-MM-dd-HH", "month": "yyyy-MM", "year": "yyyy"}


class Planned(NamedTuple):
    """A query that can be started."""

    name: str
    target: str
    """Where its rows go, for people."""
    line: int
    start: "Callable[[], StreamingQuery]"


def plan(spark: "SparkSession", pipeline: Pipeline, *, once: bool) -> Iterator[Planned]:
    """The queries of a pipeline. Each is planned by Spark when it is asked for."""
    for sink in pipeline.sinks.values():
        session = session_of_query(spark)
        frames = Frames(session, pipeline, sink.name)
        frame = frames.frame(sink.source)
        frames.check(sink.source, "append" if isinstance(sink, LakeSink) else sink.mode, sink.name)
        yield _planned(pipeline, sink, _writer(session, pipeline, sink, frame), once)
    for source in pipeline.sources.values():
        if isinstance(source, TopicSource) and source.dead_letters is not None:
            name = f"{source.name}.{DEAD_LETTERS}"
            rows = Frames(session_of_query(spark), pipeline, name).dead_letters(source)
            sink = _dead_letter_sink(source, name)
            writer = _topic_options(_write(rows), pipeline, sink)
            yield _planned(pipeline, sink, writer, once)


def _dead_letter_sink(source: TopicSource, name: str) -> TopicSink:
    assert source.dead_letters is not None
    return TopicSink(
        name=Text(name, source.name.line),
        source=source.name,
        topic=source.dead_letters,
        key=None,
        value=None,
        headers={},
        format=None,
        subject=None,
        mode="append",
        options=security_options(source.options),
    )


def _planned(pipeline: Pipeline, sink: Sink, writer: "DataStreamWriter", once: bool) -> Planned:
    if pipeline.checkpoint is not None:
        folder = inside(resolve(pipeline.checkpoint, pipeline.path), sink.name)
    else:
        folder = mkdtemp(prefix="ottla-checkpoint-")
    writer = writer.option("checkpointLocation", folder).queryName(f"{pipeline.name}.{sink.name}")
    if once:
        writer = writer.trigger(availableNow=True)
    elif pipeline.trigger is not None:
        writer = writer.trigger(processingTime=str(pipeline.trigger))

    def start() -> "StreamingQuery":
        from pyspark.errors import PySparkException

        try:
            return writer.start()
        except PySparkException as wrong:
            text = f"sink {sink.name}: {cause(str(wrong))}"
            raise WrongFileError(pipeline.path, [Problem(sink.name.line, text)]) from None

    return Planned(sink.name, _target(sink), sink.name.line, start)


def _target(sink: Sink) -> str:
    if isinstance(sink, TopicSink):
        return f"topic {sink.topic}"
    return f"{sink.format} {sink.path}" if isinstance(sink, LakeSink) else "console"


def _write(rows: "DataFrame") -> "DataStreamWriter":
    from pyspark.sql import functions as f

    return rows.observe(OBSERVED, f.count(f.lit(1)).alias(ROWS)).writeStream


def _writer(
    spark: "SparkSession", pipeline: Pipeline, sink: Sink, rows: "DataFrame"
) -> "DataStreamWriter":
    from pyspark.errors import PySparkException

    try:
        if isinstance(sink, TopicSink):
            return _topic_options(_write(_records(rows, sink)), pipeline, sink)
        if isinstance(sink, ConsoleSink):
            writer = _write(rows).format("console").outputMode(sink.mode)
            return writer.option("truncate", "false").option("numRows", sink.rows)
        for part in sink.partition_by:
            if part.hides(rows.columns):
                text = f"sink {sink.name}: {part.hiding}"
                raise WrongFileError(pipeline.path, [Problem(part.column.line, text)])
        rows = rows.withColumns({part.folder: _folder(part) for part in sink.partition_by})
        if sink.format == "parquet":
            return _parquet(spark, pipeline, sink, rows)
        return _lake(spark, pipeline, sink, rows)
    except PySparkException as wrong:
        text = f"sink {sink.name}: {cause(str(wrong))}"
        raise WrongFileError(pipeline.path, [Problem(sink.name.line, text)]) from None


def _records(rows: "DataFrame", sink: TopicSink) -> "DataFrame":
    """Key, value, headers and topic of each row; the value is by default the row as JSON."""
    from pyspark.sql import functions as f

    whole = f.struct("*") if sink.format is not None else f.to_json(f.struct("*"))
    value = whole if sink.value is None else f.expr(str(sink.value))
    columns = [value.alias("value")]
    if sink.key is not None:
        key = f.expr(str(sink.key))
        columns.append(key.alias("key"))
    if sink.headers:
        columns.append(
            f.array(
                *(
                    f.struct(
                        f.lit(name).alias("key"),
                        f.expr(str(text)).cast("string").cast("binary").alias("value"),
                    )
                    for name, text in sink.headers.items()
                )
            ).alias("headers")
        )
    if expressions(sink.topic):
        columns.append(f.expr(topic_expression(sink.topic)).alias("topic"))
    made = rows.select(*columns)
    texts = {
        name: f.col(name).cast("string")
        for name, kind in made.dtypes
        if name in ("key", "value") and kind not in ("string", "binary")
        if name == "key" or sink.format is None
    }
    return made.withColumns(texts) if texts else made


def _topic_options(
    writer: "DataStreamWriter", pipeline: Pipeline, sink: TopicSink
) -> "DataStreamWriter":
    options = topic_options(pipeline, sink)
    if sink.mode == UPDATE:
        # Spark allows it to sinks of its own only.
        return writer.outputMode(UPDATE).foreachBatch(each_batch(options))
    return writer.format("ottla").outputMode(sink.mode).options(**options)


def _folder(part: Partitioning) -> "Column":
    from pyspark.sql import functions as f

    column = f.col(str(part.column))
    if part.unit is None:
        return column
    if part.unit == "day":
        return column.cast("date")
    return f.date_format(column, TIME_PATTERNS[part.unit])


def _parquet(
    spark: "SparkSession", pipeline: Pipeline, sink: LakeSink, rows: "DataFrame"
) -> "DataStreamWriter":
    path = resolve(sink.path, pipeline.path)
    folders = [part.folder for part in sink.partition_by]
    try:
        must_stay_readable(spark, path, rows.schema, folders)
    except PipelineError as wrong:
        text = f"sink {sink.name}: {wrong}"
        raise WrongFileError(pipeline.path, [Problem(sink.name.line, text)]) from None
    writer = _write(rows).format("parquet").outputMode("append")
    writer = writer.option("path", path).options(**sink.options)
    return writer.partitionBy(*folders) if folders else writer


def _lake(
    spark: "SparkSession", pipeline: Pipeline, sink: LakeSink, rows: "DataFrame"
) -> "DataStreamWriter":
    """A table of Delta or Iceberg, made now if it is not there."""
    from pyspark_ottla.pipeline.lake.format import NAME, LakeFormat

    zone = spark.conf.get("spark.sql.session.timeZone")
    if sink.format == "iceberg" and zone not in ("UTC", "Etc/UTC", "Z", "GMT"):
        raise PipelineError(
            f"sink {sink.name}: Iceberg partitions by time in UTC: "
            "spark.sql.session.timeZone must be UTC"
        )
    options = TableOptions(
        format=str(sink.format),
        path=resolve(sink.path, pipeline.path),
        folders=[part.folder for part in sink.partition_by],
        units=[part.unit for part in sink.partition_by],
        columns=[str(part.column) for part in sink.partition_by],
        name=str(sink.table or f"{pipeline.name}.{sink.name}"),
        options={name: str(value) for name, value in sink.options.items()},
    )
    schema = arrow_schema(spark, rows.schema)
    try:
        open_table(options.document()).prepare(schema)
    except Exception as wrong:  # noqa: BLE001 (catalogs and storages raise what they like)
        reason = " ".join(str(wrong).split()) or type(wrong).__name__
        text = f"sink {sink.name}: {reason}"
        raise WrongFileError(pipeline.path, [Problem(sink.name.line, text)]) from None
    spark.dataSource.register(LakeFormat)
    writer = _write(rows).format(NAME).outputMode("append")
    return writer.option("table", json.dumps(options.document()))
