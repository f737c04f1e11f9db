"""The options of the format "ottla": one table of names, and the values read from them.

Rules kept here:
1. Names and meanings are those of Spark's Kafka source and sink, so that a job moves by changing
   its format. Names are compared without regard to case, as Spark does.
2. A name that is not in the table is an error that says which name was likely meant: an option
   with a typing error must never be ignored in silence.
3. A value that makes no sense is an error that names the option and the value.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from enum import Flag, auto
from typing import NamedTuple

from msgspec.structs import replace

from ottla.client import ClientSettings
from pyspark_ottla.errors import OptionError
from pyspark_ottla.kafka_options import KAFKA_PREFIX, LARGEST_INT, KafkaOptions

LARGEST = 2**63 - 1
"""Offsets, times and counts have 64 bits."""


class Use(Flag):
    """What a job does with the format."""

    BATCH_READ = auto()
    STREAM_READ = auto()
    BATCH_WRITE = auto()
    STREAM_WRITE = auto()
    READ = BATCH_READ | STREAM_READ
    WRITE = BATCH_WRITE | STREAM_WRITE
    STREAM = STREAM_READ | STREAM_WRITE


_USE_NAMES = {
    Use.READ: "a source",
    Use.BATCH_READ: "spark.read",
    Use.STREAM_READ: "spark.readStream",
    Use.BATCH_WRITE: "DataFrame.write",
    Use.STREAM_WRITE: "DataFrame.writeStream",
}


class Option(NamedTuple):
    """One option: its name as people write it, who may use it, and what it means."""

    name: str
    use: Use
    meaning: str


OPTIONS = (
    Option("subscribe", Use.READ, "topics to read, separated by commas"),
    Option("subscribePattern", Use.READ, "a regular expression that matches a whole topic name"),
    Option("assign", Use.READ, 'partitions to read: {"events":[0,1]}'),
    Option(
        "startingOffsets",
        Use.READ,
        'earliest, latest, or {"events":{"0":23,"1":-2}} with -2 for earliest and -1 for latest',
    ),
    Option("endingOffsets", Use.BATCH_READ, "latest, or offsets as in startingOffsets"),
    Option(
        "startingTimestamp",
        Use.READ,
        "start at the first record of this time (milliseconds since 1970) or later",
    ),
    Option("endingTimestamp", Use.BATCH_READ, "end before the first record of this time or later"),
    Option(
        "startingOffsetsByTimestamp", Use.READ, 'a time for each partition: {"events":{"0":1000}}'
    ),
    Option("endingOffsetsByTimestamp", Use.BATCH_READ, "a time for each partition"),
    Option(
        "startingOffsetsByTimestampStrategy",
        Use.READ,
        "what to do where no record matches the timestamp: error (default), or latest",
    ),
    Option(
        "failOnDataLoss",
        Use.READ,
        "true (default): missing offsets are an error; false: they are skipped",
    ),
    Option(
        "minPartitions", Use.READ, "split large partitions until there are about this many tasks"
    ),
    Option("maxRecordsPerPartition", Use.READ, "split so that no task has more offsets than this"),
    Option("maxOffsetsPerTrigger", Use.READ, "the most offsets that one micro-batch takes"),
    Option("minOffsetsPerTrigger", Use.READ, "wait until this many offsets are available"),
    Option("maxTriggerDelay", Use.READ, "the longest wait for minOffsetsPerTrigger (default 15m)"),
    Option("includeHeaders", Use.READ, "true: add the column headers"),
    Option("commitGroup", Use.STREAM_READ, "the consumer group to which offsets are committed"),
    Option("audit", Use.READ | Use.WRITE, "true: count rows for `ottla audit`"),
    Option(
        "auditName",
        Use.READ | Use.WRITE,
        "by which name; default: commitGroup or the sink's name, else the query's id",
    ),
    Option("auditWindowMs", Use.READ | Use.WRITE, "the length of the audit's windows (60000)"),
    Option(
        "value.format",
        Use.READ | Use.WRITE,
        "avro, json-schema or protobuf: the column value is decoded, or encoded, by schemas of the "
        "registry; binary (default): it is left as it is",
    ),
    Option("schema.registry.url", Use.READ | Use.WRITE, "where the registry is"),
    Option(
        "schema.registry.basic.auth.user.info",
        Use.READ | Use.WRITE,
        "user:password for the registry; ${env:NAME} and ${file:/path:key} are resolved in tasks",
    ),
    Option(
        "value.subject",
        Use.READ | Use.WRITE,
        "the subject of the schema (default: the topic's name and -value)",
    ),
    Option(
        "value.schema.version",
        Use.READ | Use.WRITE,
        "latest or a number: the version that gives the columns (default: latest), or that rows "
        "are written by (default: one made from the columns is registered)",
    ),
    Option(
        "value.mode",
        Use.READ,
        "failfast (default): a value that cannot be decoded is an error; permissive: value is "
        "null, and the columns valueError and valueBytes tell of it; keep: valueBytes of all rows",
    ),
    Option("groupIdPrefix", Use.READ, "the beginning of the client id that brokers see"),
    Option("kafkaConsumer.pollTimeoutMs", Use.READ, "the longest wait for one answer of a broker"),
    Option("fetchOffset.numRetries", Use.READ, "without effect: retries follow kafka.retry.*"),
    Option("fetchOffset.retryIntervalMs", Use.READ, "without effect: see kafka.retry.backoff.ms"),
    Option("topic", Use.WRITE, "the topic to write to; the column topic is ignored then"),
    Option("includeHeaders", Use.WRITE, "without effect: a column headers is always written"),
    Option("guarantee", Use.WRITE, "exactly-once (default) or at-least-once"),
    Option(
        "unknownOutcome",
        Use.WRITE,
        "how to treat a transaction whose outcome is no longer in the log: fail (default), "
        "committed or aborted",
    ),
    Option("sinkId", Use.WRITE, "the name of this sink in transactions; default: the query's id"),
    Option(
        "batchId",
        Use.BATCH_WRITE,
        "the number of this batch of the sinkId: it is written once, however often it is retried",
    ),
    # Spark hands its own options over with those of the format.
    Option("checkpointLocation", Use.STREAM, "Spark's: where a query keeps its progress"),
    Option("queryName", Use.STREAM, "Spark's: the name of a query"),
)


class Options:
    """The options of one read or write, their names checked."""

    def __init__(self, given: Mapping[str, str], use: Use) -> None:
        """Take the options of a job that does one of the things in `use`."""
        lowered = {name.lower(): value for name, value in given.items()}
        for name in lowered:
            _check_name(name, use)
        self._given = lowered
        self.kafka = KafkaOptions(
            {
                name.removeprefix(KAFKA_PREFIX): value
                for name, value in lowered.items()
                if name.startswith(KAFKA_PREFIX)
            },
            reads=bool(use & Use.READ),
        )

    def text(self, name: str) -> str | None:
        """An option's value without blanks around it; None where it is not given."""
        value = self._given.get(name.lower())
        return None if value is None else value.strip()

    def number(self, name: str, *, least: int = 1, most: int = LARGEST) -> int | None:
        """A whole number from `least` to `most`; by default those that Kafka and Spark have."""
        text = self.text(name)
        if text is None:
            return None
        try:
            number = int(text)
        except ValueError:
            raise wrong(name, text, "a whole number") from None
        if number < least:
            raise wrong(name, text, f"a whole number of at least {least}")
        if number > most:
            raise wrong(name, text, f"a whole number of at most {most}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise wrong(name, text, "true or false")
        return text.lower() == "true"

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """One of some words, in lower case."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in choices:
            raise wrong(name, text, " or ".join(choices))
        return text.lower()

    def seconds(self, name: str, default: float) -> float:
        """A time as Spark writes it: 100ms, 5s, 15m, 1h; a plain number is milliseconds."""
        text = self.text(name)
        if text is None:
            return default
        found = re.fullmatch(r"(\d{1,18})\s*([a-z]*)", text.lower())
        if found is None or found[2] not in _SECONDS:
            raise wrong(name, text, "a time such as 500ms, 30s, 15m or 1h")
        return int(found[1]) * _SECONDS[found[2]]

    def client_settings(self) -> ClientSettings:
        """How to reach the cluster."""
        settings = self.kafka.client_settings(self.text("groupIdPrefix"))
        poll_timeout = self.number("kafkaConsumer.pollTimeoutMs", most=LARGEST_INT)
        if poll_timeout is None:
            return settings
        return replace(settings, request_timeout=poll_timeout / 1000)


def wrong(name: str, value: str, expected: str) -> OptionError:
    """The error for a value that makes no sense."""
    return OptionError(f"option {name} is {value!r}, but must be {expected}")


def _check_name(name: str, use: Use) -> None:
    if name.startswith(KAFKA_PREFIX):
        return
    known = [option for option in OPTIONS if option.name.lower() == name]
    if any(option.use & use for option in known):
        return
    if known:
        raise OptionError(
            f"option {known[0].name} is not for {_USE_NAMES.get(use, 'this')}: "
            f"it is for {_names(known[0].use)}"
        )
    if name == "path":
        hint = "paths are not supported: use subscribe to read topics, or topic to write"
    else:
        by_lower = {option.name.lower(): option.name for option in OPTIONS if option.use & use}
        near = get_close_matches(name, by_lower, n=1)
        if near:
            hint = f"did you mean {by_lower[near[0]]}?"
        else:
            hint = f"there are {', '.join(sorted(set(by_lower.values())))}, and kafka.*"
    raise OptionError(f"the format ottla has no option {name}: {hint}")


def _names(use: Use) -> str:
    return " and ".join(
        text for part, text in _USE_NAMES.items() if part & use and part is not Use.READ
    )


_SECONDS = {
    "us": 1e-6,
    "": 1e-3,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
