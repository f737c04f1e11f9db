"""`ottla simulate`: runs a whole cluster in a simulation, seed after seed, and shows what breaks.

Rules kept here:
1. A failing seed is shown with what it broke, the faults that are needed for it, and the command
   that runs it again with its trace.
2. Progress is shown while it runs: seeds, rate, faults, failures.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator

import click

from ottla.cli.output import print_table

FIRST_LINES = 12
PROGRESS_SECONDS = 2.0


@click.command("simulate")
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="How many seeds to run.")
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), metavar="M", help="For how long to run."
)
@click.option("--first", type=click.IntRange(0), default=0, metavar="SEED", help="The first seed.")
@click.option("--seed", type=click.IntRange(0), metavar="SEED", help="Run this seed alone.")
@click.option("--trace", is_flag=True, help="With --seed: print all that happens.")
@click.option(
    "--without",
    default="",
    metavar="NUMBERS",
    help="With --seed: leave out faults, by their numbers in the trace (like 1,4-7).",
)
@click.option(
    "--shrink/--no-shrink",
    default=True,
    help="Look for the fewest faults with which a seed still fails (the default).",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    show_default=True,
    metavar="N",
    help="How many seeds to run at once.",
)
@click.option("--mutation", metavar="NAME", help="Break the code on purpose; 'list' shows how.")
def command(
    seeds: int | None,
    minutes: float | None,
    first: int,
    seed: int | None,
    trace: bool,
    without: str,
    shrink: bool,
    processes: int,
    mutation: str | None,
) -> None:
    """Run a cluster of real brokers in a simulated world, and look for broken promises.

    Network, disks, clocks, ZooKeeper and faults are simulated from a seed; the brokers are the
    code that `ottla serve` runs. The same seed does the same, so what fails can be looked at again.

    \b
    Example:
      ottla simulate --minutes 5
      ottla simulate --seed 4711 --trace
    """
    from ottla.simulation.seeds import ensure_fixed_hashes

    ensure_fixed_hashes(["-m", "ottla", *sys.argv[1:]])
    from ottla.simulation.mutations import MUTATIONS, find

    if mutation == "list":
        rows = [(each.name, each.what) for each in MUTATIONS]
        print_table(("mutation", "what it breaks"), rows)
        return
    try:
        broken = None if mutation is None else find(mutation)
    except KeyError:
        raise click.UsageError(f"no mutation {mutation!r}; see --mutation list") from None
    prepare = None if broken is None else broken.apply
    if seed is not None:
        _run_one(seed, trace=trace, without=_numbers(without), prepare=prepare)
        return
    from ottla.simulation.report import Runner

    last = None if seeds is None else first + seeds
    if seeds is None and minutes is None:
        minutes = 1.0
    every = itertools.count(first) if last is None else iter(range(first, last))
    runner = Runner(processes, prepare, shrink=shrink)
    runner.run(_until(every, minutes))
    if runner.failed:
        raise click.exceptions.Exit(1)


def _until(seeds: Iterator[int], minutes: float | None) -> Iterator[int]:
    """Seeds, as long as there is time."""
    deadline = None if minutes is None else time.monotonic() + minutes * 60
    for seed in seeds:
        if deadline is not None and time.monotonic() > deadline:
            return
        yield seed


def _run_one(seed: int, *, trace: bool, without: frozenset[int], prepare: object) -> None:
    from ottla.simulation.run import run_seed

    if callable(prepare):
        prepare()
    outcome = run_seed(seed, click.echo if trace else None, without)
    click.echo(
        f"seed {seed}: {outcome.seconds:.1f} simulated seconds, {outcome.turns} turns, "
        f"trace {outcome.digest}"
    )
    for what, count in sorted(outcome.counts.items()):
        click.echo(f"  {what}: {count}")
    if outcome.violation is not None:
        click.echo(f"broken: {outcome.violation}")
        raise click.exceptions.Exit(1)


def _numbers(text: str) -> frozenset[int]:
    """1,4-7 as a set."""
    found: set[int] = set()
    try:
        for part in filter(None, text.split(",")):
            low, dash, high = part.partition("-")
            found.update(range(int(low), int(high if dash else low) + 1))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not like 1,4-7", param_hint="--without") from None
    return frozenset(found)
