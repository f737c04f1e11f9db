"""A bar chart of the ratios, as SVG. Pure.

One bar for each row that is judged by its ratio, on a logarithmic axis around 1 (as Kafka), with
a mark where the goal lies. Colours follow the reader's light or dark setting; met and missed
differ by a word as well as by colour.
"""

from html import escape
from math import floor, log10

from bench.rows import Row

WIDTH = 860
LABELS = 370  # where the plot begins
PLOT = 360
TOP = 56
LINE = 30
BAR = 16

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600; font-size: 15px }
  .small { font-size: 11px; fill: #57606a }
  .grid { stroke: #d0d7de }
  .one { stroke: #57606a; stroke-width: 1.5 }
  .met { fill: #2da44e }
  .missed { fill: #cf222e }
  .goal { stroke: #24292f; stroke-width: 2.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .small { fill: #9198a1 }
    .grid { stroke: #3d444d }
    .one { stroke: #9198a1 }
    .met { fill: #3fb950 }
    .missed { fill: #f85149 }
    .goal { stroke: #e6edf3 }
  }
"""


def goal_ratio(row: Row) -> float | None:
    """Where a row's goal lies on the axis, if it is about the ratio."""
    if row.goal.ratio_at_least is not None:
        return row.goal.ratio_at_least
    return row.goal.ratio_at_most


def svg(rows: list[Row]) -> str:
    """The chart of all rows that have a ratio and a goal for it."""
    bars = [(row, goal) for row in rows if row.measured and (goal := goal_ratio(row)) is not None]
    values = [1.0, *(value for row, goal in bars for value in (row.ratio, goal) if value > 0)]
    low = floor(log10(min(values)))
    high = max(floor(log10(max(values))) + 1, low + 1)

    def x(value: float) -> float:
        position = (log10(value) - low) / (high - low) if value > 0 else 0
        return LABELS + PLOT * min(max(position, 0), 1)

    bottom = TOP + LINE * len(bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 34}" '
        f'width="{WIDTH}" height="{bottom + 34}" role="img">',
        "<title>Ottla as a multiple of Apache Kafka</title>",
        f"<style>{STYLE}</style>",
        '<text class="title" x="12" y="22">Ottla as a multiple of Apache Kafka</text>',
        '<text class="small" x="12" y="40">logarithmic; | marks the goal</text>',
    ]
    for power in range(low, high + 1):
        at = x(10.0**power)
        parts.append(
            f'<line class="grid" x1="{at:.1f}" y1="{TOP - 6}" x2="{at:.1f}" y2="{bottom}"/>'
            f'<text class="small" x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">'
            f"{10.0**power:g} ×</text>"
        )
    for number, (row, goal) in enumerate(bars):
        parts.append(_bar(row, x(1.0), x(row.ratio), x(goal), TOP + LINE * number))
    parts.append(
        f'<line class="one" x1="{x(1):.1f}" y1="{TOP - 6}" x2="{x(1):.1f}" y2="{bottom}"/>'
    )
    return "\n".join([*parts, "</svg>", ""])


def _bar(row: Row, one: float, end: float, goal: float, y: int) -> str:
    kind = "met" if row.met else "missed"
    left, width = min(one, end), max(abs(end - one), 1)
    label = escape(f"{row.work}: {row.figure}")
    value = f"{row.ratio:.2f} ×" + ("" if row.met else " missed")
    return (
        f'<text x="{LABELS - 10}" y="{y + 13}" text-anchor="end">{label}</text>'
        f'<rect class="{kind}" x="{left:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>'
        f'<line class="goal" x1="{goal:.1f}" y1="{y - 4}" x2="{goal:.1f}" y2="{y + BAR + 4}"/>'
        f'<text x="{LABELS + PLOT + 10}" y="{y + 13}">{value}</text>'
    )
