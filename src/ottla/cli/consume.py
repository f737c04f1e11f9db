"""`ottla consume`: a topic's records on the standard output.

Rules kept here:
1. Without --follow it ends where the topic ended when it began. With it, a broker that is gone is
   waited for as long as it takes; that is said.
2. What is printed is flushed before it waits for more.
3. Text is a value on each line, with its key before it where a separator is asked for, byte for
   byte; on a terminal bytes that are not UTF-8 become replacement characters. JSON is one object
   on each line, in which such bytes are base64 in a field of their own.
"""

import sys
from collections.abc import Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import click

from ottla.cli.options import (
    PATIENCE_SECONDS,
    bootstrap_option,
    connect,
    json_option,
    timestamp_ms,
)
from ottla.cli.output import Json, record_fields
from ottla.cli.silence import Silence, Watch

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.cluster import TopicPartition
    from ottla.client.consumer import Batch
    from ottla.records import Record


class Start(NamedTuple):
    """Where to begin: one of an offset, a timestamp in milliseconds, or the beginning or end."""

    kind: str
    number: int = 0


def parse_start(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> Start | None:
    """Read what --from says."""
    if text is None:
        return None
    if text in ("beginning", "end"):
        return Start(text)
    if text.isascii() and text.isdigit():
        return Start("offset", int(text))
    try:
        return Start("timestamp", timestamp_ms(text))
    except ValueError as problem:
        raise click.BadParameter(
            f"{text!r} is not beginning, end, an offset (4711), {problem}."
        ) from None


@click.command("consume")
@click.argument("topic")
@click.option(
    "--from",
    "start",
    callback=parse_start,
    metavar="WHERE",
    help="beginning, end, an offset (4711), or a time: ISO 8601 (local unless it has a zone), or "
    "milliseconds (1769860800000ms).  [default: beginning; with --follow: end]",
)
@click.option("--follow", is_flag=True, help="Wait for more at the end, until Ctrl-C.")
@click.option("--max", "most", type=click.IntRange(1), metavar="N", help="Stop after N records.")
@click.option(
    "--partition",
    "wanted",
    type=click.IntRange(0),
    multiple=True,
    metavar="P",
    help="Read this partition only. May be repeated.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether to show records of open and aborted transactions.",
)
@click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option(
    "--key-separator", metavar="TEXT", help="In text, print the key and this before the value."
)
@bootstrap_option
@json_option
def command(
    topic: str,
    start: Start | None,
    follow: bool,
    most: int | None,
    wanted: tuple[int, ...],
    isolation: str,
    style: str,
    key_separator: str | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Print the records of TOPIC.

    Text prints a value on each line. JSON prints one object on each line: topic, partition, offset,
    timestamp (milliseconds), key, value, headers. Where key or value are not UTF-8 the object has
    key_base64 or value_base64 instead.

    \b
    Examples:
      ottla consume events --from 2026-01-31T12:00:00Z --max 10
      ottla consume events --follow --format json
    """
    from ottla.client import Reader
    from ottla.client.admin import Admin

    separator = None if key_separator is None else key_separator.replace("\\t", "\t").encode()
    read_committed = isolation == "read_committed"
    with connect(bootstrap) as client:
        admin = Admin(client)
        partitions = _partitions(admin, topic, wanted)
        begin = start or Start("end" if follow else "beginning")
        starts, ends = _range(admin, partitions, begin, read_committed)
    with (
        connect(bootstrap, inf if follow else PATIENCE_SECONDS) as client,
        Reader(
            client, starts, until=None if follow else ends, read_committed=read_committed
        ) as reader,
        Watch(Silence(bootstrap)) as watch,
    ):
        left = most
        while left != 0 and not reader.finished:
            watch.asked()
            batches = reader.poll()
            if reader.problem is None:
                watch.answered()
            else:
                watch.failed(reader.problem)
            if left is not None:
                batches = _first(batches, left)
                left -= sum(len(batch.records) for batch in batches)
            if batches:
                _print(batches, style == "json" or as_json, separator)


def _partitions(admin: "Admin", topic: str, wanted: Iterable[int]) -> "list[TopicPartition]":
    partitions = admin.partitions(topic)
    chosen = set(wanted)
    missing = chosen - {item.partition for item in partitions}
    if missing:
        raise click.ClickException(
            f"topic {topic} has no partition {min(missing)}: it has 0 to {len(partitions) - 1}"
        )
    return [item for item in partitions if not chosen or item.partition in chosen]


def _range(
    admin: "Admin", partitions: "list[TopicPartition]", start: Start, read_committed: bool
) -> "tuple[dict[TopicPartition, int], dict[TopicPartition, int]]":
    """Where to begin and to end in each partition."""
    from ottla.client.admin import EARLIEST, LATEST

    def offsets(spec: int) -> "dict[TopicPartition, int]":
        found = admin.list_offsets(dict.fromkeys(partitions, spec), read_committed=read_committed)
        return {partition: found[partition].offset for partition in partitions}

    first, ends = offsets(EARLIEST), offsets(LATEST)
    match start.kind:
        case "beginning":
            return first, ends
        case "end":
            return dict(ends), ends
        case "timestamp":
            found = offsets(start.number)
            # No record is that young: what comes next will be.
            return {item: at if at >= 0 else ends[item] for item, at in found.items()}, ends
        case _:
            return _clamped(start.number, first, ends), ends


def _clamped(
    offset: int, first: "Mapping[TopicPartition, int]", ends: "Mapping[TopicPartition, int]"
) -> "dict[TopicPartition, int]":
    starts = {}
    for partition in first:
        starts[partition] = min(max(offset, first[partition]), ends[partition])
        if starts[partition] != offset:
            click.echo(
                f"ottla: partition {partition.partition} has no offset {offset}: it begins at "
                f"{first[partition]} and ends before {ends[partition]}",
                err=True,
            )
    return starts


def _first(batches: "list[Batch]", count: int) -> "list[Batch]":
    """The batches up to a number of records."""
    kept = []
    for batch in batches:
        if count <= 0:
            break
        kept.append(batch._replace(records=batch.records[:count]))
        count -= len(batch.records)
    return kept


def _print(batches: "list[Batch]", as_json: bool, separator: bytes | None) -> None:
    if as_json:
        from msgspec import json

        text = json.Encoder().encode_lines(
            [
                json_record(batch.topic, batch.partition, item)
                for batch in batches
                for item in batch.records
            ]
        )
    else:
        lines = [text_line(item, separator) for batch in batches for item in batch.records]
        text = b"\n".join(lines) + b"\n"
        if sys.stdout.isatty():
            text = text.decode("utf-8", "replace").encode()
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def text_line(record: "Record", separator: bytes | None) -> bytes:
    """A record's value, perhaps with its key before it; null is nothing."""
    value = record.value or b""
    return value if separator is None else (record.key or b"") + separator + value


def json_record(topic: str, partition: int, record: "Record") -> dict[str, Json]:
    """A record as JSON output shows it."""
    return {"topic": topic, "partition": partition, **record_fields(record)}
