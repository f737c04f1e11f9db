"""`python -m bench`: runs the works, shows the table, writes results and docs.

Rules: one bench at a time in a checkout; whatever ends it (the end, an error, Ctrl-C, SIGTERM),
no process and no data of it stays. A work that fails is reported and does not end the others.
"""

import fcntl
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import click
from rich.console import Console

from bench import (
    cluster_works,
    coordinator_works,
    kernel,
    machine,
    needs,
    report,
    security_checks,
    security_works,
    share_works,
    spark,
    stalls,
    works,
)
from bench.arena import Arena, Pair
from bench.client import Client
from bench.clusters import KafkaCluster, OttlaCluster
from bench.ottla import EARLIER, Ottla
from bench.rows import Row
from bench.secured import GuardedOttla, TlsKafka, TlsOttla
from bench.sizes import FULL, QUICK
from testkit import java_runtime, kafka, proc
from testkit.certificates import Certificates
from testkit.errors import HarnessError
from testkit.kafka import Kafka
from testkit.server import Server

HERE = Path(__file__).parent
WORK = HERE / ".work"
DOCS = HERE.parent / "docs"
PLAIN_WIDTH = 140  # of the table where there is no terminal to ask

Work = Callable[[Arena, Pair], list[Row]]

# Works that share a pair of servers; `start` starts its own, `kernel` needs none. The order is that
# of the table, with the partitions last: removing their many files keeps the disk busy for a while.
GROUPS: list[dict[str, Work]] = [
    {
        "produce": works.produce,
        "unbatched": works.unbatched,
        "consume": works.consume,
        "latency": works.latency,
        "memory": works.memory,
    },
    {
        "commit": coordinator_works.commit,
        "rebalance": coordinator_works.rebalance,
        "transactions": coordinator_works.transactions,
    },
    {"share": share_works.rate, "share-first": share_works.first},
    {"stalls": stalls.stalls},
    {"spark": spark.spark},
    {"partitions": works.partitions},
]
# The same with three brokers on each side; scale and start run their own, of Ottla alone.
CLUSTER_GROUP: dict[str, Work] = {
    "cluster-produce": cluster_works.produce,
    "cluster-memory": cluster_works.memory,
    "cluster-failover": cluster_works.failover,
}
# With TLS on both sides; tls-start runs its own.
TLS_GROUP: dict[str, Work] = {
    "tls-produce": security_works.tls_produce,
    "tls-unbatched": security_works.tls_unbatched,
    "tls-consume": security_works.tls_consume,
    "tls-logins": security_works.tls_logins,
    "tls-idle": security_works.tls_idle,
    "tls-flood": security_works.tls_flood,
}
# Ottla on both sides, on the second with an authorizer, ACLs and quotas.
GUARDED_GROUP: dict[str, Work] = {
    "guarded-produce": security_works.guarded(works.produce),
    "guarded-unbatched": security_works.guarded(works.unbatched),
    "guarded-consume": security_works.guarded(works.consume),
}
NAMES = [
    "start",
    *(name for group in GROUPS for name in group),
    *CLUSTER_GROUP,
    "cluster-scale",
    "cluster-start",
    "tls-start",
    *TLS_GROUP,
    *GUARDED_GROUP,
    "security-checks",
    "kernel",
]
AGAIN = "Kafka again"
"""Kafka in Ottla's place, which shows how much two equal sides differ on this machine."""


class Again(Kafka):
    """Kafka in Ottla's place."""

    name = AGAIN


class ClusterAgain(KafkaCluster):
    """Three of it in Ottla's place."""

    name = AGAIN


class TlsAgain(TlsKafka):
    """It with TLS in Ottla's place."""

    name = AGAIN


@contextmanager
def only_bench(work: Path) -> Iterator[Path]:
    """The folder of this run, alone in the work folder; what a killed run left is removed."""
    work.mkdir(exist_ok=True)
    folder = work / "run"
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HarnessError("another bench runs in this checkout") from None
        shutil.rmtree(folder, ignore_errors=True)
        for old in work.glob("*.log"):
            old.unlink()
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Outcome(NamedTuple):
    """What became of the chosen works."""

    rows: dict[str, list[Row]]
    stolen: dict[str, str]
    failures: dict[str, str]


class Arenas(NamedTuple):
    """Where the works meet: single brokers, clusters, brokers with TLS, and Ottla with Ottla."""

    single: Arena
    clusters: Arena
    tls: Arena
    guarded: Arena


def run(arenas: Arenas, chosen: list[str]) -> Outcome:
    """The rows of each of the chosen works, and why others have none."""
    arena, clusters, tls, guarded = arenas
    rows: dict[str, list[Row]] = {}
    stolen: dict[str, str] = {}
    failures: dict[str, str] = {}

    def attempt(name: str, work: Callable[[], list[Row]]) -> None:
        gone, busy = proc.stolen_seconds(), proc.busy_seconds()
        try:
            rows[name] = work()
            gone, busy = proc.stolen_seconds() - gone, proc.busy_seconds() - busy
            stolen[name] = machine.stolen(gone, busy)
        except (HarnessError, OSError) as error:
            failures[name] = str(error)
            arena.say(f"{name} failed: {error}")

    def attempt_group(place: Arena, group: dict[str, Work]) -> None:
        names = [name for name in group if name in chosen]
        if not names:
            return
        try:
            with place.servers() as pair:
                for name in names:
                    attempt(name, partial(group[name], place, pair))
        except HarnessError as error:
            failures.update(dict.fromkeys(names, str(error)))

    if "start" in chosen:
        attempt("start", partial(works.start, arena))
    for group in GROUPS:
        attempt_group(arena, group)
    attempt_group(clusters, CLUSTER_GROUP)
    if "cluster-scale" in chosen:
        attempt("cluster-scale", partial(cluster_works.scale, clusters))
    if "cluster-start" in chosen:
        attempt("cluster-start", partial(cluster_works.start, arena))
    if "tls-start" in chosen:
        attempt("tls-start", partial(security_works.tls_start, tls))
    attempt_group(tls, TLS_GROUP)
    attempt_group(guarded, GUARDED_GROUP)
    if "security-checks" in chosen:
        attempt("security-checks", security_checks.rows)
    if "kernel" in chosen:
        attempt("kernel", kernel.rows)
    return Outcome(rows, stolen, failures)


