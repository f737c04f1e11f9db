"""The demo: an hour of a web shop's clicks through a broker, a pipeline and a lake.

    python examples/demo.py [--events 1000000] [--keep]

Starts Ottla on a free port and a temporary folder, lets `click_events.py` send events to it with
confluent-kafka, runs `pipelines/clicks.yaml` on Spark meanwhile, and looks at what came of it. It
ends with the audit, a query over the lake, and a comparison with what was sent; nothing is left
running, and nothing on the disk but what --keep keeps.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import ottla
from ottla.cli.main import main as ottla_command
from ottla.client import Admin, Client, Reader
from ottla.client.admin import LATEST
from pyspark_ottla.pipeline.checking import load
from pyspark_ottla.pipeline.display import Display
from pyspark_ottla.pipeline.problems import PipelineError
from pyspark_ottla.pipeline.progress import QueryProgress
from pyspark_ottla.pipeline.running import PipelineRun, log_file, stopping
from pyspark_ottla.pipeline.session import require_java, settings_for, start_session

if TYPE_CHECKING:
    from ottla.records import Record
    from pyspark_ottla.pipeline.model import Pipeline

EXAMPLES = Path(__file__).parent
TOPIC = "clicks"
PARTITIONS = 4
TYPES = ("view", "search", "cart", "buy")
LAKE_QUERY = """
    SELECT section, count(*) AS events, count(DISTINCT "user") AS users, sum(price) AS revenue
    FROM lake GROUP BY section ORDER BY events DESC
"""
BROKER_SETTINGS = {"ottla.audit.enable": "true", "ottla.audit.interval.ms": "1000"}

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


class Shop:
    """The process that sends the events, and what it says of them."""

    def __init__(self, bootstrap: str, count: int) -> None:
        self._command = [
            sys.executable,
            str(EXAMPLES / "click_events.py"),
            f"--bootstrap={bootstrap}",
            f"--topic={TOPIC}",
            f"--events={count}",
        ]
        self._process: subprocess.Popen[str] | None = None
        self._sent = 0
        self.truth: Counter[str] = Counter()
        self.seconds = 0.0

    def start(self) -> None:
        """Begin to send, if it has not."""
        if self._process is None:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self._follow, args=(self._process,), daemon=True).start()

    def _follow(self, process: "subprocess.Popen[str]") -> None:
        started = time.perf_counter()
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                self.seconds = time.perf_counter() - started
                self.truth = Counter(json.loads(line))
            else:
                self._sent = int(line)

    @property
    def total(self) -> int:
        """The records in the topic; 0 until it is known."""
        return self.truth["events"] + self.truth["duplicates"] + self.truth["broken"]

    @property
    def failed(self) -> bool:
        """Whether it ended with an error."""
        return self._process is not None and self._process.poll() not in (None, 0)

    def end(self) -> None:
        """Whatever happens, it does not stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def line(self) -> str:
        """For people."""
        return f"the shop has sent {self.total or self._sent:,} events" + (
            f", all in {self.seconds:.1f} s" if self.truth else ""
        )


def main() -> int:
    """Run the demo; returns the exit status."""
    parser = argparse.ArgumentParser(description="A broker, a million clicks, a pipeline, a lake.")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--keep", action="store_true", help="keep the folder with all data")
    given = parser.parse_args()
    try:
        require_java()
        with work_folder(keep=given.keep) as folder:
            return demo(folder, given.events)
    except PipelineError as problem:
        console.print(f"[red]{problem}[/]")
        return 1
    except KeyboardInterrupt:
        return 130


def demo(folder: Path, count: int) -> int:
    """All of it, in a folder."""
    started = time.perf_counter()
    with ottla.Broker(data=folder / "broker", config=BROKER_SETTINGS) as broker:
        bootstrap = broker.bootstrap_servers
        took = (time.perf_counter() - started) * 1000
        title(f"Ottla serves Kafka clients at {bootstrap} (started in {took:.0f} ms, no JVM)")
        with Client(bootstrap) as client:
            Admin(client).create_topic(TOPIC, partitions=PARTITIONS)
        file = folder / "clicks.yaml"
        ottla_command(["pipeline", "check", str(file)])
        pipeline = replace(load(str(file)), bootstrap=bootstrap)
        shop = stream(pipeline, bootstrap, count)
        title("Dead letters, by reason")
        broken = dead_letters(bootstrap)
        title("The last minutes that are closed")
        minutes(bootstrap)
        title("The audit: what was produced, stored and consumed")
        audited = ottla_command(["audit", TOPIC, "--bootstrap", bootstrap])
        title("One query over the lake")
        lake = query_lake(folder / "work" / "lake")
        title("What was sent, and what came of it")
        right = compare(shop, bootstrap, broken, lake)
    console.print(f"Done in {time.perf_counter() - started:.0f} seconds. The broker is stopped.")
    return 0 if right and audited == 0 else 1


