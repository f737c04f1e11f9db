"""Runs seeds, each in a process of its own that is forked from this one.

Rules kept here:
1. A seed's process begins as every other: same modules, same memory. So nothing of one seed reaches
   another, and the order of sets is the same whenever a seed is run.
2. Hashes of texts are the same in every run: `PYTHONHASHSEED` is 0, or the program starts itself
   again with it.
3. A seed that hangs or dies is a finding, too.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from ottla.simulation.run import Outcome, run_seed

LONGEST_SECONDS: Final = 300.0
_MONOTONIC = time.monotonic


def ensure_fixed_hashes(arguments: list[str]) -> None:
    """Start this program again where hashes differ from run to run."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, *arguments],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )


class _Running:
    """A seed in its process."""

    def __init__(
        self, seed: int, prepare: Callable[[], None] | None, without: Collection[int]
    ) -> None:
        self.seed = seed
        self.began = _MONOTONIC()
        self.received = b""
        self.fd, out = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.fd)
            _run_in_child(seed, out, prepare, without)
        os.close(out)

    def outcome(self) -> Outcome:
        """What it came to, once its pipe has ended."""
        os.close(self.fd)
        _, status = os.waitpid(self.pid, 0)
        if self.received:
            outcome = pickle.loads(self.received)
            assert isinstance(outcome, Outcome)
            return outcome
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {status}"
        return Outcome(self.seed, f"the process of the seed ended with {how}", "", 0.0, 0, {})

    def kill_if_late(self) -> None:
        """It hangs."""
        if _MONOTONIC() - self.began > LONGEST_SECONDS:
            os.kill(self.pid, signal.SIGKILL)


def _run_in_child(
    seed: int, out: int, prepare: Callable[[], None] | None, without: Collection[int]
) -> None:
    status = 1
    try:
        if prepare is not None:
            prepare()
        try:
            outcome = run_seed(seed, without=without)
        except BaseException as problem:  # noqa: BLE001 what breaks the simulation is a finding
            import traceback

            text = "".join(traceback.format_exception(problem))
            outcome = Outcome(seed, f"the simulation failed: {text}", "", 0.0, 0, {})
        data = pickle.dumps(outcome)
        while data:
            data = data[os.write(out, data) :]
        status = 0
    finally:
        os._exit(status)


def run_seeds(
    seeds: Iterable[int],
    processes: int,
    prepare: Callable[[], None] | None = None,
    without: Collection[int] = (),
) -> Iterator[Outcome]:
    """Run seeds, several at once; outcomes come in the order in which they end.

    Some faults may be left out, by their numbers. `prepare` is called in each seed's process,
    before anything else: it may change the code.
    """
    waiting = iter(seeds)
    running: dict[int, _Running] = {}
    try:
        while True:
            while len(running) < processes and (seed := next(waiting, None)) is not None:
                one = _Running(seed, prepare, without)
                running[one.fd] = one
            if not running:
                return
            for fd in select.select(list(running), [], [], 1.0)[0]:
                data = os.read(fd, 1 << 16)
                if data:
                    running[fd].received += data
                else:
                    yield running.pop(fd).outcome()
            for one in running.values():
                one.kill_if_late()
    finally:
        for one in running.values():
            os.kill(one.pid, signal.SIGKILL)
            one.outcome()
