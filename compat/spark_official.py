"""Spark's official Kafka connector and Ottla's format: the same jobs give the same rows.

Both run on the PySpark that the connector was made for, against one Ottla broker: so this also
shows that Spark's own connector works with Ottla, and that Ottla's format works on that PySpark.
"""

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Producer

from compat import spark_jobs_program
from compat.checks import CheckError, check, expect, new_topic
from ottla.client import Admin, Client, TopicPartition
from testkit import spark_runtime
from testkit.java_runtime import WORK
from testkit.process import BrokerProcess

SECTION = "spark"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
FIRST_TIMESTAMP = 1_700_000_000_000
SECONDS = 600


@check(SECTION)
def rows_as_from_the_official_connector(broker: BrokerProcess) -> str:
    """All jobs of spark_jobs_program."""
    runtime = spark_runtime.fetch(WORK)
    with TemporaryDirectory() as folder:
        given = _topics(broker.bootstrap) | {"bootstrap": broker.bootstrap, "folder": folder}
        program = Path(spark_jobs_program.__file__)
        done = subprocess.run(
            runtime.command(program, json.dumps(given)),
            env=runtime.environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for result in results:
        expect(
            result["kafka"] == result["ottla"],
            f"{result['job']}: the official connector gave {_short(result['kafka'])}, "
            f"Ottla's format {_short(result['ottla'])}",
        )
    if done.returncode:
        last = results[-1]["job"] if results else "the start"
        raise CheckError(f"after {last}: {done.stderr.strip().splitlines()[-1:]}")
    by_name = {result["job"]: result["kafka"] for result in results}
    expect(len(by_name["every column"]) == len(CODECS) * 12, "rows are missing in both")
    expect(by_name["no such topic"] == "refused", "a topic that is not there was read")
    rows = sum(len(result) for result in by_name.values() if isinstance(result, list))
    return f"{len(results)} jobs, {rows:,} rows, equal in all"


def _topics(bootstrap: str) -> dict[str, Any]:
    """Topics with what a source can meet, and their names."""
    names = {name: new_topic(f"spark-{name}") for name in ("plain", "other", "cut")}
    names["transactional"] = new_topic("spark-transactional")
    with Client(bootstrap) as client:
        admin = Admin(client)
        admin.create_topic(names["plain"], partitions=PARTITIONS)
        admin.create_topic(
            names["other"], partitions=1, settings={"message.timestamp.type": "LogAppendTime"}
        )
        admin.create_topic(names["cut"], partitions=1)
        admin.create_topic(names["transactional"], partitions=1)
        for kind in spark_jobs_program.FORMATS:
            admin.create_topic(f"{names['plain']}-by-{kind}", partitions=PARTITIONS)
        _write_plain(bootstrap, names["plain"])
        _write(bootstrap, names["other"], 5)
        _write(bootstrap, names["cut"], 5)
        admin.delete_records({TopicPartition(names["cut"], 0): 3})
    _write_transactions(bootstrap, names["transactional"])
    return names | {"middle": FIRST_TIMESTAMP + len(CODECS) * 6}


def _write_plain(bootstrap: str, topic: str) -> None:
    """Twelve records by each codec: with and without keys, values and headers."""
    for number, codec in enumerate(CODECS):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        for index in range(12):
            headers: list[tuple[str, str | bytes | None]] = [("codec", codec), ("none", None)]
            producer.produce(
                topic,
                value=None if index % 5 == 4 else f"{codec} {index} " + "." * 50,
                key=None if index % 2 else f"key {index}",
                partition=index % PARTITIONS,
                headers=headers if index % 3 == 0 else [],
                timestamp=FIRST_TIMESTAMP + number * 12 + index,
            )
        producer.flush()


def _write(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for index in range(count):
        producer.produce(topic, f"{topic} {index}", partition=0)
    producer.flush()


def _write_transactions(bootstrap: str, topic: str) -> None:
    """Committed and aborted ones in turn, an aborted one last."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for index in range(3):
            producer.produce(topic, f"{number} {index}", partition=0)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()


def _short(result: Any) -> str:
    text = json.dumps(result)
    return text if len(text) < 300 else f"{text[:300]}... ({len(text)} characters)"