def stream(pipeline: "Pipeline", bootstrap: str, count: int) -> Shop:
    """Start the pipeline, let the shop send, and stop when every sink has read everything."""
    log = log_file(pipeline)
    console.print(f"Starting Spark (its log is {log}) ...")
    shop = Shop(bootstrap, count)

    def watch(queries: list[QueryProgress]) -> bool:
        shop.start()
        if shop.failed:
            raise PipelineError("the events could not be sent")
        return not shop.total or any(query.read < shop.total for query in queries)

    with stopping() as stop:
        spark = start_session("ottla demo", settings_for("local[*]", pipeline.spark), log)
        try:
            PipelineRun(spark, pipeline, Display(console, shop.line), stop).run(
                once=False, watch=watch
            )
        finally:
            shop.end()
            spark.stop()
        if stop.is_set():
            raise KeyboardInterrupt
    return shop


def dead_letters(bootstrap: str) -> int:
    """Show the reasons; returns how many letters there are."""
    reasons: Counter[str] = Counter()
    for record in records(bootstrap, f"{TOPIC}.broken"):
        headers = dict(record.headers)
        reasons[(headers["ottla.reason"] or b"").decode()] += 1
    show(("reason", "records"), reasons.most_common(6))
    return reasons.total()


def minutes(bootstrap: str) -> None:
    """Show the newest rows of the counts by minute."""
    found = [json.loads(record.value or b"{}") for record in records(bootstrap, f"{TOPIC}.minutes")]
    by_minute: dict[str, Counter[str]] = {}
    for row in found:
        by_minute.setdefault(row["minute"], Counter())[row["type"]] = row["events"]
    rows = [
        (minute[11:16], *(counts[kind] for kind in TYPES))
        for minute, counts in sorted(by_minute.items())[-5:]
    ]
    show(("minute", *TYPES), rows)


def query_lake(path: Path) -> int:
    """Ask the Delta table something, without Spark; returns how many rows it has."""
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
    from deltalake import DeltaTable, QueryBuilder

    table = DeltaTable(str(path))
    result = pa.table(QueryBuilder().register("lake", table).execute(LAKE_QUERY).read_all())
    rows = [tuple(row.values()) for row in result.to_pylist()]
    show(result.column_names, rows)
    files = len(table.file_uris())
    total = sum(int(row[1]) for row in rows)
    console.print(f"{total:,} rows in {files} files, version {table.version()} of the table")
    return total


def compare(shop: Shop, bootstrap: str, broken: int, lake: int) -> bool:
    """Show what must be equal; returns whether it is."""
    truth = shop.truth
    with Client(bootstrap) as client:
        split = {kind: count(client, f"{TOPIC}.{kind}") for kind in TYPES}
    lines = [
        ("events, each once: rows in the lake", truth["events"], lake),
        ("broken records: dead letters", truth["broken"], broken),
        *((f"{kind}: records in {TOPIC}.{kind}", truth[kind], split[kind]) for kind in TYPES),
    ]
    verdicts = ["equal" if sent == got else "DIFFERENT" for _, sent, got in lines]
    shown = [(*line, verdict) for line, verdict in zip(lines, verdicts, strict=True)]
    show(("", "sent", "arrived", ""), shown)
    console.print(
        f"Among them {truth['late']:,} late ones, and {truth['duplicates']:,} that were sent "
        f"twice. Sending took {shop.seconds:.1f} s."
    )
    return all(sent == got for _, sent, got in lines)


def count(client: Client, topic: str) -> int:
    """The records that a reader of committed transactions sees; batches say how many they hold."""
    total = 0
    with reader(client, topic) as reading:
        while not reading.finished:
            total += sum(batch.header.record_count for batch in reading.poll_raw())
    return total


def records(bootstrap: str, topic: str) -> "list[Record]":
    """All committed records of a topic."""
    with Client(bootstrap) as client, reader(client, topic) as reading:
        return [record for batch in reading for record in batch.records]


def reader(client: Client, topic: str) -> Reader:
    """From the topic's beginning to its present end."""
    admin = Admin(client)
    partitions = admin.partitions(topic)
    ends = admin.list_offsets(dict.fromkeys(partitions, LATEST))
    return Reader(
        client,
        dict.fromkeys(partitions, 0),
        until={partition: found.offset for partition, found in ends.items()},
        read_committed=True,
    )


def title(text: str) -> None:
    """What comes next."""
    console.print(f"\n[bold]{text}[/]")


def show(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for number, name in enumerate(columns):
        numeric = any(isinstance(row[number], (int, float)) for row in rows)
        table.add_column(name, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    console.print(table)


def cell(value: object) -> str:
    """A value for people."""
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str("-" if value is None else value)


@contextmanager
def work_folder(*, keep: bool) -> Iterator[Path]:
    """A folder with the pipeline in it, which is removed in the end."""
    folder = Path(tempfile.mkdtemp(prefix="ottla-demo-"))
    try:
        for name in ("clicks.yaml", "pages.csv"):
            shutil.copy(EXAMPLES / "pipelines" / name, folder)
        yield folder
    finally:
        if keep:
            console.print(f"All data are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
