"""`ottla produce`: lines of files or of the standard input become a topic's records.

Rules kept here (how a line is read: `record_input`):
1. What came in is sent at the latest when there is nothing more to read just now, so that lines
   typed by hand arrive at once and large inputs go out in full batches.
2. A failure says how many records were acknowledged. Where a line is the reason, all lines before
   it are written first, so that one can continue with it.
"""

import os
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from ottla.cli.options import bootstrap_option, connect, json_option
from ottla.cli.output import print_json, size_text
from ottla.cli.record_input import BadLineError, inputs, json_parser, text_parser

if TYPE_CHECKING:
    from ottla.client import Producer

SHOW_EVERY = 0.2
ACKS = {"0": 0, "1": 1, "all": -1}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command("produce")
@click.argument("topic")
@click.argument(
    "files",
    nargs=-1,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json reads objects as printed by `ottla consume --format json`: key, value, headers and "
    "timestamp are used; topic, partition and offset are ignored.",
)
@click.option(
    "--key-separator",
    metavar="TEXT",
    help="Separator between key and value in a line; \\t is a tab.",
)
@click.option(
    "--null-marker",
    metavar="TEXT",
    help="Keys and values equal to this text become null. A record with a null value (a tombstone) "
    "deletes its key from a compacted topic.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="Add this header to all records.",
)
@click.option("--partition", type=click.IntRange(0), help="Write to this partition only.")
@click.option(
    "--acks",
    type=click.Choice(list(ACKS)),
    default="all",
    show_default=True,
    help="Acknowledgements required: 0 (none), 1 (leader), all (all in-sync replicas).",
)
@click.option(
    "--compression",
    type=click.Choice(CODECS),
    default="none",
    show_default=True,
    help="Compression codec of the batches.",
)
@bootstrap_option
@json_option
def command(
    topic: str,
    files: tuple[Path, ...],
    style: str,
    key_separator: str | None,
    null_marker: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    acks: str,
    compression: str,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Write the lines of FILES, or of standard input (-), to TOPIC.

    Each line is a record. The number of records, their size and the rate are printed at the end.

    \b
    Examples:
      echo '{"user": 7}' | ottla produce events
      ottla produce events --key-separator : --header source=import users.txt
      echo 'user-7:NULL' | ottla produce users --key-separator : --null-marker NULL
      ottla consume events --format json | ottla produce copy --format json
    """
    from ottla.client import Producer
    from ottla.records import Codec
    from ottla.wire.errors import KafkaError

    common_headers = [_header(item) for item in headers]
    if style == "json":
        if key_separator is not None or null_marker is not None:
            raise click.UsageError("--key-separator and --null-marker need --format text.")
        parse = json_parser()
    else:
        parse = text_parser(key_separator, null_marker)
    with connect(bootstrap) as client:
        producer = Producer(client, acks=ACKS[acks], codec=Codec[compression.upper()])
        progress = _Progress(producer)
        try:
            for name, lines in inputs(files, producer.flush):
                for number, line in lines:
                    try:
                        record = parse(line)
                    except ValueError as problem:
                        raise BadLineError(f"line {number} of {name} {problem}") from None
                    producer.send(
                        topic,
                        record.value,
                        key=record.key,
                        headers=[*record.headers, *common_headers],
                        partition=partition,
                        timestamp=record.timestamp,
                    )
                    progress.count(len(record.value or b"") + len(record.key or b""))
            producer.flush()
        except BadLineError as problem:
            producer.flush()
            raise click.ClickException(
                f"{problem} (acknowledged before it: {producer.acknowledged})"
            ) from None
        except KafkaError as problem:
            raise KafkaError(
                problem.code,
                f"{problem} (acknowledged: {producer.acknowledged}; others may be written too)",
            ) from None
        finally:
            progress.clear()
    progress.report(topic, as_json)


def _header(item: str) -> tuple[str, bytes]:
    name, equals, value = item.partition("=")
    if not equals:
        raise click.UsageError(f"--header {item}: must be name=value.")
    return name, os.fsencode(value)


class _Progress:
    """Counts what is sent, and on a terminal shows it."""

    def __init__(self, producer: "Producer") -> None:
        self._producer = producer
        self._started = monotonic()
        self._bytes = 0
        self._is_shown = sys.stderr.isatty()
        self._next = self._started + SHOW_EVERY
        self._since_look = 0

    def count(self, size: int) -> None:
        self._bytes += size
        self._since_look += 1
        if self._is_shown and self._since_look >= 256:
            self._since_look = 0
            if monotonic() >= self._next:
                self._next = monotonic() + SHOW_EVERY
                print(f"\r\x1b[K{self._text()}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _text(self) -> str:
        seconds = max(monotonic() - self._started, 1e-6)
        records = self._producer.acknowledged
        count = "1 record" if records == 1 else f"{records:,} records"
        return (
            f"{count}, {size_text(self._bytes)} in {seconds:.1f} s: "
            f"{records / seconds:,.0f} records/s, {size_text(self._bytes / seconds)}/s"
        )

    def report(self, topic: str, as_json: bool) -> None:
        if not as_json:
            click.echo(self._text())
            return
        seconds = max(monotonic() - self._started, 1e-6)
        records = self._producer.acknowledged
        print_json(
            {
                "topic": topic,
                "records": records,
                "bytes": self._bytes,
                "seconds": round(seconds, 3),
                "records_per_second": round(records / seconds),
                "bytes_per_second": round(self._bytes / seconds),
            }
        )
