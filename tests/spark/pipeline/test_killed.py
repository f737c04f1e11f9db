"""A pipeline that is killed with -9 or told to stop in the middle: each row arrives once."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from ottla.client import Admin, Client
from ottla.embedded import Broker
from pyspark_ottla.pipeline.problems import PipelineError
from testkit.waiting import stretched, until

from .running import SHORT_LIVED_JVM, committed, event, run, send

# Four Sparks one after the other, each waited for as long as the load of the machine asks for.
pytestmark = pytest.mark.timeout(1200)

ROWS_PER_RUN = 3_000
"""Six batches: more than a run finishes before it is ended, also by a test that is kept waiting."""
BATCHES_WITHIN_SECONDS = 200
PIPELINE = """\
checkpoint: state
spark: {{spark.master: "local[2]"}}
sources:
  in:
    topic: {topic}
    format: json
    schema: id INT NOT NULL, type STRING, at TIMESTAMP
    rows_per_batch: 500
sinks:
  out: {{from: in, topic: "{topic}.{{type}}", value: CAST(id AS STRING)}}
  lake: {{from: in, lake: lake, format: delta}}
"""


def more(client: Client, topic: str, begin: int) -> int:
    """Write the rows of one more run; returns how many there are then."""
    end = begin + ROWS_PER_RUN
    send(client, topic, (event(n, "ab"[n % 2], "10:00:00") for n in range(begin, end)))
    return end


def start(file: Path, bootstrap: str) -> subprocess.Popen[bytes]:
    program = "import sys; from ottla.cli.pipeline import command; command()"
    arguments = ["run", str(file), "--bootstrap", bootstrap]
    with (file.parent / "out.txt").open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**os.environ, **SHORT_LIVED_JVM},
        )


def wait_for_batches(state: Path, number: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a query has finished some more batches."""

    def finished() -> int:
        assert process.poll() is None, (state.parent / "out.txt").read_text()
        return len(list((state / "out" / "commits").glob("[0-9]*")))

    wanted = finished() + number
    until(lambda: finished() >= wanted, f"{number} more batches", BATCHES_WITHIN_SECONDS)


def interrupt(file: Path, bootstrap: str) -> subprocess.Popen[bytes]:
    """A run that has finished some batches, and is in the middle of another."""
    process = start(file, bootstrap)
    try:
        wait_for_batches(file.parent / "state", 2, process)
    except BaseException:
        kill(process)
        raise
    return process


def kill(process: subprocess.Popen[bytes]) -> None:
    # The JVM is in the same group; its Python workers end when it is gone.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def ends_well(process: subprocess.Popen[bytes], out: Path) -> None:
    """It was told to end: it does, with a summary and status 0."""
    try:
        assert process.wait(stretched(60)) == 0, out.read_text()
    finally:
        if process.poll() is None:
            kill(process)
    assert out.read_text().splitlines()[-2].split()[0] == "out", out.read_text()
    assert "rows/s" in out.read_text()
    assert "Traceback" not in out.read_text()


def test_a_pipeline_that_is_killed_or_stopped_loses_and_doubles_nothing(
    spark: SparkSession, ottla_broker: Broker, tmp_path: Path
) -> None:
    """Killed, stopped by SIGTERM, by Ctrl-C: each run continues from the same checkpoint. And while
    one runs, another is refused.
    """
    topic = "killed"
    bootstrap = ottla_broker.bootstrap_servers
    file, out = tmp_path / "killed.yaml", tmp_path / "out.txt"
    file.write_text(PIPELINE.format(topic=topic))
    with Client(bootstrap) as client:
        Admin(client).create_topic(topic, partitions=2)
        rows = more(client, topic, 0)
        first = interrupt(file, bootstrap)
        try:
            refusal = rf"in use by another run \(process {first.pid}\)"
            with pytest.raises(PipelineError, match=refusal):
                run(spark, file, bootstrap)
            wait_for_batches(tmp_path / "state", 1, first)
        finally:
            kill(first)
        assert "failed" not in out.read_text()
        out.unlink()
        rows = more(client, topic, rows)
        stopped = interrupt(file, bootstrap)
        stopped.send_signal(signal.SIGTERM)
        ends_well(stopped, out)
        out.unlink()
        rows = more(client, topic, rows)
        interrupted = interrupt(file, bootstrap)
        os.killpg(interrupted.pid, signal.SIGINT)  # Ctrl-C reaches all processes of the group.
        ends_well(interrupted, out)
        # The last run continues from the same checkpoint, in the Spark of the tests.
        rest = run(spark, file, bootstrap)
        assert all(done.rows > 0 for done in rest.values()), "they were stopped before the end"
        values = [*committed(client, f"{topic}.a"), *committed(client, f"{topic}.b")]
    assert Counter(map(int, values)) == Counter(range(rows))
    lake = DeltaTable(str(tmp_path / "lake")).to_pyarrow_table(columns=["id"])
    assert Counter(lake["id"].to_pylist()) == Counter(range(rows))
