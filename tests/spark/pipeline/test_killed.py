"""A pipeline's driver killed with -9 in the middle, again and again: each row arrives once."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from deltalake import DeltaTable

from ottla.client import Admin, Client
from ottla.embedded import Broker

from .running import committed, event, send

ROWS = 6_000
ROUNDS = 2
PIPELINE = """\
checkpoint: state
spark: {{spark.master: "local[2]"}}
sources:
  in:
    topic: {topic}
    format: json
    schema: id INT NOT NULL, type STRING, at TIMESTAMP
    dead_letters: {topic}.broken
    rows_per_batch: 500
sinks:
  out: {{from: in, topic: "{topic}.{{type}}", value: CAST(id AS STRING)}}
  lake: {{from: in, lake: lake, format: delta}}
"""


def start(file: Path, bootstrap: str, *more: str) -> subprocess.Popen[bytes]:
    program = "import sys; from ottla.cli.pipeline import command; command()"
    arguments = ["run", str(file), "--bootstrap", bootstrap, *more]
    with (file.parent / "out.txt").open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def wait_for_batches(state: Path, number: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a query has finished some more batches."""
    deadline = time.monotonic() + 100
    before = len(list((state / "out" / "commits").glob("[0-9]*")))
    while len(list((state / "out" / "commits").glob("[0-9]*"))) < before + number:
        assert process.poll() is None, (state.parent / "out.txt").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_pipeline_loses_and_doubles_nothing(ottla_broker: Broker, tmp_path: Path) -> None:
    topic = "killed"
    bootstrap = ottla_broker.bootstrap_servers
    with Client(bootstrap) as client:
        Admin(client).create_topic(topic, partitions=2)
        send(client, topic, (event(n, "ab"[n % 2], "10:00:00") for n in range(ROWS)))
        file = tmp_path / "killed.yaml"
        file.write_text(PIPELINE.format(topic=topic))
        for chance in random.Random(5).choices(range(100), k=ROUNDS):
            process = start(file, bootstrap)
            wait_for_batches(tmp_path / "state", 2, process)
            time.sleep(chance / 200)
            # The session's process group has the JVM and the Python workers in it as well.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        done = start(file, bootstrap, "--once")
        assert done.wait(120) == 0, (tmp_path / "out.txt").read_text()
        values = [*committed(client, f"{topic}.a"), *committed(client, f"{topic}.b")]
    assert Counter(map(int, values)) == Counter(range(ROWS))
    lake = DeltaTable(str(tmp_path / "lake")).to_pyarrow_table(columns=["id"])
    assert Counter(lake["id"].to_pylist()) == Counter(range(ROWS))
