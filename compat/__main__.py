"""`python -m compat`: everything in compat, or parts of it, with a table of passes at the end.

Sections: `clients` (the claims of tests/e2e with kcat and the Java client beside the Python ones),
`kerberos` (GSSAPI, with a KDC of its own), `tools` (Kafka's console tools), `java-groups` and
`java-transactions` (its tools of those), `share-groups` (those of share groups, and kill -9 around
their consumers and brokers), `streams-groups` (three instances of Streams, one killed), `java-apps`
(Kafka Streams and Connect), `franz-go` (that client's own tests), `franz-go-cluster` (the same on
three brokers) and `franz-go-secure` (the same over TLS and SCRAM), `dump` (DumpLogSegments over
Ottla's files), `authorizer` (random decisions beside those of StandardAuthorizer), `permissions`
(every API with and without ACLs beside Apache Kafka), `security-tools` (AclCommand and its kin
beside Apache Kafka), `scanners` (sslyze and testssl.sh), `kernel-tls` (on a kernel that has it, in
User Mode Linux), `kill` (kill -9 under load), `exactly-once` (kill -9 of broker and application),
`spark` (the same jobs through Spark's own connector and ours), `spark-faults` (kill -9 of Spark's
processes and the broker), `spark-cluster` (the same and the audit, with kill -9 of one of three
brokers), `fuzz`, and `differential` (random requests to Ottla and to Apache Kafka, replies
compared).
The exit status is 1 if anything failed.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console
from rich.table import Table

# Imported only for the checks that they register:
import compat.authorizer
import compat.dump
import compat.franz_go
import compat.java_apps
import compat.java_groups
import compat.java_transactions
import compat.kernel_tls
import compat.permissions.section
import compat.scanners
import compat.security_tools
import compat.share_groups
import compat.spark_official
import compat.streams_groups
import compat.tools  # noqa: F401  # as said above
from compat import fuzz, kill, spark_cluster, spark_faults, spark_speculation
from compat.checks import CHECKS, Check, CheckError, Ending, Result, Run, try_check
from compat.differential import section as differential
from testkit import exactly_once, java_runtime
from testkit.clients import BY_NAME
from testkit.clients.kcat import Kcat
from testkit.process import BrokerProcess
from testkit.workers import WorkersProcess

JAVA_SECTIONS = (
    *("clients", "kerberos", "tools", "java-groups", "java-transactions", "share-groups"),
    *("streams-groups", "java-apps", "dump", "authorizer", "permissions", "security-tools"),
    differential.SECTION,
)
SECTIONS = (
    *JAVA_SECTIONS,
    *("franz-go", "franz-go-cluster", "franz-go-secure"),
    *("scanners", "kernel-tls"),
    *("kill", "exactly-once"),
    *("spark", "spark-faults", "spark-cluster"),
    "fuzz",
)
COPIERS = [["confluent-kafka"] * 3, ["kafka-python"], ["aiokafka"]]
"""Who copies in the checks of exactly-once, each check with as many members as are named."""
ROOT = Path(__file__).parent.parent
WORK = ROOT / "compat" / ".work"
PLAIN_WIDTH = 140  # of the table where there is no terminal to ask
COLOURS = {Ending.PASSED: "green", Ending.FAILED: "red", Ending.NOT_SERVED: "yellow"}


def _clients(*options: str) -> Run:
    """The claims about clients, with every client, in pytest."""
    return lambda _: _run_clients(options)


def _kerberos(_: BrokerProcess) -> str:
    """The claims about GSSAPI, in pytest."""
    test = "tests/e2e/test_kerberos.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rsf", test],
        cwd=ROOT,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or "skipped" in lines[-1]:
        raise CheckError(
            "\n".join(line for line in lines if line.startswith(("FAILED", "ERROR", "SKIPPED")))
        )
    return lines[-1]


def _run_clients(options: Sequence[str]) -> str:
    if not Kcat.is_installed():
        raise CheckError("no kcat: install it (Debian: kcat)")
    names = [part for name in BY_NAME for part in ("--client", name)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/e2e/test_clients.py", *names, *options],
        cwd=ROOT,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode:
        raise CheckError("\n".join(line for line in lines if line.startswith(("FAILED", "ERROR"))))
    return f"{len(BY_NAME)} clients: {lines[-1]}"


def _kill(rounds: int, seed: int) -> Check:
    def run(_: BrokerProcess) -> str:
        with TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "broker") as broker:
            records = kill.run(broker, rounds, seed, kill.Report())
        return f"{records:,} records, each there once and in order"

    return Check("kill", f"kill -9 under load, {rounds} rounds", run)


def _exactly_once(clients: list[str], rounds: int, seed: int) -> Check:
    def run(_: BrokerProcess) -> str:
        with (
            TemporaryDirectory() as folder,
            BrokerProcess(Path(folder) / "broker", exactly_once.SETTINGS) as broker,
        ):
            return exactly_once.run(broker, clients, rounds, seed)

    return Check("exactly-once", f"exactly once with {clients[0]}, {rounds} kills", run)


def _spark_faults(rounds: int, seed: int, *, by_foreach_batch: bool) -> Check:
    def run(_: BrokerProcess) -> str:
        with (
            TemporaryDirectory() as folder,
            BrokerProcess(Path(folder) / "broker", spark_faults.SETTINGS) as broker,
        ):
            return spark_faults.run(
                broker, Path(folder), rounds, seed, by_foreach_batch=by_foreach_batch
            )

    how = "foreachBatch" if by_foreach_batch else "Spark's sink"
    return Check("spark-faults", f"exactly once with {how}, {rounds} kills", run)


def _spark_cluster(rounds: int, seed: int) -> Check:
    def run(_: BrokerProcess) -> str:
        with (
            TemporaryDirectory() as folder,
            WorkersProcess(Path(folder) / "cluster", spark_cluster.SETTINGS) as cluster,
        ):
            return spark_cluster.run(cluster, Path(folder), rounds, seed)

    return Check(
        "spark-cluster", f"Spark's sink and the audit on three brokers, {rounds} kills", run
    )


def _speculation(_: BrokerProcess) -> str:
    """Attempts that lose leave nothing visible."""
    with (
        TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "broker", spark_faults.SETTINGS) as broker,
    ):
        return spark_speculation.run(broker, "speculation")


def _fuzz(inputs: int, seed: int, first_round: int) -> Check:
    def report(outcome: fuzz.Outcome) -> None:
        rate = outcome.inputs / outcome.seconds
        print(f"  {outcome.inputs:,} inputs, {rate:,.0f}/s, memory {outcome.growth >> 10:+,} kB")

    def run(_: BrokerProcess) -> str:
        with (
            TemporaryDirectory() as folder,
            BrokerProcess(Path(folder) / "broker", fuzz.SETTINGS) as broker,
        ):
            fuzzer = fuzz.Fuzzer(broker, seed, WORK / "fuzz")
            outcome = fuzzer.run(inputs, first_round, report)
        grown = f"{outcome.growth / 2**20:+.1f} MB"
        return f"{outcome.inputs:,} inputs, {outcome.connections:,} connections, memory {grown}"

    return Check("fuzz", f"fuzz with {inputs:,} inputs", run)


def _table(results: list[Result]) -> Table:
    table = Table(title="Ottla and other people's clients and tools")
    for column in ("section", "check", "result", "seconds", "note"):
        table.add_column(column, justify="right" if column == "seconds" else "left")
    for result in results:
        colour = COLOURS[result.ending]
        table.add_row(
            result.check.section,
            result.check.name,
            f"[{colour}]{result.ending.value}[/]",
            f"{result.seconds:.1f}",
            result.note.splitlines()[0] if result.note else "",
        )
    return table


def _is(check: Check, wanted: str) -> bool:
    return check.section == wanted if wanted in SECTIONS else wanted in check.name


@click.command(help=__doc__)
@click.option(
    "--only", multiple=True, metavar="SECTION|CHECK", help="A section, or part of a name."
)
@click.option(
    "--rounds",
    default=100,
    show_default=True,
    help="Kills of `kill`; `spark-faults`: half; `exactly-once`: a quarter; "
    "`spark-cluster`: a tenth.",
)
@click.option(
    "--inputs", default=1_000_000, show_default=True, help="How many inputs `fuzz` sends."
)
@click.option(
    "--steps", default=5_000, show_default=True, help="Steps of each family of `differential`."
)
@click.option("--seed", default=1, show_default=True, help="Of what is drawn by chance.")
@click.option("--first-round", default=0, help="Where `fuzz` starts: to see a failed round again.")
def main(
    only: tuple[str, ...], rounds: int, inputs: int, steps: int, seed: int, first_round: int
) -> None:
    """Run the checks and show the table."""
    checks = [
        Check("clients", "stock clients", _clients()),
        Check("clients", "stock clients over SASL_SSL", _clients("--secure")),
        Check("kerberos", "GSSAPI with a KDC", _kerberos),
        *CHECKS,
        _kill(rounds, seed),
        *(_exactly_once(clients, rounds // 4, seed) for clients in COPIERS),
        *(_spark_faults(rounds // 4, seed, by_foreach_batch=how) for how in (False, True)),
        Check("spark-faults", "speculation", _speculation),
        _spark_cluster(rounds // 10, seed),
        _fuzz(inputs, seed, first_round),
        *(differential.check(name, steps, seed) for name in differential.FAMILIES),
    ]
    wanted = [check for check in checks if not only or any(_is(check, part) for part in only)]
    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    if not wanted:
        raise click.UsageError(f"no check matches; sections are {', '.join(SECTIONS)}")
    if any(check.section in JAVA_SECTIONS for check in wanted):
        java_runtime.prepare()
    results = []
    with TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "broker") as broker:
        for check in wanted:
            console.print(f"{check.section}: {check.name} ...", highlight=False)
            result = try_check(check, broker)
            results.append(result)
            if result.ending is Ending.FAILED:
                console.print(result.note, style="red", markup=False, highlight=False)
    console.print(_table(results))
    sys.exit(any(result.ending is Ending.FAILED for result in results))


if __name__ == "__main__":
    try:
        main(prog_name="python -m compat")
    except java_runtime.JavaError as problem:
        sys.exit(f"compat: {problem}")
