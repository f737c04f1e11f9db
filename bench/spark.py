"""The works of the Spark table: Ottla's format beside Spark's official Kafka connector.

Both run on the same PySpark with the same settings, in processes of their own that take turns,
and against the same Ottla broker: what differs is the connector. Goals are the issue's.
"""

import json
import shutil
import subprocess
from pathlib import Path

from bench import spark_program, topics
from bench.arena import Arena, Pair
from bench.flood import fill, flood, record_batch
from bench.rows import Goal, Row
from bench.sizes import MESSAGE_BYTES
from testkit import java_runtime, spark_runtime
from testkit.errors import HarnessError
from testkit.server import Server
from testkit.spark_runtime import SparkRuntime

FULL_ROWS = 10_000_000
QUICK_ROWS = 1_000_000
FULL_ROUNDS = 3
PARTITIONS = 2
"""As many as there are threads: each connector reads a partition in one task."""
ROWS_A_TRIGGER = 500_000
ROWS_A_BATCH = 500
JOB_SECONDS = 900
TOPIC = "spark-rows"

WORKS = {
    "read": (f"Spark {spark_runtime.SPARK_VERSION}: batch read to noop", 2.0),
    "stream-read": ("stream read, 500,000 rows a trigger", 1.5),
    "write": ("at-least-once write", 2.0),
    "stream-write": ("exactly-once stream write (official: at least once)", 1.2),
}


def spark(arena: Arena, pair: Pair) -> list[Row]:
    """Rows a second of 200 bytes, on local[2]."""
    is_full = arena.sizes.batched >= FULL_ROWS // 4
    rows = FULL_ROWS if is_full else QUICK_ROWS
    rounds = FULL_ROUNDS if is_full else 1
    arena.say(f"spark: getting PySpark {spark_runtime.SPARK_VERSION} and the official connector")
    runtime = spark_runtime.fetch(java_runtime.WORK)
    server = pair.ottla
    arena.say(f"spark: writing {rows:,} rows")
    _fill(server, rows)
    samples: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        for work in WORKS:
            for connector in spark_program.OPTIONS:
                rate = _measure(arena, runtime, server, connector, work, rows, number)
                samples.setdefault((work, connector), []).append(rate)
                arena.say(
                    f"spark: {work}, round {number + 1} of {rounds}, {connector} {rate:,.0f}/s"
                )
    topics.delete(server, TOPIC)
    return [
        Row(
            name,
            "rows",
            "/s",
            samples[work, "kafka"],
            samples[work, "ottla"],
            Goal(ratio_at_least=least),
        )
        for work, (name, least) in WORKS.items()
    ]


def _fill(server: Server, rows: int) -> None:
    batch = record_batch(ROWS_A_BATCH, MESSAGE_BYTES)
    topics.create(server, TOPIC, PARTITIONS)
    fill(server, TOPIC, PARTITIONS, batch)
    left = rows // ROWS_A_BATCH - PARTITIONS
    flood(server, TOPIC, [index % PARTITIONS for index in range(left)], batch)


def _measure(
    arena: Arena,
    runtime: SparkRuntime,
    server: Server,
    connector: str,
    work: str,
    rows: int,
    number: int,
) -> float:
    """Rows a second of one job in a process of its own."""
    folder = arena.folder / f"spark-{connector}-{work}-{number}"
    folder.mkdir()
    topic = TOPIC
    if "write" in work:
        topic = f"spark-{connector}-{work}-{number}"
        topics.create(server, topic, PARTITIONS)
    job = {
        "format": connector,
        "work": work,
        "rows": rows,
        "topic": topic,
        "partitions": PARTITIONS,
        "rows_a_trigger": ROWS_A_TRIGGER,
        "bootstrap": server.bootstrap,
        "folder": str(folder),
    }
    try:
        done = subprocess.run(
            runtime.command(Path(spark_program.__file__), json.dumps(job)),
            env=runtime.environment(),
            capture_output=True,
            text=True,
            timeout=JOB_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(f"{work} by {connector} took more than {JOB_SECONDS} s") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if topic != TOPIC:
            topics.delete(server, topic)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no message"]
        raise HarnessError(f"{work} by {connector}: {said[-1]}")
    result = json.loads(done.stdout.splitlines()[-1])
    return float(result["rows"] / result["seconds"])