def end_on_signals() -> None:
    """Ctrl-C, SIGTERM and SIGHUP unwind, so that servers are stopped; a second one is too late."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end(number: int, _frame: FrameType | None) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        print("\nstopping the servers ...", file=sys.stderr)
        sys.exit(128 + number)

    for each in signals:
        signal.signal(each, end)


def chosen_works(_context: click.Context, _parameter: click.Parameter, value: str) -> list[str]:
    """The names in `--only`, checked; `cluster` stands for all that begin with it."""
    names = []
    for given in filter(None, (name.strip() for name in value.split(","))):
        named = [name for name in NAMES if name == given or name.startswith(f"{given}-")]
        if not named:
            raise click.BadParameter(f"{given} is none of {', '.join(NAMES)}")
        names += named
    return names or NAMES


@click.command()
@click.option("--only", default="", callback=chosen_works, help=f"Some of: {', '.join(NAMES)}.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds that count (5, quick: 3).")
@click.option("--quick", is_flag=True, help="Under 4 minutes; flatters Ottla: Kafka stays cold.")
@click.option("--noise", is_flag=True, help="Kafka on both sides: what ratios mean nothing here.")
@click.option(
    "--against",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="An Ottla in this folder (pip install --no-deps --target) instead of Kafka.",
)
@click.option("--add", is_flag=True, help="Put the figures among those of earlier runs.")
def main(
    only: list[str],
    rounds: int | None,
    quick: bool,
    noise: bool,
    against: Path | None,
    add: bool,
) -> None:
    """Measures Ottla and Apache Kafka side by side.

    A full run writes docs/bench.md, .svg and .json; so does one with --add, which measures some
    works again and keeps the figures of the others. Every run writes bench/.work/results.json.
    """
    if add and (quick or noise or against):
        raise click.UsageError(
            "--add is for full measurements: it excludes --quick, --noise and --against"
        )
    if noise and against:
        raise click.UsageError("--noise and --against exclude each other")
    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    began = time.monotonic()
    end_on_signals()
    sizes = QUICK if quick else FULL
    if rounds:
        sizes = replace(sizes, rounds=rounds)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def say(text: str) -> None:
        passed = int(time.monotonic() - began)
        console.print(f"[dim]{passed // 60:2}:{passed % 60:02}[/] {text}", highlight=False)

    try:
        with only_bench(WORK) as folder:
            needs.provide(kafka.has_jars(java_runtime.WORK))
            say(f"getting Kafka {kafka.VERSION} and building the client")
            libs = kafka.fetch_jars(java_runtime.WORK)
            client = Client.build(WORK)

            def first(place: Path) -> Server:
                return Ottla(place, installed=against) if against else Kafka(place, libs)

            def second(place: Path) -> Server:
                return Again(place, libs) if noise else Ottla(place)

            def first_three(place: Path) -> Server:
                return OttlaCluster(place, against) if against else KafkaCluster(place, libs)

            def second_three(place: Path) -> Server:
                return ClusterAgain(place, libs) if noise else OttlaCluster(place)

            certificates = Certificates(folder)

            def first_tls(place: Path) -> Server:
                if against:
                    return TlsOttla(place, certificates, against)
                return TlsKafka(place, libs, certificates)

            def second_tls(place: Path) -> Server:
                if noise:
                    return TlsAgain(place, libs, certificates)
                return TlsOttla(place, certificates)

            arena = Arena((first, second), client, sizes, folder, say)
            arenas = Arenas(
                arena,
                replace(arena, sides=(first_three, second_three)),
                replace(arena, sides=(first_tls, second_tls)),
                replace(arena, sides=(Ottla, GuardedOttla)),
            )
            rows, stolen, failures = run(arenas, only)
            described = machine.describe(kafka.VERSION, client.versions().librdkafka)
            described["at rest"] = machine.rest(arena.at_rest)
            quiet = machine.is_quiet(arena.at_rest)
    except HarnessError as error:
        raise click.ClickException(str(error)) from None
    works = {
        name: report.Measured(
            report.today(), described | {"stolen": stolen[name]}, quiet, rows[name]
        )
        for name in rows
    }
    if add:
        works = report.load(DOCS / report.SAMPLES).works | works
    ordered = {name: works[name] for name in NAMES if name in works}
    results = report.Results(ordered, failures)
    report.save(results, WORK / "results.json")
    sides = EARLIER if against else "Kafka", AGAIN if noise else Ottla.name
    report.show(results, console, sides)
    if quick:
        console.print(report.QUICK_IS_UNFAIR, style="yellow")
    if add or (only == NAMES and not quick and not noise and not against):
        report.write_docs(results, DOCS)
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
