"""Run seeds: `python -m tests.simulation --minutes 2`, or one again: `--seed 7 --trace`."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, repeat

from .broker import SimulatedBroker
from .mutations import MUTATIONS
from .run import Summary, simulate
from .world import Violation

SEEDS_AT_ONCE = 50


def kind_of(broken: str | None) -> type[SimulatedBroker]:
    """Brokers that keep all rules, or that do not."""
    return SimulatedBroker if broken is None else MUTATIONS[broken]


def run_some(seeds: list[int], broken: str | None) -> tuple[list[Summary], list[tuple[int, str]]]:
    """Run seeds; what they saw, and those that failed."""
    summaries, failed = [], []
    for seed in seeds:
        try:
            summaries.append(simulate(seed, broker_kind=kind_of(broken)))
        except Violation as violation:
            failed.append((seed, str(violation)))
        except Exception as problem:  # noqa: BLE001 a crash of the code under test is a finding
            failed.append((seed, repr(problem)))
    return summaries, failed


def batches(first: int, last: int | None, deadline: float) -> Iterator[list[int]]:
    """Seeds to run, while there is time."""
    while time.monotonic() < deadline and (last is None or first < last):
        end = first + SEEDS_AT_ONCE if last is None else min(last, first + SEEDS_AT_ONCE)
        yield list(range(first, end))
        first = end


def main() -> int:
    """Parse, run, report; 1 where a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--trace", action="store_true", help="print every step of it")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, help="how many seeds")
    parser.add_argument("--minutes", type=float, default=1.0, help="for how long at most")
    parser.add_argument("--broken", help="let brokers break a rule, by its name in mutations.py")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.seed is not None:
        print(simulate(options.seed, trace=options.trace, broker_kind=kind_of(options.broken)))
        return 0
    began = time.monotonic()
    last = None if options.seeds is None else options.first + options.seeds
    work = batches(options.first, last, began + options.minutes * 60)
    total, steps, acknowledged, failures = 0, 0, 0, []
    with ProcessPoolExecutor(options.processes) as pool:
        while some := list(islice(work, options.processes * 2)):
            for summaries, failed in pool.map(run_some, some, repeat(options.broken)):
                total += len(summaries) + len(failed)
                steps += sum(one.steps for one in summaries)
                acknowledged += sum(one.acknowledged for one in summaries)
                failures += failed
    for seed, what in failures[:20]:
        print(f"seed {seed} fails: {what}")
    took = time.monotonic() - began
    print(
        f"{total} seeds, {len(failures)} failed, {steps} steps, {acknowledged} acks=all records "
        f"acknowledged, {took:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
