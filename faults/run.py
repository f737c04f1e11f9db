"""One run: start a cluster and its clients, hurt it for some minutes, and judge.

Rules kept here:
1. A run that passed leaves nothing. One that failed leaves its folder: the data of every broker
   and server, their logs, and `faults.log` with every fault and finding and its time.
2. The bound on unavailability is the session's timeout, one tick, and two seconds; and as long as
   the machine itself stood still meanwhile, for the harness or for a broker or ZooKeeper server.
"""

import itertools
import math
import shutil
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from faults.availability import longest_gap
from faults.injector import Injected, Injector
from faults.load import PARTITIONS, Load, log_file, tracebacks
from faults.operator import Operator
from faults.plan import Kind, Step, steps
from faults.processors import Shares
from faults.replicas import Watch
from faults.stalls import Stalls
from faults.world import SESSION_SECONDS, TICK_SECONDS, World

BOUND_SECONDS = SESSION_SECONDS + TICK_SECONDS + 2.0
PROBED = "probe"
WARM_UP_SECONDS = 3.0
PROGRESS_SECONDS = 10.0

Say = Callable[[str], None]


@dataclass
class Report:
    """What came of a run."""

    seed: int
    store: str
    faults: int = 0
    minutes: float = 0.0
    findings: list[str] = field(default_factory=list)
    """What must not be: something lost, doubled, out of order, different, or an exception."""
    late: list[str] = field(default_factory=list)
    """Where writes were not taken for longer than they may."""
    gaps: dict[str, list[float]] = field(default_factory=dict)
    """By kind of fault: the longest gap of each partition, for each fault."""
    stalled: float = 0.0
    """How many seconds the machine stood still."""
    began: float = field(default_factory=time.monotonic)
    progress: str = ""
    errors: dict[str, int] = field(default_factory=dict)
    folder: Path | None = None
    """What was kept of it."""

    @property
    def passed(self) -> bool:
        """Whether all was as it must be."""
        return not self.findings and not self.late


class Log:
    """The file of a run, with the time of each line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = time.monotonic()

    def note(self, text: str) -> None:
        """Add a line."""
        now = datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
        with self._path.open("a") as file:
            file.write(f"{now} {time.monotonic() - self._began:8.2f} {text}\n")


def run(
    folder: Path,
    seed: int,
    store: str,
    seconds: float,
    say: Say,
    plan: Iterable[Step] | None = None,
    is_enough: Callable[[], bool] = lambda: False,
    only: Collection[Kind] = (),
    *,
    secure: bool = False,
) -> Report:
    """Hurt a cluster; the folder is there afterwards only if something was found.

    Without a plan it is the seed's. It continues for so many seconds, or until it is enough.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = Log(log_file(folder))
    report = Report(seed, store)
    log.note(f"seed {seed}, {store}, {seconds:.0f} s")
    with World(folder, store, secure=secure) as world:
        if not world.mounts:
            say("no right to mount: disks are filled by a limit on the size of files")
        if not world.clocks:
            say("no C compiler: clocks are not stepped")
        load = Load(world, seed)
        stalls = Stalls(folder, world.processes)
        try:
            stalls.start()
            load.start()
            time.sleep(WARM_UP_SECONDS)
            world.until_in_sync(load.topics)
            chosen = plan or steps(seed, world.has_zookeeper, world.mounts, only)
            end = time.monotonic() + seconds
            operator = Operator(world, load.recreated, seed)
            watch = Watch(world, PARTITIONS, operator.trimmed)
            injected = _hurt(
                Injector(world, lambda: load.topics, log.note, PROBED, operator, watch),
                load,
                report,
                stalls,
                itertools.takewhile(lambda _: time.monotonic() < end and not is_enough(), chosen),
                log,
                say,
            )
            say("the faults are over: all replicas must come in sync, and readers to the end")
            world.until_in_sync(load.topics)
            report.findings += [*operator.findings, *load.findings()]
            report.findings += watch.look(all_of_it=True, is_over=True)
            report.late += _late(load, injected, stalls, report)
        except Exception as problem:  # noqa: BLE001 it is reported with what was found before
            report.findings.append(f"the run ended early: {problem!r}")
            log.note(traceback.format_exc())
        finally:
            stalls.stop()
            report.stalled = stalls.total
            load.close()
            report.findings += tracebacks(world)
            report.progress = load.progress()
            report.errors = dict(load.errors().most_common())
            report.minutes = (time.monotonic() - report.began) / 60
            for finding in (*report.findings, *report.late):
                log.note(f"FINDING: {finding}")
            world.keep = not report.passed
    if not report.passed:
        report.folder = folder
    else:
        shutil.rmtree(folder)
    return report


def _hurt(
    injector: Injector,
    load: Load,
    report: Report,
    stalls: Stalls,
    plan: Iterable[Step],
    log: Log,
    say: Say,
) -> list[Injected]:
    injected: list[Injected] = []
    began = told = time.monotonic()
    shares, stood = Shares(), stalls.total
    try:
        for step in plan:
            injected.append(injector.carry_out(step))
            report.faults += len(step.faults)
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                gap = max(
                    longest_gap(probe.acknowledged_at, injected[-1].began, injected[-1].ended)
                    for probe in load.probes
                )
                say(
                    f"{told - began:5.0f} s, {report.faults} faults, {load.progress()}; "
                    f"last: {injected[-1].label}, {gap:.1f} s without an acknowledgement"
                )
                log.note(
                    f"processors: {shares.look()}; the machine stood still for "
                    f"{stalls.total - stood:.1f} s"
                )
                stood = stalls.total
    finally:
        report.findings += injector.findings
    return injected


def _late(load: Load, injected: list[Injected], stalls: Stalls, report: Report) -> list[str]:
    """Measure all gaps; those that were longer than they may be."""
    gaps: defaultdict[str, list[float]] = defaultdict(list)
    late = []
    beginnings = [one.began for one in injected[1:]] + [math.inf]
    for one, following in zip(injected, beginnings, strict=True):
        for index in range(PARTITIONS[PROBED]):
            written = load.probes[index].acknowledged_at
            gap = longest_gap(written, one.began, one.ended, following)
            gaps[one.label].append(gap)
            allowed = allowed_seconds(one, following, stalls)
            if one.is_bounded and gap > allowed:
                late.append(
                    f"{one.label}, {one.began - report.began:.1f} s after the start: "
                    f"{PROBED}-{index} took no writes for {gap:.2f} s, {allowed:.2f} s are allowed"
                )
    report.gaps = dict(gaps)
    return late


def allowed_seconds(one: Injected, following: float, stalls: Stalls) -> float:
    """How long writes may fail in a step; a gap that is open at its end lasts into the calm."""
    return BOUND_SECONDS + stalls.within(one.began, max(one.ended, following))
