"""One file on a Spark standalone cluster of two workers, by spark-submit and by --master.

That `--master` reaches Spark is also shown in test_session.py, and the command as a process in
test_killed.py.
"""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable

from ottla.client import Admin, Client
from ottla.embedded import Broker
from testkit.waiting import stretched, until

from .running import SHORT_LIVED_JVM, event, send

# Six JVMs, each waited for as long as the load of the machine asks for.
pytestmark = pytest.mark.timeout(900)

SPARK_HOME = Path(pyspark.__file__).parent
PIPELINE = """\
checkpoint: state
sources:
  in: {{topic: {topic}, format: json, schema: "id INT, type STRING, at TIMESTAMP"}}
sinks:
  lake: {{from: in, lake: lake, format: delta, partition_by: hour(at)}}
"""
SETTINGS = ("spark.executor.memory=512m", "spark.driver.host=127.0.0.1", "spark.ui.enabled=false")
JOB = "from pyspark_ottla.pipeline.submit import main\nmain()\n"
ENVIRONMENT = {
    **SHORT_LIVED_JVM,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
}
SAID_WITHIN_SECONDS = 120


def spark_class(log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *arguments],
            stdout=out,
            stderr=out,
            env={**os.environ, **ENVIRONMENT, "SPARK_WORKER_DIR": str(log.parent / "work")},
        )


def wait_for(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """The first match of a pattern in a log that grows."""

    def found() -> re.Match[str] | None:
        assert process.poll() is None, log.read_text()
        return re.search(pattern, log.read_text())

    match = until(found, f"{pattern} in {log}", SAID_WITHIN_SECONDS)
    assert match is not None
    return match[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster with two workers of one core each."""
    folder = tmp_path_factory.mktemp("cluster")
    package = "org.apache.spark.deploy"
    web = ("--webui-port", "0", "--host", "127.0.0.1")
    log = folder / "master.log"
    # The master binds the port that it is given, and announces it: 0 would be announced as 0.
    port = str(free_port())
    running = [spark_class(log, f"{package}.master.Master", "--port", port, *web)]
    try:
        # A worker that finds no master waits for many seconds before it tries again.
        url = wait_for(log, r"Starting Spark master at (spark://\S+)", running[0])
        logs = [folder / f"worker{number}.log" for number in range(2)]
        size = ("--cores", "1", "--memory", "1g")
        running += [
            spark_class(worker, f"{package}.worker.Worker", *web, *size, url) for worker in logs
        ]
        for worker, process in zip(logs, running[1:], strict=True):
            wait_for(worker, "(Successfully registered)", process)
        yield url
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(stretched(30))


@pytest.mark.parametrize("how", ["spark-submit", pytest.param("--master", marks=pytest.mark.long)])
def test_a_pipeline_runs_on_a_standalone_cluster(
    master: str, how: str, ottla_broker: Broker, tmp_path: Path
) -> None:
    bootstrap = ottla_broker.bootstrap_servers
    topic = f"standalone.{how.strip('-')}"
    with Client(bootstrap) as client:
        Admin(client).create_topic(topic, partitions=2)
        send(client, topic, (event(number, "x", "10:00:00") for number in range(1000)))
    file, job = tmp_path / "p.yaml", tmp_path / "job.py"
    file.write_text(PIPELINE.format(topic=topic))
    job.write_text(JOB)
    arguments = [str(file), "--once", "--bootstrap", bootstrap]
    if how == "--master":
        program = "from ottla.cli.pipeline import command; command()"
        start = [sys.executable, "-c", program, "run", *arguments, "--master", master]
        start += [part for setting in SETTINGS for part in ("--set", setting)]
    else:
        start = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master]
        start += [part for item in SETTINGS for part in ("--conf", item)]
        start += [str(job), *arguments]
    environment = {**os.environ, **ENVIRONMENT}
    ran = subprocess.run(
        start, env=environment, capture_output=True, text=True, timeout=stretched(170)
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"lake +delta lake +1,000 ", ran.stdout), ran.stdout
    found = DeltaTable(str(tmp_path / "lake")).to_pyarrow_table()
    assert sorted(found["id"].to_pylist()) == list(range(1000))
