"""The grammar of a pipeline file: which keys there are, and what each may say.

docs/pipelines.md tells users the same; the two must agree.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from pyspark_ottla.pipeline.document import Section, Text, read_document
from pyspark_ottla.pipeline.model import (
    LAKE_FORMATS,
    LATE,
    LATE_TO_DEAD_LETTERS,
    REGISTRY_FORMATS,
    TABLE_FORMATS,
    TIME_UNITS,
    TOPIC_FORMATS,
    ConsoleSink,
    LakeSink,
    Partitioning,
    Pipeline,
    PipelineStep,
    Sink,
    Source,
    TableSource,
    TopicSink,
    TopicSource,
    Watermark,
)
from pyspark_ottla.pipeline.problems import Problem

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "OTTLA_BOOTSTRAP"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TIME = r"\d+ (millisecond|second|minute|hour|day|week)s?"
DURATION = re.compile(rf"{TIME}( {TIME})*")
PARTITIONING = re.compile(rf"(?:({'|'.join(TIME_UNITS)})\((\w+)\)|(\w+))")
TABLE = re.compile(r"[^.]+(\.[^.]+)+")
CONSOLE_ROWS = 20
MODES = ("append", "update", "complete")

Made = TypeVar("Made")


def read_pipeline(
    path: str, text: str, problems: list[Problem], environment: Mapping[str, str] = os.environ
) -> Pipeline | None:
    """What the file says, as far as it can be read; what cannot is in `problems`."""
    document = read_document(text, problems, environment)
    if document is None:
        return None
    name = document.text("pipeline") or Text(re.sub(r"\W+", "_", Path(path).stem), 1)
    _check_name(document, name)
    bootstrap = document.text("bootstrap")
    pipeline = Pipeline(
        path=path,
        name=name,
        bootstrap=bootstrap or environment.get(BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP),
        kafka=document.pairs("kafka"),
        schema_registry=document.text("schema_registry"),
        checkpoint=document.text("checkpoint"),
        trigger=_duration(document, "trigger"),
        audit=document.flag("audit"),
        report=document.flag("report", default=True),
        spark=document.pairs("spark"),
        sources=_each(document, "sources", "source", _source, required=True),
        steps=_steps(document),
        sinks=_each(document, "sinks", "sink", _sink, required=True),
    )
    document.finish()
    return pipeline


def _each(
    document: Section,
    key: str,
    kind: str,
    make: Callable[[Section, Text], Made],
    *,
    required: bool = False,
) -> dict[str, Made]:
    """The named things under a key."""
    section = document.section(key, key, required=required)
    made: dict[str, Made] = {}
    for name in section.names() if section is not None else ():
        _check_name(document, name)
        inner = section.section(name, f"{kind} {name}") if section is not None else None
        if inner is not None:
            made[name] = make(inner, name)
            inner.finish()
    return made


def _source(section: Section, name: Text) -> Source:
    if section.has("files"):
        return _table(section, name)
    topics = section.texts("topic") + section.texts("topics")
    pattern = section.text("pattern")
    if bool(topics) == (pattern is not None):
        section.wrong(f"{section.where}: it needs one of topic, topics, pattern or files")
    chosen = section.text("format", TOPIC_FORMATS, required=True)
    schema = section.text("schema")
    watermark = _watermark(section)
    if (
        watermark is not None
        and watermark.late == LATE_TO_DEAD_LETTERS
        and not section.has("dead_letters")
    ):
        section.wrong(
            f"{section.where}: late: dead_letters needs dead_letters in the source: the topic for "
            "them",
            watermark.column.line,
        )
    source = TopicSource(
        name=name,
        topics=topics,
        pattern=pattern,
        format=chosen or "json",
        schema=schema,
        subject=section.text("subject"),
        start=section.text("start", ("earliest", "latest")) or "earliest",
        rows_per_batch=section.number("rows_per_batch"),
        metadata=section.flag("metadata"),
        dead_letters=section.text("dead_letters"),
        watermark=watermark,
        options=section.pairs("options"),
    )
    if source.subject is not None and chosen not in REGISTRY_FORMATS:
        formats = " or ".join(REGISTRY_FORMATS)
        section.wrong(f"{section.where}: subject is for format: {formats}", source.subject.line)
    if chosen == "json" and schema is None:
        section.wrong(
            f"{section.where}: json needs a schema, as in `schema: id BIGINT, at TIMESTAMP`"
        )
    elif chosen in REGISTRY_FORMATS and schema is not None:
        section.wrong(f"{section.where}: {chosen} has its schema in the registry", schema.line)
    elif chosen in ("text", "binary"):
        for key in ("schema", "dead_letters", "metadata"):
            if section.has(key):
                other = "json" if key == "schema" else f"json or {' or '.join(REGISTRY_FORMATS)}"
                section.wrong(
                    f"{section.where}: {key} is for format: {other}", section.line_of(key)
                )
    return source


def _table(section: Section, name: Text) -> TableSource:
    files = section.text("files", required=True)
    return TableSource(
        name=name,
        files=files or Text("", section.line),
        format=section.text("format", TABLE_FORMATS) or "parquet",
        schema=section.text("schema"),
        options=section.pairs("options"),
    )


def _steps(document: Section) -> dict[str, PipelineStep]:
    """Each step is its SQL, or a mapping with more to say than that."""
    section = document.section("steps", "steps")
    made: dict[str, PipelineStep] = {}
    for name in section.names() if section is not None else ():
        assert section is not None
        _check_name(document, name)
        if section.is_text(name):
            sql = section.text(name)
            step = PipelineStep(name, sql, None, ()) if sql is not None else None
        else:
            inner = section.section(name, f"step {name}")
            step = _step(inner, name) if inner is not None else None
        if step is not None:
            made[name] = step
    return made


def _step(section: Section, name: Text) -> PipelineStep | None:
    sql = section.text("sql", required=True)
    watermark, unique = _watermark(section), section.texts("unique")
    if watermark is not None and watermark.late != LATE[0]:
        section.wrong(f"{section.where}: late is for the watermarks of sources")
    section.finish()
    return PipelineStep(name, sql, watermark, unique) if sql is not None else None


def _sink(section: Section, name: Text) -> Sink:
    source = section.text("from", required=True) or Text("", section.line)
    kinds = [kind for kind in ("topic", "lake", "console") if section.has(kind)]
    if len(kinds) != 1:
        section.wrong(f"{section.where}: it needs one of topic, lake or console")
        for kind in (
            "key",
            "value",
            "headers",
            "mode",
            "format",
            "subject",
            "partition_by",
            "table",
            "rows",
        ):
            section.has(kind)
        return ConsoleSink(name, source, MODES[0], CONSOLE_ROWS)
    if kinds == ["topic"]:
        topic = section.text("topic", required=True)
        return TopicSink(
            name=name,
            source=source,
            topic=topic or Text("", section.line),
            key=section.text("key"),
            value=section.text("value"),
            headers=section.pairs("headers"),
            format=section.text("format", REGISTRY_FORMATS),
            subject=section.text("subject"),
            mode=section.text("mode", ("append", "update")) or "append",
            options=section.pairs("options"),
        )
    if kinds == ["lake"]:
        return _lake(section, name, source)
    section.flag("console")
    return ConsoleSink(
        name=name,
        source=source,
        mode=section.text("mode", MODES) or "append",
        rows=section.number("rows") or CONSOLE_ROWS,
    )


def _lake(section: Section, name: Text, source: Text) -> LakeSink:
    chosen = section.text("format", LAKE_FORMATS) or "parquet"
    partitions = []
    for text in section.texts("partition_by"):
        found = PARTITIONING.fullmatch(text.replace(" ", ""))
        if found is None:
            units = ", ".join(f"{unit}(column)" for unit in TIME_UNITS)
            section.wrong(f"{section.where}: partition_by takes a column or {units}", text.line)
        else:
            unit, timed, plain = found.groups()
            partitions.append(Partitioning(Text(timed or plain, text.line), unit))
    table = section.text("table")
    if table is not None and chosen != "iceberg":
        section.wrong(f"{section.where}: table is for format: iceberg", table.line)
    elif table is not None and not TABLE.fullmatch(table):
        section.wrong(
            f"{section.where}: table is a namespace and a name, as in shop.clicks", table.line
        )
    return LakeSink(
        name=name,
        source=source,
        path=section.text("lake", required=True) or Text("", section.line),
        format=chosen,
        partition_by=tuple(partitions),
        table=table,
        options=section.pairs("options"),
    )


def _watermark(section: Section) -> Watermark | None:
    inner = section.section("watermark")
    if inner is None:
        return None
    column, delay = inner.text("column", required=True), _duration(inner, "delay", required=True)
    late = inner.text("late", LATE) or LATE[0]
    inner.finish()
    return Watermark(column, delay, late) if column is not None and delay is not None else None


def _duration(section: Section, key: str, *, required: bool = False) -> Text | None:
    found = section.text(key, required=required)
    if found is not None and not DURATION.fullmatch(found):
        section.wrong(
            f"{section.where}: {key} is a time such as 10 seconds or 5 minutes", found.line
        )
        return None
    return found


def _check_name(section: Section, name: Text) -> None:
    if not NAME.fullmatch(name):
        section.wrong(
            f"{name} is not a valid name: use letters, digits and _, and no digit at the start",
            name.line,
        )
