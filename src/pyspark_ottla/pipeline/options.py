"""The options that a pipeline gives the format "ottla", and what is wrong with them (pure).

Rules kept here:
1. What the file says under `options` takes precedence over what the pipeline sets.
2. Options are judged by the code that Spark will ask, so that `check` and `run` say the same.
3. A problem has the line of the option that its text names, where the file has that option.
"""

from collections.abc import Iterable, Mapping

from pyspark_ottla.errors import OptionError
from pyspark_ottla.formats.settings import PERMISSIVE, URL
from pyspark_ottla.kafka_options import KAFKA_PREFIX
from pyspark_ottla.options import Use
from pyspark_ottla.pipeline.document import Text
from pyspark_ottla.pipeline.model import REGISTRY_FORMATS, Pipeline, TopicSink, TopicSource
from pyspark_ottla.pipeline.problems import Problem
from pyspark_ottla.pipeline.templates import expressions
from pyspark_ottla.sink.settings import sink_settings
from pyspark_ottla.source.settings import SourceSettings

BOOTSTRAP = f"{KAFKA_PREFIX}bootstrap.servers"


def kafka_options(pipeline: Pipeline) -> dict[str, str]:
    """What all readers and writers of topics have: the brokers, and `kafka` of the file."""
    given = {f"{KAFKA_PREFIX}{name}": text for name, text in pipeline.kafka.items()}
    return {**given, BOOTSTRAP: pipeline.bootstrap}


def security_options(options: Mapping[str, str]) -> dict[str, str]:
    """What a source's dead letters need of its options to reach the pipeline's brokers."""
    if BOOTSTRAP in options:
        return {}  # the source has other brokers
    prefixes = tuple(f"{KAFKA_PREFIX}{start}" for start in ("security.", "ssl.", "sasl."))
    return {name: text for name, text in options.items() if name.startswith(prefixes)}


def source_options(pipeline: Pipeline, source: TopicSource, query: str) -> dict[str, str]:
    """The options of a topic's reader in one of the pipeline's queries."""
    options = kafka_options(pipeline) | {
        "startingOffsets": source.start,
        "commitGroup": f"{pipeline.name}.{query}",
    }
    if source.pattern is not None:
        options["subscribePattern"] = source.pattern
    else:
        options["subscribe"] = ",".join(source.topics)
    if source.rows_per_batch is not None:
        options["maxOffsetsPerTrigger"] = str(source.rows_per_batch)
    if source.format in REGISTRY_FORMATS:
        options |= _format(pipeline, source.format, source.subject) | {"value.mode": PERMISSIVE}
    return options | _audit(pipeline, query) | dict(source.options)


def topic_options(pipeline: Pipeline, sink: TopicSink) -> dict[str, str]:
    """The options of a topic's writer."""
    options = kafka_options(pipeline)
    if not expressions(sink.topic):
        options["topic"] = str(sink.topic)
    if sink.format is not None:
        options |= _format(pipeline, sink.format, sink.subject)
    return options | _audit(pipeline, sink.name) | dict(sink.options)


def source_problem(pipeline: Pipeline, source: TopicSource) -> Problem | None:
    """What is wrong with a source's options."""
    try:
        SourceSettings.of(source_options(pipeline, source, "check"), Use.STREAM_READ)
    except OptionError as problem:
        line = source.name.line if source.pattern is None else source.pattern.line
        return Problem(
            _line(problem, _given(pipeline, source.options), [pipeline.bootstrap], line),
            f"source {source.name}: {problem}",
        )
    return None


def sink_problem(pipeline: Pipeline, sink: TopicSink) -> Problem | None:
    """What is wrong with a sink's options."""
    from pyspark.sql.types import StringType, StructType

    value = StringType() if sink.format is None else StructType().add("any", StringType())
    columns = StructType().add("topic", StringType()).add("value", value)
    try:
        sink_settings(columns, topic_options(pipeline, sink), Use.STREAM_WRITE)
    except OptionError as problem:
        given = _given(pipeline, sink.options)
        line = _line(problem, given, [pipeline.bootstrap], sink.name.line)
        return Problem(line, f"sink {sink.name}: {problem}")
    return None


def _given(pipeline: Pipeline, options: Mapping[str, str]) -> dict[str, str]:
    """The options that the file names, its own ones first."""
    common = {f"{KAFKA_PREFIX}{name}": text for name, text in pipeline.kafka.items()}
    return {**options, **{name: text for name, text in common.items() if name not in options}}


def _line(
    problem: OptionError, given: Mapping[str, str], others: Iterable[str], otherwise: int
) -> int:
    text = str(problem).lower()
    for name, value in given.items():
        if name.lower() in text and isinstance(value, Text):
            return value.line
    for other in others:
        if f"'{other}'".lower() in text and isinstance(other, Text):
            return other.line
    return otherwise


def _format(pipeline: Pipeline, form: str, subject: Text | None) -> dict[str, str]:
    options = {"value.format": form}
    if pipeline.schema_registry is not None:
        options[URL] = str(pipeline.schema_registry)
    if subject is not None:
        options["value.subject"] = str(subject)
    return options


def _audit(pipeline: Pipeline, query: str) -> dict[str, str]:
    """What makes the source and the sink count for `ottla audit`, by the query's name."""
    return {"audit": "true", "auditName": f"{pipeline.name}.{query}"} if pipeline.audit else {}
