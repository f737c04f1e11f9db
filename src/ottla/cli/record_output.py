"""How `ottla consume` writes records: as text, as JSON lines, or by a template.

Rules kept here:
1. Text is a value on each line, with its key before it where a separator is asked for, byte for
   byte. On a terminal bytes that are not UTF-8 become replacement characters.
2. JSON is one object on each line. Bytes that are not UTF-8 are base64 in a field of their own:
   `value_base64` in place of `value`. `ottla produce --format json` reads these lines.
3. A template is text with fields in braces; nothing is added to it, no newline either. Keys and
   values are written byte for byte, null as nothing.
"""

import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.cli.output import Json, record_fields, time_text

if TYPE_CHECKING:
    from ottla.client.consumer import Batch
    from ottla.records import Record

Writer = Callable[["Sequence[Batch]"], bytes]

ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


class TemplateError(ValueError):
    """A template that cannot be used; the text says why."""


def write(data: bytes) -> None:
    """Write to standard output, at once."""
    if sys.stdout.isatty():
        data = data.decode("utf-8", "replace").encode()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def text_writer(separator: bytes | None) -> Writer:
    """A value on each line, perhaps with its key before it; null is nothing."""

    def line(record: "Record") -> bytes:
        value = record.value or b""
        return value if separator is None else (record.key or b"") + separator + value

    def written(batches: "Sequence[Batch]") -> bytes:
        return b"".join(line(item) + b"\n" for batch in batches for item in batch.records)

    return written


def json_writer() -> Writer:
    """An object on each line."""
    from msgspec import json

    encoder = json.Encoder()

    def written(batches: "Sequence[Batch]") -> bytes:
        return encoder.encode_lines(
            [
                json_record(batch.topic, batch.partition, item)
                for batch in batches
                for item in batch.records
            ]
        )

    return written


def json_record(topic: str, partition: int, record: "Record") -> dict[str, Json]:
    """A record as JSON output shows it."""
    return {"topic": topic, "partition": partition, **record_fields(record)}


FIELDS: "dict[str, Callable[[str, int, Record], bytes]]" = {
    "topic": lambda topic, _, __: topic.encode(),
    "partition": lambda _, partition, __: b"%d" % partition,
    "offset": lambda _, __, record: b"%d" % record.offset,
    "timestamp": lambda _, __, record: b"%d" % record.timestamp,
    "time": lambda _, __, record: time_text(record.timestamp).encode(),
    "key": lambda _, __, record: record.key or b"",
    "value": lambda _, __, record: record.value or b"",
    "headers": lambda _, __, record: b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (value or b"")
        for name, value in record.headers
    ),
}
"""What can stand in a template."""


def template_writer(template: str) -> Writer:
    """Each record by a template; TemplateError where it cannot be used."""
    pieces = _pieces(template)

    def written(batches: "Sequence[Batch]") -> bytes:
        return b"".join(
            piece if isinstance(piece, bytes) else piece(batch.topic, batch.partition, item)
            for batch in batches
            for item in batch.records
            for piece in pieces
        )

    return written


def _pieces(template: str) -> "list[bytes | Callable[[str, int, Record], bytes]]":
    found: list[bytes | Callable[[str, int, Record], bytes]] = []
    for part in re.split(r"(\{\{|\}\}|\{[^{}]*\}|\\[ntr0\\])", template):
        if part in ("{{", "}}"):
            found.append(part[:1].encode())
        elif part in ESCAPES:
            found.append(ESCAPES[part].encode())
        elif part.startswith("{") and part.endswith("}"):
            if part[1:-1] not in FIELDS:
                names = ", ".join(f"{{{name}}}" for name in FIELDS)
                raise TemplateError(f"there is no field {part}; there are {names}")
            found.append(FIELDS[part[1:-1]])
        elif "{" in part or "}" in part:
            raise TemplateError("write a literal brace twice: {{ or }}")
        elif part:
            found.append(part.encode("utf-8", "surrogateescape"))
    return found
