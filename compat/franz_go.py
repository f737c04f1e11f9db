"""franz-go's own tests (Go), unchanged, from the Go module proxy: on one broker, and on three.

Rules kept here:
1. The version is pinned, and `franz-go/passes-on-kafka.txt` has the tests that Apache Kafka
   passes in that version: each of them must pass here. What else passes or fails is only counted.
2. The module cache is read-only and shared: the tests run in a copy of their own.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from compat.checks import CheckError, check
from testkit.process import BrokerProcess
from testkit.workers import WORKERS, WorkersProcess

VERSION = "v1.22.2"
MODULE = "github.com/twmb/franz-go"
HERE = Path(__file__).parent
KNOWN = HERE / "franz-go" / "passes-on-kafka.txt"
WORK = HERE / ".work"
RECORDS = 10_000
RUN_MINUTES = 9
BUILD_SECONDS = 600

_ENDING = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)


def known_passes() -> set[str]:
    """The names of the tests that must pass."""
    lines = KNOWN.read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def endings(output: str) -> dict[str, str]:
    """How each test ended: PASS, FAIL or SKIP by name, as `go test -v` prints it."""
    return {name: ending for ending, name in _ENDING.findall(output)}


def missing(output: str) -> list[str]:
    """The tests that had to pass and did not, with what became of them."""
    ended = endings(output)
    return [
        f"{name}: {ended.get(name, 'not run')}"
        for name in sorted(known_passes())
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


def _test_program() -> Path:
    """The compiled tests, in the folder that they want to run in."""
    if shutil.which("go") is None:
        raise CheckError("no Go: install it (Debian: golang-go)")
    source = WORK / f"franz-go-{VERSION}"
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
    _go("test", "-c", "-o", program.name, ".", cwd=program.parent)
    return program


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


def run_tests(bootstrap: str, replicas: int, output: Path) -> str:
    """Run them all against brokers; how many passed. Raises CheckError for those that had to."""
    program = _test_program()
    environment = {
        **os.environ,
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RF": str(replicas),
        "KGO_TEST_RECORDS": str(RECORDS),
    }
    with output.open("w") as stream:
        subprocess.run(
            [program, "-test.v", "-test.count=1", f"-test.timeout={RUN_MINUTES}m"],
            cwd=program.parent,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
            timeout=(RUN_MINUTES + 1) * 60,
            check=False,
        )
    told = output.read_text(errors="replace")
    if lost := missing(told):
        raise CheckError(f"{len(lost)} tests that Kafka passes (see {output}):\n" + "\n".join(lost))
    ended = list(endings(told).values())
    return f"{VERSION}: {ended.count('PASS')} pass, {ended.count('SKIP')} skip themselves"
