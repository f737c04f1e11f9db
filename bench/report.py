"""The results for people and programs: a table in the terminal, JSON, and the page in docs/."""

from datetime import date
from itertools import chain
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.chart import svg
from bench.rows import Row

HEADINGS = ["work", "figure", "Kafka", "Ottla", "ratio", "wanted", "ok?", "note"]
NOT_QUIET = "The machine had other work to do meanwhile: do not quote the figures of"
QUICK_IS_UNFAIR = (
    "A quick run is too short for the JVM to compile what it runs often: Kafka's CPU time for an "
    "unbatched message is up to three times that of a full run. Its ratios flatter Ottla."
)
SAMPLES = "bench.json"
METHOD = """\
Both brokers run on one machine in one run, each with its default settings, and take turns: after
warm-up rounds, every round measures Kafka, then Ottla. A figure is the median of its rounds. The
client is a small C program on librdkafka (`bench/client.c`); the work over partitions uses a
producer without a library (`bench/flood.py`), because librdkafka's own cost grows with their
number, and two brokers of each kind, one with few partitions and one with many, that are written to
in turn. CPU time is user and system time of the broker with all its processes, from `/proc`.
`limit: A | B` says what held Kafka | Ottla back: the *client* (its busiest thread was never idle),
the *broker* (it used a core or more), the *machine* (all cores were busy, with other work too), or
none of these, so that time went into *waiting*. The bench looks at the machine before each work,
while both brokers are at rest: what is busy then (below, "at rest") is other people's work, and the
more there is, the less the figures say. So does CPU time that a virtual machine wanted during a
work and that its host gave to others ("stolen").

Before a produce round the bench writes dirty pages back and makes sure that the kernel has as much
backed memory at hand as the round needs: in a virtual machine that returns memory to its host, the
first use of a page otherwise costs more than the broker's whole work on it. In the work over
partitions it also reads the last page of every log: a machine may have dropped those that nobody
used for a minute, and each would then be read from the disk before the next batch is written.

The rows of three brokers are `ottla serve --workers 3` beside three KRaft nodes that are broker and
controller together, each with its defaults; all six share the machine with the client. CPU time and
memory are those of the three together. A failover is timed from the kill -9 until a librdkafka
producer has an acknowledgement (acks=all) from every partition that the dead broker led. Kafka's
controller notices a death by `broker.session.timeout.ms` (9 s), Ottla's supervisor when its child
ends; over ZooKeeper it would be the session's timeout as well.
"""


class Measured(msgspec.Struct, frozen=True):
    """One work: when, on what, and what was found."""

    date: str
    machine: dict[str, str]
    quiet: bool
    rows: list[Row]


class Results(msgspec.Struct, frozen=True):
    """All works, in the order of the table, and why some have no figures."""

    works: dict[str, Measured]
    failures: dict[str, str]

    @property
    def rows(self) -> list[Row]:
        """The table."""
        return [row for work in self.works.values() for row in work.rows]

    @property
    def not_quiet(self) -> list[str]:
        """Works that were measured beside other work."""
        return [name for name, work in self.works.items() if not work.quiet]


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
    if results.not_quiet:
        console.print(f"[red]{NOT_QUIET}[/] {', '.join(results.not_quiet)}", highlight=False)


def page(results: Results) -> str:
    """docs/bench.md: the table, how it was measured, and on what."""
    lines = [
        "# Ottla and Apache Kafka, side by side",
        "",
        "`make bench` writes this page, and every sample into `bench.json`. ![ratios](bench.svg)",
        "",
        *([f"**{NOT_QUIET} {', '.join(results.not_quiet)}.**", ""] if results.not_quiet else []),
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
    lines += _machine(results)
    return "\n".join([*lines, ""])


def _machine(results: Results) -> list[str]:
    """What all works have in common once, and the rest by work."""
    described = [work.machine for work in results.works.values()]
    common = {
        name: value
        for name, value in (described[0] if described else {}).items()
        if all(each.get(name) == value for each in described)
    }
    lines = [f"- {name}: {value}" for name, value in common.items()]
    own = [name for name in dict.fromkeys(chain(*described)) if name not in common]
    columns = ["work", "date", *own]
    lines += ["", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for name, work in results.works.items():
        values = [work.machine.get(each, "") for each in own]
        lines.append("| " + " | ".join([name, work.date, *values]) + " |")
    return lines


def save(results: Results, path: Path) -> None:
    """Everything, every sample included, as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")


def load(path: Path) -> Results:
    """What an earlier run has saved."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def write_docs(results: Results, docs: Path) -> None:
    """The page, its chart, and what both were made from."""
    docs.mkdir(exist_ok=True)
    save(results, docs / SAMPLES)
    (docs / "bench.md").write_text(page(results))
    (docs / "bench.svg").write_text(svg(results.rows))


def today() -> str:
    """The date that the page carries."""
    return date.today().isoformat()
