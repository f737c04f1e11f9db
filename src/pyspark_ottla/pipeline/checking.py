"""What can be found wrong in a pipeline before Spark starts.

Rules kept here:
1. All mistakes are found in one go, each with its line.
2. A step may read sources and steps above it: a file reads from top to bottom.
3. What only Spark can know (types, functions, most columns of inner queries) is left to Spark,
   whose complaint `run` shows with the same kind of line.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark_ottla.pipeline import sql, templates
from pyspark_ottla.pipeline.document import Text
from pyspark_ottla.pipeline.model import (
    DEAD_LETTERS,
    REGISTRY_FORMATS,
    ConsoleSink,
    LakeSink,
    Pipeline,
    Sink,
    Source,
    TableSource,
    TopicSink,
    TopicSource,
    Watermark,
)
from pyspark_ottla.pipeline.options import sink_problem, source_problem
from pyspark_ottla.pipeline.places import resolve
from pyspark_ottla.pipeline.problems import PipelineError, Problem, WrongFileError, nearest
from pyspark_ottla.pipeline.reading import read_pipeline

RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
METADATA_COLUMN = "kafka"
UNLIKELY = ("Q7_z", "x.-9")
"""Values for the expressions in a topic's name: a pattern that fits both fits any."""


def load(
    path: str, environment: Mapping[str, str] = os.environ, *, look_into_sql: bool = True
) -> Pipeline:
    """The pipeline in a file; WrongFileError with all mistakes that can be found without Spark, and
    PipelineError if there is no such file.

    Mistakes within SQL are left out where Spark itself will look for them.
    """
    problems: list[Problem] = []
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as wrong:
        raise WrongFileError(path, [Problem(1, f"not UTF-8: {wrong.reason}")]) from None
    except OSError as problem:
        raise PipelineError(f"{path}: {problem.strerror}") from None
    pipeline = read_pipeline(path, text, problems, environment)
    if pipeline is not None:
        _Check(pipeline, problems, look_into_sql).all()
    if problems or pipeline is None:
        raise WrongFileError(path, problems)
    return pipeline


