"""The audit's counts as bars: in the terminal, or as a PNG. Pure.

For each topic and window a bar for what was produced, what is stored, and what each consumer got.
A bar of which something is missing has that part in red; what is only late is grey. In the terminal
those parts have other blocks as well: colours are lost in a pipe.
"""

from collections.abc import Sequence
from itertools import groupby

import click

from ottla.audit.check import Consumed, Row
from ottla.cli.output import time_text
from ottla.cli.png import GLYPH_HEIGHT, Canvas, Colour, text_width

WIDTH = 60
NARROWEST = 10
BESIDE_BARS = 26
"""Columns for the time, the spaces, and what rounding adds to a bar of three parts."""
EIGHTHS = " ▏▎▍▌▋▊▉"
FULL, MISSING, LATE = "█▒░"

BACKGROUND, INK, GRID, RED, GREY = range(5)
FIRST_TIER = 5
COLOURS: list[Colour] = [
    (255, 255, 255),
    (36, 41, 47),
    (225, 228, 232),
    (207, 34, 46),
    (175, 184, 193),
    (9, 105, 218),
    (45, 164, 78),
    (191, 135, 0),
    (130, 80, 223),
    (14, 138, 138),
    (188, 76, 0),
]
MARGIN = 60
PLOT_HEIGHT = 160
LEGEND_HEIGHT = 40
AXIS_HEIGHT = 30
GROUP_GAP = 8
MOST_WINDOWS = 400
LONGEST_BAR = 12
LABEL_EVERY = 70


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


# In the terminal --------------------------------------------------------------------------


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


# As a picture -----------------------------------------------------------------------------


def png_plot(rows: Sequence[Row]) -> bytes:
    """A panel for each topic, its windows from left to right; the last ones where they are many."""
    panels = [
        (topic, [(row, bars(row)) for row in grouped][-MOST_WINDOWS:])
        for topic, grouped in groupby(rows, key=lambda row: row.topic)
    ]
    widths = [len(windows) * _group_width(windows) for _, windows in panels]
    names = [_legend_width(windows) for _, windows in panels]
    width = max([*widths, *names, 400]) + 2 * MARGIN
    each = LEGEND_HEIGHT + PLOT_HEIGHT + AXIS_HEIGHT
    canvas = Canvas(width, max(each * len(panels), 1) + 10, COLOURS)
    for number, (topic, windows) in enumerate(panels):
        _panel(canvas, 10 + number * each, topic, windows)
    return canvas.encode()


def _bar_width(windows: Sequence[tuple[Row, list[Bar]]]) -> int:
    tiers = max(len(its_bars) for _, its_bars in windows)
    return max(1, min(LONGEST_BAR, 900 // (len(windows) * max(tiers, 1))))


def _group_width(windows: Sequence[tuple[Row, list[Bar]]]) -> int:
    return _bar_width(windows) * max(len(its_bars) for _, its_bars in windows) + GROUP_GAP


def _legend_width(windows: Sequence[tuple[Row, list[Bar]]]) -> int:
    return sum(text_width(bar.tier) + 30 for bar in windows[0][1]) + 200


def _panel(canvas: Canvas, top: int, topic: str, windows: Sequence[tuple[Row, list[Bar]]]) -> None:
    canvas.text(MARGIN, top, topic, INK, 2)
    _legend(canvas, top + 20, windows[0][1])
    base = top + LEGEND_HEIGHT + PLOT_HEIGHT
    longest = max((bar.length for _, its_bars in windows for bar in its_bars), default=0) or 1
    for quarter in range(5):
        y = base - PLOT_HEIGHT * quarter // 4
        canvas.rectangle(MARGIN, y, canvas.width - 2 * MARGIN, 1, GRID)
        label = _number(longest * quarter / 4)
        canvas.text(MARGIN - 6 - text_width(label), y - GLYPH_HEIGHT // 2, label, INK)
    width, group = _bar_width(windows), _group_width(windows)
    labelled = -LABEL_EVERY
    for place, (row, its_bars) in enumerate(windows):
        left = MARGIN + place * group + GROUP_GAP // 2
        for number, bar in enumerate(its_bars):
            _bar(canvas, left + number * width, base, width, bar, _colour(number), longest)
        if left - labelled >= LABEL_EVERY:
            labelled = left
            canvas.text(left, base + 6, time_text(row.window)[11:19], INK)
            canvas.text(left, base + 16, time_text(row.window)[:10], INK)


def _legend(canvas: Canvas, top: int, its_bars: Sequence[Bar]) -> None:
    left = MARGIN
    entries = [(bar.tier, _colour(number)) for number, bar in enumerate(its_bars)]
    for name, colour in (*entries, ("missing", RED), ("late", GREY)):
        canvas.rectangle(left, top, 8, GLYPH_HEIGHT, colour)
        canvas.text(left + 12, top, name, INK)
        left += 12 + text_width(name) + 18


def _bar(
    canvas: Canvas, left: int, base: int, width: int, bar: Bar, colour: int, longest: int
) -> None:
    bottom = base
    for count, shade in ((bar.count, colour), (bar.missing, RED), (bar.late, GREY)):
        if count:
            height = max(1, count * PLOT_HEIGHT // longest)
            canvas.rectangle(left, bottom - height, max(width - 1, 1), height, shade)
            bottom -= height


def _colour(number: int) -> int:
    return FIRST_TIER + number % (len(COLOURS) - FIRST_TIER)


def _number(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
