"""The audit's counts as bars in the terminal. Pure; `audit_picture` draws the same to a file.

For each topic and window a bar for what was produced, what is stored, and what each consumer got.
A bar of which something is missing has that part in red; what is only late is grey. In the terminal
those parts have other blocks as well: colours are lost in a pipe.
"""

from collections.abc import Sequence
from itertools import groupby

import click

from ottla.audit.check import Consumed, Row
from ottla.cli.output import time_text

WIDTH = 60
NARROWEST = 10
BESIDE_BARS = 26
"""Columns for the time, the spaces, and what rounding adds to a bar of three parts."""
EIGHTHS = " ▏▎▍▌▋▊▉"
FULL, MISSING, LATE = "█▒░"


class Bar:
    """One tier's part of a window."""

    def __init__(self, tier: str, count: int, missing: int = 0, late: int = 0) -> None:
        self.tier = tier
        self.count = count
        self.missing = missing
        self.late = late

    @property
    def length(self) -> int:
        """With what should be there."""
        return self.count + self.missing + self.late


def bars(row: Row) -> list[Bar]:
    """The bars of a window."""
    found = []
    if row.produced is not None:
        found.append(Bar("produced", row.produced))
    if row.stored is not None:
        found.append(Bar("stored", row.stored, row.missing, row.late))
    return found + [_consumer(each) for each in row.consumers]


def _consumer(consumed: Consumed) -> Bar:
    return Bar(consumed.name, consumed.consumed, consumed.missing, consumed.late)


def terminal_plot(rows: Sequence[Row], columns: int | None = None) -> str:
    """Horizontal bars, as long as the counts; shorter where a terminal has few columns."""
    lines: list[str] = []
    for topic, grouped in groupby(rows, key=lambda row: row.topic):
        its_rows = [(row, bars(row)) for row in grouped]
        all_bars = [bar for _, its_bars in its_rows for bar in its_bars]
        longest = max((bar.length for bar in all_bars), default=0)
        names = max((len(bar.tier) for bar in all_bars), default=0)
        numbers = max((len(_numbers(bar)) for bar in all_bars), default=0)
        room = WIDTH if columns is None else columns - names - numbers - BESIDE_BARS
        width = max(NARROWEST, min(WIDTH, room))
        lines.append(topic)
        for row, its_bars in its_rows:
            label = time_text(row.window)
            for bar in its_bars:
                line = f"{_blocks(bar, longest, width)} {_numbers(bar)}"
                lines.append(f"{label:20} {bar.tier:{names}} {line}".rstrip())
                label = ""
        lines.append("")
    return "\n".join(lines).rstrip()


def _numbers(bar: Bar) -> str:
    parts = ((bar.missing, "missing"), (bar.late, "late"))
    return str(bar.count) + "".join(f", {count} {what}" for count, what in parts if count)


def _blocks(bar: Bar, longest: int, width: int) -> str:
    """Whatever there is of a part, it has a block."""
    line = ""
    if bar.count:
        eighths = max(1, round(bar.count * width * 8 / longest))
        line = FULL * (eighths // 8) + EIGHTHS[eighths % 8].strip()
    for count, block, colour in ((bar.missing, MISSING, "red"), (bar.late, LATE, "bright_black")):
        if count:
            line += click.style(block * max(1, round(count * width / longest)), fg=colour)
    return line