class _Check:
    """One look at a pipeline; what is known of columns grows from source to sink."""

    def __init__(self, pipeline: Pipeline, problems: list[Problem], look_into_sql: bool) -> None:
        self._pipeline = pipeline
        self._look_into_sql = look_into_sql
        self._problems = problems
        self._columns: dict[str, sql.Columns] = {}
        self._reads: dict[str, list[str]] = {}
        self._streams: set[str] = set()
        self._all_is_read = True
        """False where it is not known what some SQL reads."""

    def all(self) -> None:
        """Look at everything."""
        pipeline = self._pipeline
        self._names()
        for source in pipeline.sources.values():
            self._source(source)
        for name in pipeline.steps:
            self._step(name)
        self._circles()
        self._folders()
        used = {table for tables in self._reads.values() for table in tables}
        for sink in pipeline.sinks.values():
            self._sink(sink)
            used.add(sink.source.lower())
        everything = [*pipeline.sources.items(), *pipeline.steps.items()]
        for name, thing in everything if self._all_is_read and not self._problems else ():
            dead = isinstance(thing, TopicSource) and thing.dead_letters is not None
            if name.lower() not in used and not dead:
                self._wrong(thing.name.line, f"nothing reads {name}: use it in a step or remove it")
        needs = [sink for sink in pipeline.sinks.values() if not isinstance(sink, ConsoleSink)]
        if needs and pipeline.checkpoint is None:
            self._wrong(
                1,
                "checkpoint is missing: a folder for the pipeline's progress, as in "
                f"`checkpoint: checkpoints/{pipeline.name}`",
            )
        for name, value in pipeline.spark.items():
            if not name.startswith("spark."):
                line = value.line if isinstance(value, Text) else 1
                self._wrong(line, f"spark: {name} is not a Spark setting: names begin with spark.")

    def _wrong(self, line: int, text: str) -> None:
        self._problems.append(Problem(line, text))

    def _wrong_sql(self, line: int, text: str) -> None:
        if self._look_into_sql:
            self._wrong(line, text)

    def _names(self) -> None:
        taken: dict[str, Text] = {}
        for thing in (*self._pipeline.sources.values(), *self._pipeline.steps.values()):
            before = taken.setdefault(thing.name.lower(), thing.name)
            if before is not thing.name:
                self._wrong(
                    thing.name.line, f"the name {thing.name} is already used (line {before.line})"
                )

    def _folders(self) -> None:
        """Each lake has a folder of its own: Spark's log of files, and tables, belong to one. What
        else lay in a table's folder would be removed by its vacuum. Iceberg tables may share one.
        """
        taken: list[tuple[str, str, LakeSink | None]] = []
        if self._pipeline.checkpoint:
            line = self._pipeline.checkpoint.line
            taken.append(
                (f"the checkpoint (line {line})", self._folder(self._pipeline.checkpoint), None)
            )
        for sink in self._pipeline.sinks.values():
            if not isinstance(sink, LakeSink) or not sink.path:
                continue
            folder = self._folder(sink.path)
            for what, other_folder, other in taken:
                if other is not None and "iceberg" in (sink.format, other.format):
                    wrong = folder == other_folder and not _are_two_tables(sink, other)
                else:
                    wrong = _is_in(folder, other_folder) or _is_in(other_folder, folder)
                if wrong:
                    how = (
                        "has the same folder" if folder == other_folder else "and it share a folder"
                    )
                    self._wrong(sink.path.line, f"sink {sink.name}: {what} {how}")
            taken.append((f"the sink {sink.name} (line {sink.path.line})", folder, sink))

    def _folder(self, place: Text) -> str:
        return os.path.normpath(resolve(place, self._pipeline.path))

    def _source(self, source: Source) -> None:
        what = f"source {source.name}"
        columns: sql.Columns = None
        if source.schema is not None:
            try:
                columns = tuple(sql.schema_columns(source.schema))
            except sql.WrongSqlError as wrong:
                self._wrong_sql(wrong.line, f"{what}: the schema does not parse: {wrong.text}")
        if isinstance(source, TopicSource):
            self._streams.add(source.name.lower())
            if source.format in REGISTRY_FORMATS:
                columns = None  # the registry knows them; Spark checks them when it runs
            elif source.format != "json":
                options = {name.lower(): value for name, value in source.options.items()}
                headers = options.get("includeheaders", "").strip().lower() == "true"
                columns = (*RECORD_COLUMNS, "headers") if headers else RECORD_COLUMNS
            elif columns is not None and source.metadata:
                if sql.same_name(METADATA_COLUMN, columns) and source.schema is not None:
                    self._wrong_sql(
                        source.schema.line,
                        f"{what}: metadata adds the column {METADATA_COLUMN}, which the schema "
                        "already has",
                    )
                columns = (*columns, METADATA_COLUMN)
            self._topic_source(source, what)
        self._columns[source.name.lower()] = columns
        if isinstance(source, TopicSource):
            self._watermark(what, source.watermark, columns)

    def _topic_source(self, source: TopicSource, what: str) -> None:
        for topic in (*source.topics, source.dead_letters):
            if topic is not None and not _is_topic(topic):
                self._wrong(topic.line, f"{what}: {topic} cannot be a topic's name")
        if source.dead_letters is not None and reads_topic(source, source.dead_letters):
            self._wrong(
                source.dead_letters.line,
                f"{what}: dead_letters cannot be {source.dead_letters}, which is read: broken "
                "records would loop forever",
            )
        if source.topics or source.pattern is not None:
            self._option(source_problem(self._pipeline, source))

    def _option(self, problem: Problem | None) -> None:
        if problem is not None:
            self._problems.append(problem)

    def _watermark(self, what: str, watermark: Watermark | None, columns: sql.Columns) -> None:
        if watermark is not None:
            self._column(f"{what}: watermark", watermark.column, columns)

    def _column(self, what: str, column: Text, columns: sql.Columns) -> None:
        if columns is not None and not sql.same_name(column, columns):
            self._wrong_sql(
                column.line, f"{what}: there is no column {column}{nearest(column, columns)}"
            )

    def _step(self, name: str) -> None:
        step = self._pipeline.steps[name]
        what = f"step {name}"
        self._reads[name.lower()] = []
        columns: sql.Columns = None
        try:
            query = sql.read_query(step.sql, self._columns)
        except sql.WrongSqlError as wrong:
            self._all_is_read = False
            self._streams.add(name.lower())
            self._wrong_sql(wrong.line, f"{what}: the SQL does not parse: {wrong.text}")
        else:
            # What such a step gives is not known: one mistake is reported once.
            columns = None if query.unknown else query.columns
            for table in query.tables:
                self._reads[name.lower()].append(table.name.lower())
                self._table(what, name, table)
            for column, available in query.unknown:
                text = f"{what}: there is no column {column.name}{nearest(column.name, available)}"
                self._wrong_sql(column.line, text)
        self._watermark(what, step.watermark, columns)
        for column_name in step.unique:
            self._column(f"{what}: unique", column_name, columns)
        if step.unique and self._all_is_read and not self._has_watermark(name):
            self._wrong(
                step.unique[0].line,
                f"{what}: unique needs a watermark, in the step or in a source that it reads: "
                "without one it would have to remember every row",
            )
        self._columns[name.lower()] = columns
        reads = self._reads[name.lower()]
        if self._streams.intersection(reads) or any(table not in self._columns for table in reads):
            self._streams.add(name.lower())

    def _table(self, what: str, step: str, table: sql.SqlName) -> None:
        if table.name.lower() in self._columns or table.name.lower() == step.lower():
            return
        later = {name.lower(): name for name in self._pipeline.steps}
        if table.name.lower() in later:
            text = f"{what}: it reads {table.name}, which comes below: move that step up"
        else:
            known = [*self._pipeline.sources, *self._pipeline.steps]
            others = [name for name in known if name != step]
            text = f"{what}: there is no source or step {table.name}{nearest(table.name, others)}"
        self._wrong(table.line, text)

    def _circles(self) -> None:
        """Steps that read each other."""
        for name, step in self._pipeline.steps.items():
            path = self._way(name.lower(), name.lower())
            if path == [name.lower()]:
                self._wrong(step.sql.line, f"step {name}: it reads itself")
            elif path and name.lower() == min(path):
                self._wrong(
                    step.sql.line, f"step {name}: it reads itself, through {', '.join(path[:-1])}"
                )

    def _way(self, start: str, goal: str) -> list[str]:
        """The steps from one to another by what each reads; empty if no way leads there."""
        ways = [[start]]
        seen: set[str] = set()
        for way in ways:
            for table in self._reads.get(way[-1], ()):
                if table == goal:
                    return [*way[1:], goal]
                if table not in seen:
                    seen.add(table)
                    ways.append([*way, table])
        return []

    def _sink(self, sink: Sink) -> None:
        what = f"sink {sink.name}"
        known = [*self._pipeline.sources, *self._pipeline.steps]
        if sink.source and not sql.same_name(sink.source, tuple(known)):
            self._wrong(
                sink.source.line,
                f"{what}: there is no source or step {sink.source}{nearest(sink.source, known)}",
            )
            return
        columns = self._columns.get(sink.source.lower())
        if isinstance(self._source_of(sink.source), TableSource):
            self._wrong(sink.source.line, f"{what}: {sink.source} is a table, not a stream")
            return
        if sink.source.lower() in self._reads and not self._is_stream(sink.source):
            self._wrong(
                sink.source.line, f"{what}: {sink.source} reads no topic, so it never changes"
            )
        if isinstance(sink, TopicSink):
            self._topic_sink(sink, what, columns)
        elif isinstance(sink, LakeSink):
            self._partitions(sink, what, columns)

    def _source_of(self, name: str) -> Source | None:
        """The source of that name, in any case."""
        for source in self._pipeline.sources.values():
            if source.name.lower() == name.lower():
                return source
        return None

    def _behind(self, name: str) -> list[str]:
        """A step and all that its rows come from, in lower case."""
        found = [name.lower()]
        for each in found:
            found += [table for table in self._reads.get(each, ()) if table not in found]
        return found

    def _has_watermark(self, step: str) -> bool:
        """Whether a step's rows have a watermark; one that reads what is not known may have."""
        steps = {name.lower(): step for name, step in self._pipeline.steps.items()}
        for name in self._behind(step):
            thing = steps.get(name) or self._source_of(name)
            if thing is None or getattr(thing, "watermark", None) is not None:
                return True
        return False

    def _partitions(self, sink: LakeSink, what: str, columns: sql.Columns) -> None:
        made: set[str] = set()
        for part in sink.partition_by:
            self._column(f"{what}: partition_by", part.column, columns)
            if part.folder.lower() in made:
                self._wrong(part.column.line, f"{what}: partition_by: {part.folder} is a duplicate")
            made.add(part.folder.lower())
            if columns is not None and part.hides(columns):
                self._wrong_sql(part.column.line, f"{what}: {part.hiding}")

    def _is_stream(self, name: str) -> bool:
        """Whether rows of topics reach a step; one with a mistake gets the benefit of the doubt."""
        reads = self._reads.get(name.lower(), [])
        complete = all(table in self._columns and table != name.lower() for table in reads)
        return name.lower() in self._streams or not reads or not complete

    def _topic_sink(self, sink: TopicSink, what: str, columns: sql.Columns) -> None:
        if sink.topic and not templates.is_legal(sink.topic):
            self._wrong(
                sink.topic.line,
                f"{what}: {sink.topic} cannot be a topic's name (expressions stand in braces)",
            )
        source = self._source_of(sink.source)
        if isinstance(source, TopicSource) and _reads_all_like(source, sink.topic):
            self._wrong(
                sink.topic.line,
                f"{what}: its rows come from {sink.topic}: the pipeline would read its own output "
                "forever",
            )
        self._option(sink_problem(self._pipeline, sink))
        self._expressions(f"{what}: topic", templates.expressions(sink.topic), columns)
        given = [text for text in (sink.key, sink.value) if text is not None]
        self._expressions(what, [*given, *sink.headers.values()], columns)

    def _expressions(self, what: str, texts: Iterable[Text], columns: sql.Columns) -> None:
        for text in texts:
            try:
                named = sql.expression_columns(text)
            except sql.WrongSqlError as wrong:
                self._wrong_sql(wrong.line, f"{what}: {text} does not parse: {wrong.text}")
                continue
            for name in named:
                self._column(what, Text(name, text.line), columns)


