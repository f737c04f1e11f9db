"""What every work needs: the two sides, the client, the amounts, a folder and a voice.

Rules: the two sides take turns within a round, in the same order; a sample of one is followed by
a sample of the other under the same conditions. Servers live in a `with` block and are gone,
with their data, when it ends, whatever ends it.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench.client import Client, Throughput
from bench.sizes import Sizes
from bench.stats import limit, median
from testkit.proc import busy_seconds
from testkit.server import Server

Sample = TypeVar("Sample")
REST_SECONDS = 1.0


class Pair(NamedTuple):
    """The two running servers."""

    kafka: Server
    ottla: Server


@dataclass(frozen=True, slots=True)
class Run:
    """A produce or consume run as the client saw it, with the CPU time of broker and machine."""

    client: Throughput
    broker_cpu: float
    machine_cpu: float

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.client.messages / self.client.seconds

    @property
    def cpu_us(self) -> float:
        """Microseconds of the broker's CPU time for each message."""
        return self.broker_cpu / self.client.messages * 1e6


@dataclass(frozen=True, slots=True)
class Arena:
    """Where the works meet."""

    sides: tuple[Callable[[Path], Server], Callable[[Path], Server]]
    client: Client
    sizes: Sizes
    folder: Path
    say: Callable[[str], None]
    at_rest: list[float] = field(default_factory=list)

    @contextmanager
    def servers(self) -> Iterator[Pair]:
        """Both servers, started on empty folders, for as long as the block lasts."""
        with ExitStack() as stack:
            self.say("starting both servers")
            started = [stack.enter_context(self.server(side)) for side in (0, 1)]
            for server in started:
                server.start()
            yield Pair(*started)

    @contextmanager
    def server(self, side: int) -> Iterator[Server]:
        """One side's server, not started yet; stopped and its data removed at the end."""
        folder = self.folder / ("first" if side == 0 else "second")
        with self.sides[side](folder) as server:
            try:
                yield server
            finally:
                server.stop()
                shutil.rmtree(folder, ignore_errors=True)

    def take_turns(
        self,
        work: str,
        pair: Pair,
        once: Callable[[Server, int], Sample],
        show: Callable[[Sample], str],
        rounds: int | None = None,
        warm_up: int | None = None,
    ) -> tuple[list[Sample], list[Sample]]:
        """The samples of both sides, round by round; warm-up rounds have negative numbers."""
        rounds = self.sizes.rounds if rounds is None else rounds
        warm_up = self.sizes.warm_up if warm_up is None else warm_up
        self._look_at_rest()
        kept: tuple[list[Sample], list[Sample]] = ([], [])
        for number in range(-warm_up, rounds):
            name = f"round {number + 1} of {rounds}" if number >= 0 else "warm-up"
            for server, samples in zip(pair, kept, strict=True):
                self.say(f"{work}: {name}, {server.name} ...")
                sample = once(server, number)
                self.say(f"{work}: {name}, {server.name} {show(sample)}")
                if number >= 0:
                    samples.append(sample)
        return kept

    def _look_at_rest(self) -> None:
        """Notes how many cores are busy while nothing is measured: work that is not ours."""
        before, began = busy_seconds(), time.monotonic()
        time.sleep(REST_SECONDS)
        self.at_rest.append((busy_seconds() - before) / (time.monotonic() - began))


def timed(server: Server, run: Callable[[], Throughput]) -> Run:
    """A client's run, with what it cost the broker."""
    before = server.cpu_seconds()
    busy = busy_seconds()
    result = run()
    return Run(result, server.cpu_seconds() - before, busy_seconds() - busy)


def together(runs: list[Run]) -> Run:
    """Several runs as one."""
    clients = [run.client for run in runs]
    return Run(
        Throughput(
            messages=sum(each.messages for each in clients),
            seconds=sum(each.seconds for each in clients),
            cpu=sum(each.cpu for each in clients),
            busiest_thread=sum(each.busiest_thread for each in clients),
        ),
        sum(run.broker_cpu for run in runs),
        sum(run.machine_cpu for run in runs),
    )


def limit_of(runs: list[Run]) -> str:
    """Who was the limit of a side's runs, by their median shares."""
    return limit(
        median([run.client.busiest_thread / run.client.seconds for run in runs]),
        median([run.broker_cpu / run.client.seconds for run in runs]),
        median([run.machine_cpu / run.client.seconds for run in runs]),
        len(os.sched_getaffinity(0)),
    )
