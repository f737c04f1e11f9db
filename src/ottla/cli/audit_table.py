"""The tables of `ottla audit`: what every tier has counted of a topic, by window.

Rules kept here:
1. A window is a line, with a column for each consumer. On a terminal that is too narrow for these,
   a window has a line for each tier instead.
2. Under the table it says between which tiers something is missing, doubled or late.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

import click

from ottla.cli.output import fits, print_table, time_text

if TYPE_CHECKING:
    from ottla.audit.check import AuditReport, Consumed, Row

UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
DIFFERENCES = ("missing", "duplicate", "late")


def show_report(report: "AuditReport", topic: str | None, since: int) -> None:
    """Print a table for each topic, what is missing between which tiers, and the notes."""
    if not report.rows:
        about = f" of topic {topic}" if topic else ""
        click.echo(f"nothing was counted{about} since {time_text(since)}")
    for name, grouped in groupby(report.rows, key=lambda row: row.topic):
        rows = list(grouped)
        click.echo(f"{name}  (windows of {duration_text(rows[0].window_ms)})")
        names = [_consumer_name(each) for each in rows[0].consumers]
        _print_windows(rows, names)
        for sentence in _findings(rows, names):
            click.echo(sentence)
        click.echo()
    for note in report.notes:
        click.echo(f"note: {note}")
    if report.rows:
        click.echo(f"{report.missing} missing" if report.missing else "nothing is missing")


def _print_windows(rows: "list[Row]", names: list[str]) -> None:
    titles = ("window", "produced", "stored", *names, *DIFFERENCES)
    lines = [
        (
            time_text(row.window),
            row.produced,
            row.stored,
            *(each.consumed for each in row.consumers),
            row.missing + sum(each.missing for each in row.consumers),
            row.duplicate + sum(each.duplicate for each in row.consumers),
            row.late + sum(each.late for each in row.consumers),
        )
        for row in rows
    ]
    if fits(titles, lines):
        print_table(titles, lines)
    else:
        by_tier = [line for row in rows for line in _by_tier(row, names)]
        print_table(("window and tier", "records", *DIFFERENCES), by_tier)


def _by_tier(row: "Row", names: list[str]) -> Iterator[tuple[object, ...]]:
    """A line for a window, and one below it for each tier that counts."""
    yield time_text(row.window), "", "", "", ""
    if row.produced is not None:
        yield "  produced", row.produced, 0, 0, 0
    if row.stored is not None:
        yield "  stored", row.stored, row.missing, row.duplicate, row.late
    for name, each in zip(names, row.consumers, strict=True):
        yield f"  {name}", each.consumed, each.missing, each.duplicate, each.late


def _findings(rows: "list[Row]", names: list[str]) -> list[str]:
    """Between which tiers something is missing, doubled or late."""
    source = "produced" if rows[0].stored is None else "stored"
    found = []
    if rows[0].produced is not None and rows[0].stored is not None:
        found.append(("produced", "stored", _totals(rows)))
    for place, name in enumerate(names):
        found.append((source, name, _totals([row.consumers[place] for row in rows])))
    return [
        f"{above} -> {below}: {', '.join(f'{n} {what}' for what, n in totals.items() if n)}"
        for above, below, totals in found
        if any(totals.values())
    ]


def _totals(parts: "list[Row] | list[Consumed]") -> dict[str, int]:
    return {
        "missing": sum(each.missing for each in parts),
        "duplicate": sum(each.duplicate for each in parts),
        "late": sum(each.late for each in parts),
    }


def _consumer_name(consumer: "Consumed") -> str:
    return consumer.name if consumer.tier == "consumer" else f"{consumer.name} ({consumer.tier})"


def duration_text(milliseconds: int) -> str:
    """A length of time as it is written in an option."""
    for unit, length in reversed(UNITS.items()):
        if milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms"
