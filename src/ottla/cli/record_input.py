"""How `ottla produce` reads records: a line each, as text or as JSON.

Rules kept here:
1. A line of text is a record's value, byte for byte, without its newline, with a key before it
   where there is a separator. What equals the null marker, as a key or as a value, is null: the
   only way to write a tombstone of a compacted topic.
2. A line of JSON is an object as `ottla consume --format json` prints it. Key and value are text,
   or base64 in `key_base64` and `value_base64`. A field that nobody knows is refused: it would be
   lost.
3. A line that cannot be read is a ValueError which says why ("has no key separator").
"""

import os
import select
import sys
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click

from ottla.cli.output import size_text

CHUNK = 256 * 1024
LONGEST_LINE = 100 * 1024 * 1024
STANDARD_INPUT = Path("-")
EARLIEST_TIME_MS, LATEST_TIME_MS = 0, 2**63 - 1


class BadLineError(Exception):
    """A line that cannot be a record."""


class ParsedLine(NamedTuple):
    """What a line says."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int | None


Parser = Callable[[bytes], ParsedLine]


def text_parser(key_separator: str | None, null_marker: str | None) -> Parser:
    """Reads lines of text."""
    separator = None if key_separator is None else _unescaped(key_separator)
    null = None if null_marker is None else os.fsencode(null_marker)

    def parse(line: bytes) -> ParsedLine:
        key: bytes | None = None
        value: bytes | None = line
        if separator is not None:
            key, found, value = line.partition(separator)
            if not found:
                raise ValueError(f"has no key separator '{key_separator}'")
        if null is not None:
            key = None if key == null else key
            value = None if value == null else value
        return ParsedLine(key, value, [], None)

    return parse


def json_parser() -> Parser:
    """Reads lines of JSON."""
    from msgspec import UNSET, DecodeError, Struct, UnsetType, ValidationError
    from msgspec.json import Decoder

    class Header(Struct, forbid_unknown_fields=True):
        key: str | UnsetType = UNSET
        key_base64: bytes | UnsetType = UNSET
        value: str | UnsetType | None = UNSET
        value_base64: bytes | UnsetType = UNSET

    class InputLine(Struct, forbid_unknown_fields=True):
        topic: str = ""
        partition: int = 0
        offset: int = 0
        timestamp: int | None = None
        key: str | UnsetType | None = UNSET
        key_base64: bytes | UnsetType = UNSET
        value: str | UnsetType | None = UNSET
        value_base64: bytes | UnsetType = UNSET
        headers: list[Header] = []

    decoder = Decoder(InputLine)

    def data(text: str | UnsetType | None, raw: bytes | UnsetType, name: str) -> bytes | None:
        if isinstance(raw, bytes):
            if not isinstance(text, UnsetType):
                raise ValueError(f"has both {name} and {name}_base64")
            return raw
        return None if isinstance(text, UnsetType) or text is None else text.encode()

    def parse(line: bytes) -> ParsedLine:
        try:
            found = decoder.decode(line)
        except ValidationError as problem:
            raise ValueError(
                f"is not a record as `ottla consume --format json` prints it: {problem}"
            ) from None
        except (DecodeError, UnicodeDecodeError, Base64Error) as problem:
            raise ValueError(f"is not JSON: {problem}") from None
        if found.timestamp is not None and not (
            EARLIEST_TIME_MS <= found.timestamp <= LATEST_TIME_MS
        ):
            raise ValueError(f"has an invalid timestamp: {found.timestamp}")
        headers = []
        for item in found.headers:
            name = data(item.key, item.key_base64, "key")
            if name is None:
                raise ValueError("has a header without a key")
            headers.append(
                (
                    name.decode("utf-8", "surrogateescape"),
                    data(item.value, item.value_base64, "value"),
                )
            )
        return ParsedLine(
            data(found.key, found.key_base64, "key"),
            data(found.value, found.value_base64, "value"),
            headers,
            found.timestamp,
        )

    return parse


def _unescaped(separator: str) -> bytes:
    if not separator:
        raise click.UsageError("--key-separator is empty.")
    return os.fsencode(separator.replace("\\t", "\t"))


def inputs(
    files: tuple[Path, ...], before_waiting: Callable[[], None]
) -> Iterator[tuple[str, Iterator[tuple[int, bytes]]]]:
    """The name of each file, and its lines."""
    for path in files or (STANDARD_INPUT,):
        if path == STANDARD_INPUT:
            name = "the standard input"
            yield name, read_lines(sys.stdin.fileno(), name, before_waiting)
            continue
        with path.open("rb") as file:
            yield str(path), read_lines(file.fileno(), str(path), before_waiting)


def read_lines(
    descriptor: int, name: str, before_waiting: Callable[[], None]
) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each line; `before_waiting` is called when a read would have to wait."""
    rest: list[bytes] = []  # of a line whose end has not come: joined once, however long it gets
    size = 0
    number = 0
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            before_waiting()
        try:
            chunk = os.read(descriptor, CHUNK)
        except OSError as problem:
            raise BadLineError(f"{name} cannot be read: {problem.strerror}") from None
        if not chunk:
            break
        first, *lines = chunk.split(b"\n")
        rest.append(first)
        size += len(first)
        if lines:
            number += 1
            yield number, b"".join(rest)
            last = lines.pop()
            for line in lines:
                number += 1
                yield number, line
            rest, size = [last], len(last)
        if size > LONGEST_LINE:
            raise BadLineError(
                f"line {number + 1} of {name} is longer than {size_text(LONGEST_LINE)}"
            )
    if size:
        yield number + 1, b"".join(rest)