def _is_in(place: str, folder: str) -> bool:
    """Whether a place is a folder, or lies in it where a table's vacuum would find it."""
    if not f"{place}/".startswith(f"{folder}/"):
        return False
    return not place[len(folder) :].startswith(("/_", "/."))


def _are_two_tables(one: LakeSink, other: LakeSink) -> bool:
    """Whether two sinks with one folder have different Iceberg tables there."""
    is_iceberg = one.format == other.format == "iceberg"
    return is_iceberg and (one.table is None or one.table != other.table)


def _is_topic(name: Text) -> bool:
    """Whether it can be the name of one topic."""
    return not templates.expressions(name) and templates.is_legal(name)


def reads_topic(source: TopicSource, topic: str) -> bool:
    """Whether a source reads a topic."""
    if source.pattern is None:
        return topic in source.topics
    try:
        return re.fullmatch(source.pattern, topic) is not None
    except re.error:
        return False  # That is reported separately.


def _reads_all_like(source: TopicSource, topic: Text) -> bool:
    """Whether a source reads a sink's topic; with expressions in it, whatever they give."""
    return all(reads_topic(source, templates.like(topic, value)) for value in UNLIKELY)


def query_names(pipeline: Pipeline) -> list[str]:
    """The names of the queries that a pipeline runs: its sinks, and one for dead letters each."""
    dead = [
        f"{name}.{DEAD_LETTERS}"
        for name, source in pipeline.sources.items()
        if isinstance(source, TopicSource) and source.dead_letters is not None
    ]
    return [*pipeline.sinks, *dead]
