"""franz-go's own tests (Go), unchanged, from the Go module proxy: on one broker, and on three.

Rules kept here:
1. The version is pinned, and `franz-go/passes-on-kafka.txt` has the tests that Apache Kafka
   passes in that version: each of them must pass here. What else passes or fails is only counted.
2. The module cache is read-only and shared: the tests run in a copy of their own.
3. Over TLS and SCRAM the same tests must pass. By itself the suite gives its clients TLS only, and
   SCRAM to two tests: one line is added to its helper, so that all its clients log in.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from compat.checks import CheckError, check
from testkit.process import BrokerProcess
from testkit.secured import PASSWORD, USER, SecuredBroker
from testkit.workers import WORKERS, WorkersProcess

VERSION = "v1.22.2"
MODULE = "github.com/twmb/franz-go"
HERE = Path(__file__).parent
KNOWN = HERE / "franz-go" / "passes-on-kafka.txt"
WORK = HERE / ".work"
RECORDS = 10_000
RUN_MINUTES = 9
WITHOUT_TLS = "TestIssue769"
"""Gives its client a dialer, which franz-go refuses beside TLS: it logs in without TLS."""
BUILD_SECONDS = 600

_WITH_TLS = "\tif testCert != nil {\n\t\topts = append(opts, DialTLSConfig(testCert))"
_WITH_SCRAM = "\tif saslScram != nil {\n\t\topts = append(opts, SASL(saslScram))\n\t}"
_ENDING = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)


def known_passes() -> set[str]:
    """The names of the tests that must pass."""
    lines = KNOWN.read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def endings(output: str) -> dict[str, str]:
    """How each test ended: PASS, FAIL or SKIP by name, as `go test -v` prints it."""
    return {name: ending for ending, name in _ENDING.findall(output)}


def missing(output: str, wanted: Collection[str]) -> list[str]:
    """The tests that had to pass and did not, with what became of them."""
    ended = endings(output)
    return [
        f"{name}: {ended.get(name, 'not run')}"
        for name in sorted(wanted)
        if ended.get(name) != "PASS"
    ]


def _go(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        ["go", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise CheckError(f"go {arguments[0]}: {said[-1]}")
    return done.stdout


def _test_program(*, logging_in: bool = False) -> Path:
    """The compiled tests, in the folder that they want to run in."""
    if shutil.which("go") is None:
        raise CheckError("no Go: install it (Debian: golang-go)")
    source = WORK / f"franz-go-{VERSION}{'-scram' if logging_in else ''}"
    program = source / "pkg" / "kgo" / "kgo.test"
    if program.exists():
        return program
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as empty:
        told = _go("mod", "download", "-json", f"{MODULE}@{VERSION}", cwd=Path(empty))
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(json.loads(told)["Dir"], source, copy_function=shutil.copyfile)
    for folder in (source, *(path for path in source.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    if logging_in:
        _log_in_everywhere(program.with_name("helpers_test.go"))
    _go("test", "-c", "-o", program.name, ".", cwd=program.parent)
    return program


def _log_in_everywhere(helper: Path) -> None:
    text = helper.read_text()
    if text.count(_WITH_TLS) != 1:
        raise CheckError(f"{helper.name} of franz-go {VERSION} has no line to add SCRAM to")
    helper.write_text(text.replace(_WITH_TLS, f"{_WITH_SCRAM}\n{_WITH_TLS}"))


@check("franz-go")
def franz_go_tests(broker: BrokerProcess) -> str:
    return run_tests(broker.bootstrap, replicas=1, output=WORK / "franz-go.log")


@check("franz-go-cluster")
def franz_go_tests_on_three_brokers(_: BrokerProcess) -> str:
    with (
        tempfile.TemporaryDirectory() as folder,
        WorkersProcess(Path(folder) / "cluster") as cluster,
    ):
        output = WORK / "franz-go-cluster.log"
        told = run_tests(cluster.bootstrap, replicas=WORKERS, output=output)
        if problems := cluster.tracebacks():
            raise CheckError(f"a traceback in a broker's log:\n{problems[0]}")
    return told


@check("franz-go-secure")
def franz_go_tests_over_TLS_and_SCRAM_SHA_512(_: BrokerProcess) -> str:  # noqa: N802 their names
    with (
        tempfile.TemporaryDirectory() as folder,
        SecuredBroker(Path(folder) / "broker") as broker,
    ):
        login = {
            "KGO_TEST_TLS": f"ca:{broker.certificates.ca}",
            "KGO_TEST_SCRAM": f"{USER}:{PASSWORD}:512",
            # For the two tests of SCRAM itself, which know no TLS.
            "KGO_TEST_SCRAM_SEEDS": broker.where("SASL_PLAINTEXT"),
        }
        output = WORK / "franz-go-secure.log"
        _run(broker.where("SASL_SSL"), 1, output, login, "-test.skip", f"^{WITHOUT_TLS}$")
        rest = output.with_name("franz-go-sasl.log")
        del login["KGO_TEST_TLS"]
        _run(broker.where("SASL_PLAINTEXT"), 1, rest, login, "-test.run", f"^{WITHOUT_TLS}$")
        with output.open("a") as stream:
            stream.write(rest.read_text(errors="replace"))
        told = _judged(output, known_passes() | {"TestSCRAMAuth", "TestSCRAMAuthBadCredentials"})
        if problems := broker.tracebacks():
            raise CheckError(f"a traceback in the broker's log:\n{problems[0]}")
    return told


def run_tests(bootstrap: str, replicas: int, output: Path) -> str:
    """Run them all against brokers; how many passed. Raises CheckError for those that had to."""
    _run(bootstrap, replicas, output, {})
    return _judged(output, known_passes())


def _run(
    bootstrap: str, replicas: int, output: Path, login: Mapping[str, str], *which: str
) -> None:
    program = _test_program(logging_in=bool(login))
    environment = {
        **os.environ,
        **login,
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RF": str(replicas),
        "KGO_TEST_RECORDS": str(RECORDS),
    }
    with output.open("w") as stream:
        subprocess.run(
            [program, "-test.v", "-test.count=1", f"-test.timeout={RUN_MINUTES}m", *which],
            cwd=program.parent,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
            timeout=(RUN_MINUTES + 1) * 60,
            check=False,
        )


def _judged(output: Path, wanted: Collection[str]) -> str:
    told = output.read_text(errors="replace")
    if lost := missing(told, wanted):
        raise CheckError(f"{len(lost)} tests that Kafka passes (see {output}):\n" + "\n".join(lost))
    ended = list(endings(told).values())
    return f"{VERSION}: {ended.count('PASS')} pass, {ended.count('SKIP')} skip themselves"
