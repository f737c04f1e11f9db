"""`python -m faults`: faults at random for some minutes, and a table of how long they hurt.

The exit status is 1 if anything was found that must not be. Ctrl-C and SIGTERM end the faults; what
was written until then is checked all the same. With the same seed the same faults come in the same
order; what the processes make of them is their own.
"""

import random
import signal
import sys
import tempfile
import threading
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from faults.availability import histogram, quantile
from faults.plan import Kind
from faults.run import BOUND_SECONDS, Report, run

WIDTH = 120


@click.command()
@click.option("--minutes", type=float, default=60.0, show_default=True, help="How long to hurt.")
@click.option("--seed", type=int, help="Which sequence of faults; any by default.")
@click.option(
    "--store", type=click.Choice(["zookeeper", "sqlite"]), default="zookeeper", show_default=True
)
@click.option("--secure", is_flag=True, help="SASL_SSL between the brokers, and ACLs.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Where data and logs are while it runs, and afterwards if it failed.",
)
@click.option(
    "--only",
    type=click.Choice([kind.value for kind in Kind]),
    multiple=True,
    help="Only steps with this kind of fault; may be repeated.",
)
def main(
    minutes: float,
    seed: int | None,
    store: str,
    secure: bool,
    folder: Path | None,
    only: tuple[str, ...],
) -> None:
    """Hurt a cluster of three brokers under load, and see that nothing is lost."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    seed = random.randrange(1_000_000) if seed is None else seed
    where = folder or Path(tempfile.mkdtemp(prefix="ottla-faults-"))
    how = f"{store}, secure" if secure else store
    console.print(f"seed {seed}, {how}, {minutes:g} minutes, in {where}")

    def say(line: str) -> None:
        console.print(f"{datetime.now():%H:%M:%S} {line}", soft_wrap=True)

    kinds = [Kind(name) for name in only]
    stop = threading.Event()

    def on_signal(*_: object) -> None:
        if stop.is_set():
            sys.exit(1)  # and nothing is left running
        say("no more faults; what was written is checked (once more to end at once)")
        stop.set()

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, on_signal)
    report = run(
        where, seed, store, minutes * 60, say, is_enough=stop.is_set, only=kinds, secure=secure
    )
    show(report, console)
    sys.exit(0 if report.passed else 1)


def show(report: Report, console: Console) -> None:
    """Print what came of a run."""
    table = Table("fault", "times", "p50", "p90", "max", title="seconds without writes, by fault")
    for label, gaps in sorted(report.gaps.items()):
        ordered = sorted(gaps)
        shown = (quantile(ordered, 0.5), quantile(ordered, 0.9), ordered[-1])
        table.add_row(label, str(len(gaps)), *(f"{each:.2f}" for each in shown))
    console.print(table)
    console.print(
        f"(each fault counts once for each of the probed partitions; {report.faults} faults)"
    )
    for line in histogram(gap for gaps in report.gaps.values() for gap in gaps):
        console.print(line)
    console.print(
        f"bound after the death or silence of one: {BOUND_SECONDS:.1f} s; the machine stood still "
        f"for {report.stalled:.1f} s in all"
    )
    console.print(f"clients: {report.progress}")
    for error, times in report.errors.items():
        console.print(f"  {times:>5} x {error}")
    for finding in (*report.findings, *report.late):
        console.print(f"FOUND: {finding}", markup=False, soft_wrap=True)
    verdict = "passed" if report.passed else f"FAILED, kept in {report.folder}"
    console.print(f"{verdict} (seed {report.seed}, {report.store}, {report.minutes:.1f} minutes)")


if __name__ == "__main__":
    main()
