"""What the commands print: tables for people, JSON for programs.

Rules kept here:
1. A table in a pipe is as wide as its content: nothing is cut or wrapped there. On a terminal cells
   are folded at spaces; where that is not enough, inside of long words (names, lists). A table that
   is still too wide is left so. Rich lays out titles and what is folded; for thousands of rows that
   are not, it would take seconds, and they look the same without it.
2. With NO_COLOR set, nothing but the text is printed: no colours, nothing bold.
3. Bytes that are not UTF-8 are shown with replacement characters in text, and as base64 in JSON,
   in a field of their own: `value_base64` in place of `value`.
"""

import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import JustifyMethod

    from ottla.records import Record

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

ANY_WIDTH = 100_000
GAP = 3
"""What stands between two columns."""
LONG_WORD = 20


def print_json(document: Json) -> None:
    """One JSON document, indented."""
    from msgspec import json

    click.echo(json.format(json.encode(document), indent=2).decode())


def fits(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> bool:
    """Whether a table would be as wide as the terminal at most; in a pipe every table fits."""
    from rich.console import Console

    if not sys.stdout.isatty():
        return True
    texts = [[_text(cell) for cell in row] for row in rows]
    available = Console().width
    widths = column_widths([*zip(columns, *texts, strict=True)], available)
    return sum(widths) + GAP * (len(widths) - 1) <= available


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table; columns that hold only numbers are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    texts = [[_text(cell) for cell in row] for row in rows]
    console = Console(width=None if sys.stdout.isatty() else ANY_WIDTH, highlight=False)
    widths = column_widths([*zip(columns, *texts, strict=True)], console.width)
    console.width = max(console.width, sum(widths) + GAP * len(widths))
    numeric = [_is_numeric([row[number] for row in rows]) for number in range(len(columns))]

    def laid_out(lines: Sequence[Sequence[str]], *, titles: bool) -> list[str]:
        table = Table(
            box=SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            show_header=titles,
            header_style="none" if console.no_color else "table.header",
        )
        for title, right, width in zip(columns, numeric, widths, strict=True):
            justify: JustifyMethod = "right" if right else "left"
            table.add_column(title, justify=justify, overflow="fold", width=width)
        for line in lines:
            table.add_row(*map(Text, line))
        with console.capture() as captured:
            console.print(table)
        return [printed.rstrip() for printed in captured.get().splitlines()]

    printed = laid_out([], titles=True)
    for plain, lines in groupby(texts, key=lambda line: _is_plain(line, widths)):
        if plain:
            printed += [_plain_line(line, widths, numeric) for line in lines]
        else:
            printed += laid_out([*lines], titles=False)
    click.echo("\n".join(printed))


def _text(cell: object) -> str:
    return "-" if cell is None else str(cell)


def _is_numeric(column: Sequence[object]) -> bool:
    cells = [cell for cell in column if cell not in (None, "")]
    return bool(cells) and all(isinstance(cell, int) for cell in cells)


def _is_plain(cells: Sequence[str], widths: Sequence[int]) -> bool:
    """True where no cell of a row is folded, and every character is one wide."""
    return all(
        len(cell) <= width and cell.isascii() and cell.isprintable()
        for cell, width in zip(cells, widths, strict=True)
    )


def _plain_line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    ]
    return (" " * GAP).join(padded).rstrip()


def column_widths(columns: Sequence[Sequence[str]], available: int) -> list[int]:
    """How wide each column is, given its cells, in a line of this many characters."""
    from rich.cells import cell_len

    left = available - GAP * (len(columns) - 1)
    widths = [max(map(cell_len, cells)) for cells in columns]
    if sum(widths) <= left:
        return widths
    for longest in (ANY_WIDTH, LONG_WORD):
        least = []
        for title, *cells in columns:
            words = [cell_len(word) for cell in cells for word in cell.split(" ")]
            in_title = max(map(cell_len, title.split(" ")))
            least.append(max(in_title, min(max(words, default=0), longest)))
        while sum(widths) > left:
            wide = [at for at, width in enumerate(widths) if width > least[at]]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def put_bytes(target: dict[str, Json], name: str, data: bytes | None) -> None:
    """Add a field with text where the bytes are UTF-8, else one with base64."""
    if data is None:
        target[name] = None
        return
    try:
        target[name] = data.decode()
    except UnicodeDecodeError:
        from base64 import b64encode

        target[f"{name}_base64"] = b64encode(data).decode()


def record_fields(record: "Record") -> dict[str, Json]:
    """What is in a record: offset, timestamp, key, value, headers."""
    shown: dict[str, Json] = {"offset": record.offset, "timestamp": record.timestamp}
    put_bytes(shown, "key", record.key)
    put_bytes(shown, "value", record.value)
    headers: list[Json] = []
    for name, value in record.headers:
        header: dict[str, Json] = {}
        put_bytes(header, "key", name.encode("utf-8", "surrogateescape"))
        put_bytes(header, "value", value)
        headers.append(header)
    shown["headers"] = headers
    return shown


def time_text(milliseconds: int) -> str:
    """A point in time for people: UTC, to the second. Producers may send any number as one."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds}ms"


def size_text(size: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
