"""`ottla audit`: what every tier has counted of each topic and window, and what is missing."""

import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from ottla.cli.audit_table import UNITS, show_report
from ottla.cli.failures import AnsweringCommand
from ottla.cli.options import bootstrap_option, connect, json_option, timestamp_ms
from ottla.cli.output import Json, print_json
from ottla.extras import install_command

if TYPE_CHECKING:
    from ottla.audit.check import AuditReport, Row
    from ottla.audit.events import Event
    from ottla.client import Client

IN_THE_TERMINAL = "-"
PICTURES = ("png", "svg")
MISSING = 1
INTERNAL_PREFIX = "__"


def duration_ms(text: str) -> int:
    """A length of time in milliseconds: `90s`, `5m`, `1h` or `2d`."""
    found = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if found is None or int(found[1]) == 0:
        raise click.BadParameter(f"{text!r} is not a length of time like 90s, 5m, 1h or 2d")
    return int(found[1]) * UNITS[found[2]]


def since_ms(text: str) -> int:
    """A point in time in milliseconds; `1h` means an hour ago."""
    try:
        return timestamp_ms(text)
    except ValueError as problem:
        try:
            return time.time_ns() // 1_000_000 - duration_ms(text)
        except click.BadParameter as other:
            raise click.BadParameter(f"{other.message}, nor {problem}") from None


@click.command("audit", cls=AnsweringCommand)
@click.argument("topic", required=False)
@click.option(
    "--since",
    callback=lambda _, __, text: since_ms(text),
    default="1h",
    show_default=True,
    metavar="TIME",
    help=(
        "Show windows that start at or after this time: a duration ago (1h), or a time "
        "(2026-01-31T12:00:00Z)."
    ),
)
@click.option(
    "--window",
    "window_ms",
    callback=lambda _, __, text: duration_ms(text),
    default="1s",
    metavar="LENGTH",
    help="Aggregate into longer windows: 5m, 1h, 1d.",
)
@click.option(
    "--plot",
    is_flag=False,
    flag_value=IN_THE_TERMINAL,
    metavar="[FILE]",
    help="Plot the counts in the terminal, or to a .png or .svg file.",
)
@click.option("--internal", is_flag=True, help="Include internal topics (__...).")
@bootstrap_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    topic: str | None,
    since: int,
    window_ms: int,
    plot: str | None,
    internal: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Show what was produced, stored and consumed, by topic and time window, and what is missing.

    Brokers count with ottla.audit.enable=true, clients with the wrappers of ottla.audit, Spark with
    its option audit=true. Records that have not reached a tier yet are late, not missing. The exit
    status is 1 if records are missing, and 2 if that is not known.

    \b
    Examples:
      ottla audit
      ottla audit orders --since 1h --plot
      ottla audit orders --since 1d --window 1h --plot orders.png
    """
    from ottla.audit.check import check

    draw = None if plot is None or plot == IN_THE_TERMINAL else _drawing(plot)
    with connect(bootstrap) as client:
        events, unreadable = read_events(client, since)
        if topic is not None and all(event.topic != topic for event in events):
            _check_topic(client, topic)
    if topic is None and not internal:
        events = [event for event in events if not event.topic.startswith(INTERNAL_PREFIX)]
    now = time.time_ns() // 1_000_000
    report = check(events, now=now, since=since, topic=topic, window_ms=window_ms)
    if unreadable:
        report.notes.append(f"{unreadable} records of the audit topic are not audit events")
    if as_json:
        print_json(_document(report))
    elif plot == IN_THE_TERMINAL:
        from ottla.cli.audit_plot import terminal_plot

        columns = get_terminal_size().columns if sys.stdout.isatty() else None
        click.echo(terminal_plot(report.rows, columns))
    else:
        show_report(report, topic, since)
    if plot is not None and draw is not None:
        with click.open_file(plot, "wb") as file:
            file.write(draw(report.rows))
    if report.missing:
        ctx.exit(MISSING)


def _drawing(file_name: str) -> "Callable[[Sequence[Row]], bytes]":
    """What draws to a file of this name; checked before the audit is read."""
    file_format = file_name.rpartition(".")[2]
    if file_format not in PICTURES:
        raise click.UsageError(f"--plot {file_name}: the file name must end with .png or .svg.")
    try:
        from ottla.cli.audit_picture import picture
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        raise click.ClickException(
            f"--plot {file_name} needs the package {package}: {install_command('plot')}"
        ) from None
    return partial(picture, file_format=file_format)


def _check_topic(client: "Client", topic: str) -> None:
    """Refuse a topic that is not there: a misspelt name would never miss anything."""
    from ottla.client.admin import Admin
    from ottla.client.cluster import UnknownTopic

    try:
        Admin(client).partitions(topic)
    except UnknownTopic:
        raise click.ClickException(
            f"there is no topic {topic}, and nothing was counted of it"
        ) from None


def read_events(client: "Client", since: int) -> "tuple[list[Event], int]":
    """The events since a time and somewhat before, and how many records were none."""
    from ottla.audit.events import AUDIT_TOPIC
    from ottla.client import audit_events
    from ottla.client.cluster import UnknownTopic

    try:
        return audit_events.read_events(client, since)
    except UnknownTopic:
        raise click.ClickException(
            f"there is no topic {AUDIT_TOPIC}: nothing was counted yet (start brokers with "
            "--set ottla.audit.enable=true; they report every ottla.audit.interval.ms)"
        ) from None


def _document(report: "AuditReport") -> Json:
    return {
        "missing": report.missing,
        "lost": report.lost,
        "notes": list(report.notes),
        "windows": [
            {
                "topic": row.topic,
                "window": row.window,
                "window_ms": row.window_ms,
                "produced": row.produced,
                "stored": row.stored,
                "missing": row.missing,
                "duplicate": row.duplicate,
                "late": row.late,
                "consumers": [
                    {
                        "tier": each.tier,
                        "name": each.name,
                        "consumed": each.consumed,
                        "missing": each.missing,
                        "duplicate": each.duplicate,
                        "late": each.late,
                    }
                    for each in row.consumers
                ],
            }
            for row in report.rows
        ],
    }
