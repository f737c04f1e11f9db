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

# Three Sparks one after the other, each waited for as long as the load of the machine asks for.
pytestmark = pytest.mark.timeout(1200)

ROWS = 4_000
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


def test_a_pipeline_that_is_killed_or_stopped_loses_and_doubles_nothing(
    spark: SparkSession, ottla_broker: Broker, tmp_path: Path
) -> None:
    topic = "killed"
    bootstrap = ottla_broker.bootstrap_servers
    file, out = tmp_path / "killed.yaml", tmp_path / "out.txt"
    file.write_text(PIPELINE.format(topic=topic))
    with Client(bootstrap) as client:
        Admin(client).create_topic(topic, partitions=2)
        send(client, topic, (event(n, "ab"[n % 2], "10:00:00") for n in range(ROWS)))
        kill(interrupt(file, bootstrap))
        stopped = interrupt(file, bootstrap)
        stopped.send_signal(signal.SIGTERM)
        try:
            assert stopped.wait(stretched(60)) == 0, out.read_text()
        finally:
            if stopped.poll() is None:
                kill(stopped)
        assert "rows/s" in out.read_text(), "it ends with a summary"
        # The third run continues from the same checkpoint, in another Spark.
        rest = run(spark, file, bootstrap)
        assert all(done.rows > 0 for done in rest.values()), "they were stopped before the end"
        values = [*committed(client, f"{topic}.a"), *committed(client, f"{topic}.b")]
    assert Counter(map(int, values)) == Counter(range(ROWS))
    lake = DeltaTable(str(tmp_path / "lake")).to_pyarrow_table(columns=["id"])
    assert Counter(lake["id"].to_pylist()) == Counter(range(ROWS))


def test_two_runs_on_one_checkpoint_exclude_each_other(
    spark: SparkSession, bootstrap: str, client: Client, topic: str, tmp_path: Path
) -> None:
    file, out = tmp_path / "p.yaml", tmp_path / "out.txt"
    file.write_text(PIPELINE.format(topic=topic))
    send(client, topic, (event(n, "ab"[n % 2], "10:00:00") for n in range(ROWS)))
    first = interrupt(file, bootstrap)
    try:
        with pytest.raises(PipelineError, match=rf"in use by another run \(process {first.pid}\)"):
            run(spark, file, bootstrap)
        wait_for_batches(tmp_path / "state", 1, first)
    finally:
        kill(first)
    assert "failed" not in out.read_text()
    run(spark, file, bootstrap)
    values = [*committed(client, f"{topic}.a"), *committed(client, f"{topic}.b")]
    assert Counter(map(int, values)) == Counter(range(ROWS))


def test_an_interrupt_from_the_terminal_ends_with_a_summary_and_status_0(
    bootstrap: str, client: Client, topic: str, tmp_path: Path
) -> None:
    file, out = tmp_path / "p.yaml", tmp_path / "out.txt"
    file.write_text(PIPELINE.format(topic=topic))
    send(client, topic, (event(n, "ab"[n % 2], "10:00:00") for n in range(ROWS)))
    process = interrupt(file, bootstrap)
    try:
        os.killpg(process.pid, signal.SIGINT)  # Ctrl-C reaches all processes of the group.
        assert process.wait(stretched(60)) == 0, out.read_text()
    finally:
        if process.poll() is None:
            kill(process)
    assert out.read_text().splitlines()[-2].split()[0] == "out", out.read_text()
    assert "Traceback" not in out.read_text()
