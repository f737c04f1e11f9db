"""What the tests of running pipelines share: events in topics, a pipeline file, one run of it."""

import io
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql import Row, SparkSession
from rich.console import Console

from ottla.client import Admin, Client, Producer, Reader
from ottla.client.admin import LATEST
from pyspark_ottla.pipeline.checking import load
from pyspark_ottla.pipeline.display import Display
from pyspark_ottla.pipeline.progress import QueryProgress
from pyspark_ottla.pipeline.running import PipelineRun

SHORT_LIVED_JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For the environment of processes whose JVMs end before optimising themselves pays."""


def send(client: Client, topic: str, values: Iterable[object]) -> None:
    """Texts and bytes as they are, None, and all else as JSON; the key is the number of each."""
    with Producer(client) as producer:
        for number, value in enumerate(values):
            if isinstance(value, str):
                data: bytes | None = value.encode()
            elif isinstance(value, bytes) or value is None:
                data = value
            else:
                data = json.dumps(value).encode()
            producer.send(topic, data, key=str(number).encode(), headers=[("was", b"here")])


def event(number: int, kind: str, at: str, **more: object) -> dict[str, object]:
    return {"id": number, "type": kind, "at": f"2026-11-16T{at}Z", **more}


def plain_display() -> tuple[Display, Callable[[], str]]:
    """A display, and what it has said up to now."""
    said = io.StringIO()
    return Display(Console(file=said, width=200)), said.getvalue


def run(
    spark: SparkSession, file: Path, bootstrap: str, stop: threading.Event | None = None
) -> dict[str, QueryProgress]:
    """Run a pipeline file once (or until the event is set) in the session of the tests."""
    pipeline = replace(load(str(file)), bootstrap=bootstrap)
    display, _ = plain_display()
    runner = PipelineRun(spark, pipeline, display, stop or threading.Event())
    return {done.name: done for done in runner.run(once=stop is None)}


def read(spark: SparkSession, bootstrap: str, topic: str) -> list[Row]:
    """All records of a topic that readers with read_committed see."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}
    return spark.read.format("ottla").options(**options).load().collect()


def committed(client: Client, topic: str) -> list[bytes]:
    """The values in a topic, as a reader of committed transactions sees them; needs no Spark."""
    admin = Admin(client)
    ends = admin.list_offsets(dict.fromkeys(admin.partitions(topic), LATEST))
    until = {partition: end.offset for partition, end in ends.items()}
    with Reader(client, dict.fromkeys(until, 0), until=until, read_committed=True) as reader:
        return [record.value or b"" for batch in reader for record in batch.records]


def values(rows: Iterable[Row]) -> list[dict[str, object]]:
    """The JSON in the records, in the order of their texts."""
    return [json.loads(text) for text in sorted(bytes(row["value"]).decode() for row in rows)]


def headers(row: Row) -> Mapping[str, str]:
    return {header["key"]: bytes(header["value"]).decode() for header in row["headers"]}
