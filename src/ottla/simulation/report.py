"""Runs seeds, shows progress, and reports what failed with the faults that it takes.

Rules kept here:
1. One line of progress, rewritten on a terminal, written now and then elsewhere.
2. At the end there is a table of the faults that were tried and of what clients did.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Final

from ottla.simulation.run import Outcome
from ottla.simulation.seeds import run_seeds
from ottla.simulation.shrink import shrunk

PROGRESS_SECONDS: Final = 2.0
PROGRESS_SECONDS_IN_A_FILE: Final = 30.0
MOST_SHRUNK: Final = 3
_MONOTONIC = time.monotonic


class Runner:
    """Runs seeds and keeps what they came to."""

    def __init__(
        self, processes: int, prepare: Callable[[], None] | None = None, *, shrink: bool = True
    ) -> None:
        self._processes = processes
        self._prepare = prepare
        self._shrink = shrink
        self.failed: list[Outcome] = []
        self.seeds = 0
        self.turns = 0
        self.seconds = 0.0
        self.counts: dict[str, int] = {}
        self._began = _MONOTONIC()
        self._shown = 0.0
        self._on_terminal = sys.stdout.isatty()

    def run(self, seeds: Iterable[int]) -> None:
        """Run them all, then report."""
        for outcome in run_seeds(seeds, self._processes, self._prepare):
            self._take(outcome)
        if self._on_terminal:
            print("\r\033[K", end="")
        for outcome in self.failed[:MOST_SHRUNK]:
            self._explain(outcome)
        self._summarize()

    def _take(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.turns += outcome.turns
        self.seconds += outcome.seconds
        for what, count in outcome.counts.items():
            self.counts[what] = self.counts.get(what, 0) + count
        if outcome.violation is not None:
            self.failed.append(outcome)
            self._clear()
            print(
                f"seed {outcome.seed} failed {outcome.violation} (trace {outcome.digest})",
                flush=True,
            )
        self._show_progress()

    def _clear(self) -> None:
        if self._on_terminal:
            print("\r\033[K", end="")

    def _show_progress(self) -> None:
        now = _MONOTONIC()
        pause = PROGRESS_SECONDS if self._on_terminal else PROGRESS_SECONDS_IN_A_FILE
        if now - self._shown < pause:
            return
        self._shown = now
        faults = sum(count for what, count in self.counts.items() if what.startswith("fault: "))
        took = max(now - self._began, 0.001)
        text = (
            f"{self.seeds} seeds, {self.seeds * 60 / took:.0f} a minute, {faults} faults, "
            f"{self.counts.get('acknowledged records', 0)} records acknowledged, "
            f"{len(self.failed)} failed"
        )
        if self._on_terminal:
            print(f"\r\033[K{text}", end="", flush=True)
        else:
            print(text, flush=True)

    def _explain(self, outcome: Outcome) -> None:
        print(f"\nSeed {outcome.seed} again: ottla simulate --seed {outcome.seed} --trace")
        if not self._shrink or not outcome.faults:
            return
        print("Looking for the faults that it takes ...", flush=True)

        def fails(without: frozenset[int]) -> bool:
            (again,) = run_seeds([outcome.seed], 1, self._prepare, without)
            return again.violation is not None

        needed = shrunk(outcome.faults, fails)
        left_out = _ranges(set(range(1, outcome.faults + 1)) - set(needed))
        print(
            f"{len(needed)} of {outcome.faults} faults are enough: "
            f"ottla simulate --seed {outcome.seed} --trace --without {left_out}"
        )

    def _summarize(self) -> None:
        took = max(_MONOTONIC() - self._began, 0.001)
        print(
            f"{self.seeds} seeds, {len(self.failed)} failed; {self.seconds / 3600:.1f} simulated "
            f"hours in {took:.0f} s, {self.turns} turns of the loop"
        )
        for what, count in sorted(self.counts.items()):
            print(f"  {what:28} {count:>10}")


def _ranges(numbers: set[int]) -> str:
    """1,4-7 for a set."""
    parts: list[str] = []
    for number in sorted(numbers):
        if number - 1 in numbers:
            start = parts[-1].partition("-")[0]
            parts[-1] = f"{start}-{number}"
        else:
            parts.append(str(number))
    return ",".join(parts)
