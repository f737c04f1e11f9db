"""The results for people and programs: a table in the terminal, JSON, and the page in docs/."""

from datetime import date
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.chart import svg
from bench.rows import Row

HEADINGS = ["work", "figure", "Kafka", "Ottla", "ratio", "wanted", "ok?", "note"]
NOT_QUIET = "The machine had other work to do during this run: do not quote these figures."
QUICK_IS_UNFAIR = (
    "A quick run is too short for the JVM to compile what it runs often: Kafka's CPU time for an "
    "unbatched message is up to three times that of a full run. Its ratios flatter Ottla."
)
METHOD = """\
Both brokers run on one machine in one run, each with its default settings, and take turns: after
warm-up rounds, every round measures Kafka, then Ottla. A figure is the median of its rounds. The
client is a small C program on librdkafka (`bench/client.c`); the work over partitions uses a
producer without a library (`bench/flood.py`), because librdkafka's own cost grows with their
number. CPU time is user and system time of the broker with all its processes, from `/proc`.
`limit: A | B` says what held Kafka | Ottla back: the *client* (its busiest thread was never idle),
the *broker* (it used a core or more), the *machine* (all cores were busy, with other work too), or
none of these, so that time went into *waiting*. The bench looks at the machine before each work,
while both brokers are at rest: what is busy then (below, "at rest") is other people's work, and the
more there is, the less the figures say.

Before a produce round the bench writes dirty pages back and makes sure that the kernel has as much
backed memory at hand as the round needs: in a virtual machine that returns memory to its host, the
first use of a page otherwise costs more than the broker's whole work on it.
"""


class Results(msgspec.Struct, frozen=True):
    """One whole run."""

    date: str
    machine: dict[str, str]
    quiet: bool
    rows: list[Row]
    failures: dict[str, str]


def show(results: Results, console: Console, names: tuple[str, str]) -> None:
    """The table in the terminal."""
    table = Table(title="Ottla and Apache Kafka, side by side")
    headings = [*HEADINGS[:2], *names, *HEADINGS[4:]]
    for heading in headings:
        right = heading in (*names, "ratio")
        table.add_column(heading, justify="right" if right else "left")
    above = ""
    for row in results.rows:
        style = {True: "green", False: "red", None: "dim"}[row.met]
        cells = row.cells()
        work = row.work if row.work != above else ""
        above = row.work
        table.add_row(work, row.figure, *cells[:-1], f"[{style}]{cells[-1]}[/]", row.note)
    console.print(table)
    for work, reason in results.failures.items():
        console.print(f"[red]not measured:[/] {work}: {reason}", highlight=False)
    if not results.quiet:
        console.print(f"[red]{NOT_QUIET}[/] ({results.machine['at rest']})", highlight=False)


def page(results: Results) -> str:
    """docs/bench.md: the table, how it was measured, and on what."""
    lines = [
        "# Ottla and Apache Kafka, side by side",
        "",
        f"`make bench` wrote this page on {results.date}. ![ratios](bench.svg)",
        "",
        *([] if results.quiet else [f"**{NOT_QUIET}**", ""]),
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
    ]
    for row in results.rows:
        cells = (row.work, row.figure, *row.cells(), row.note)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    missed = [f"{row.work}, {row.figure}" for row in results.rows if row.met is False]
    lines += ["", f"Falls short: {'; '.join(missed)}." if missed else "Every goal is met."]
    for work, reason in results.failures.items():
        lines += ["", f"Not measured: {work} ({reason})."]
    lines += ["", "## How it was measured", "", METHOD, "## The machine", ""]
    lines += [f"- {name}: {value}" for name, value in results.machine.items()]
    return "\n".join([*lines, ""])


def save(results: Results, path: Path) -> None:
    """Everything, every sample included, as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")


def write_docs(results: Results, docs: Path) -> None:
    """The page and its chart."""
    docs.mkdir(exist_ok=True)
    (docs / "bench.md").write_text(page(results))
    (docs / "bench.svg").write_text(svg(results.rows))


def today() -> str:
    """The date that the page carries."""
    return date.today().isoformat()
