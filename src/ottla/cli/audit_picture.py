"""The audit's counts as a picture, drawn by matplotlib (the extra `plot`).

A panel for each topic, its windows from left to right; in each window a bar for each tier, with
what is missing in red and what is late in grey on top of it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter

from ottla.audit.check import Row
from ottla.cli.audit_plot import bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_WINDOWS = 400
PANEL_INCHES = (10.0, 2.8)
SHARE_OF_WINDOW = 0.8
MS_IN_A_DAY = 86_400_000
MISSING, LATE = "#cf222e", "#afb8c1"
TIERS = ("#0969da", "#2da44e", "#bf8700", "#8250df", "#0e8a8a", "#bc4c00")


def picture(rows: Sequence[Row], file_format: str) -> bytes:
    """The picture as a file: "png" or "svg". Of a topic with many windows, the last ones."""
    panels = [
        (topic, list(its_rows)[-MOST_WINDOWS:])
        for topic, its_rows in groupby(rows, key=lambda row: row.topic)
    ]
    width, height = PANEL_INCHES
    figure = Figure(figsize=(width, height * max(len(panels), 1)), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    for number, (topic, its_rows) in enumerate(panels):
        _panel(figure.add_subplot(len(panels), 1, number + 1), topic, its_rows)
    file = BytesIO()
    figure.savefig(file, format=file_format)
    return file.getvalue()


def _panel(axes: "Axes", topic: str, rows: Sequence[Row]) -> None:
    tiers = list(dict.fromkeys(bar.tier for row in rows for bar in bars(row)))
    window = rows[0].window_ms / MS_IN_A_DAY * SHARE_OF_WINDOW
    width = window / max(len(tiers), 1)
    handles: list[Any] = []
    for place, tier in enumerate(tiers):
        found = [(row, bar) for row in rows for bar in bars(row) if bar.tier == tier]
        left = [_day(row.window) + place * width for row, _ in found]
        counts = [bar.count for _, bar in found]
        missing = [bar.missing for _, bar in found]
        late = [bar.late for _, bar in found]
        there = [count + lost for count, lost in zip(counts, missing, strict=True)]
        handles.append(axes.bar(left, counts, width, align="edge", color=TIERS[place % len(TIERS)]))
        axes.bar(left, missing, width, bottom=counts, align="edge", color=MISSING)
        axes.bar(left, late, width, bottom=there, align="edge", color=LATE)
    handles += [Patch(color=MISSING), Patch(color=LATE)]
    axes.set_title(topic, loc="left", parse_math=False)
    axes.set_ylabel("records")
    axes.yaxis.set_major_formatter(EngFormatter())
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.4)
    axes.set_axisbelow(True)
    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    _legend(axes, handles, [*tiers, "missing", "late"])


def _legend(axes: "Axes", handles: Sequence[Any], names: Sequence[str]) -> None:
    """Names as they are: matplotlib hides labels with an underscore, and reads $ as mathematics."""
    legend = axes.legend(
        handles,
        ["x"] * len(handles),
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        fontsize="small",
        frameon=False,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)


def _day(ms: int) -> float:
    return float(date2num(datetime.fromtimestamp(ms / 1000, UTC)))
