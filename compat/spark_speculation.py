"""Attempts that lose: with speculation on, a task runs twice, and both write their rows.

    python -m compat.spark_speculation MASTER BOOTSTRAP TOPIC

runs a batch job and a stream on a standalone cluster of two workers. Spark starts another attempt
on another host only, so the workers have different addresses of this machine. The first attempt of
a task writes its rows and then stands still, so that Spark starts another one, which wins. What
must hold: every row is visible once, and nothing is left open.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

from testkit.process import BrokerProcess
from testkit.server import free_port

ROOT = Path(__file__).parent.parent
ROWS = 2_000
ROW_BYTES = 1_000
ROWS_IN_A_BATCH = 50
"""What is less than a buffer's size waits for the end of its task: rows are many and long, in small
batches, so that an attempt that stands still has written some of them."""
STILL_SECONDS = 60
PROGRAM_SECONDS = 400


def stand_still(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass rows on; the first attempt of the last partition ends too late."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    yield from batches
    if context.partitionId() == 3 and context.attemptNumber() == 0:
        time.sleep(STILL_SECONDS)


def main(master: str, bootstrap: str, topic: str) -> None:
    """Write twice the same rows: by a batch job, and by a stream."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", str(ROOT))
        .config("spark.executor.memory", "512m")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(ROWS_IN_A_BATCH))
        .config("spark.speculation", "true")
        .config("spark.speculation.interval", "100ms")
        .config("spark.speculation.multiplier", "1.5")
        .config("spark.speculation.quantile", "0.5")
        .config("spark.speculation.minTaskRuntime", "1s")
        .getOrCreate()
    )
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    rows = spark.range(0, ROWS, 1, 4).selectExpr(f"rpad(id, {ROW_BYTES}, ' ') value")
    slow = rows.mapInArrow(stand_still, "value string")
    slow.write.format("ottla").mode("append").options(**options).save()
    with tempfile.TemporaryDirectory() as folder:
        rows.write.text(f"{folder}/in")
        query = (
            spark.readStream.text(f"{folder}/in")
            .repartition(4)
            .mapInArrow(stand_still, "value string")
            .writeStream.format("ottla")
            .options(**options)
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    spark.stop()


@contextmanager
def cluster() -> Iterator[str]:
    """A standalone cluster of two workers, for as long as the `with` block runs; its address."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        commands = [
            [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port)],
            *(
                [
                    *(f"{deploy}.worker.Worker", "--host", host, "--cores", "2"),
                    *("--memory", "600m", "--work-dir", f"{folder}/{host}", master),
                ]
                for host in ("127.0.0.1", "127.0.0.2")
            ),
        ]
        for command in commands:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *command],
                env={**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            processes.callback(process.wait)
            processes.callback(process.terminate)
        yield master


def run(broker: BrokerProcess, topic: str) -> str:
    """Run the program, and look at what it left."""
    from collections import Counter

    from ottla.client import Client, Reader, TopicPartition
    from ottla.client.admin import LATEST, Admin
    from ottla.client.txn_admin import TxnAdmin
    from testkit.clients.confluent import Confluent

    Confluent(broker.bootstrap).create_topic(topic, 1)
    started = time.monotonic()
    with cluster() as master:
        subprocess.run(
            [sys.executable, "-m", "compat.spark_speculation", master, broker.bootstrap, topic],
            cwd=ROOT,
            check=True,
            timeout=PROGRAM_SECONDS,
        )
    took = time.monotonic() - started
    where = TopicPartition(topic, 0)
    with Client(broker.bootstrap) as client:
        if left := TxnAdmin(client).open_transactions([where]):
            raise AssertionError(f"transactions were left open: {left}")
        end = Admin(client).list_offsets({where: LATEST})[where].offset
        committed, everything = Counter[int](), 0
        for read_committed in (True, False):
            with Reader(
                client, {where: 0}, until={where: end}, read_committed=read_committed
            ) as reader:
                values = [record.value or b"" for batch in reader for record in batch.records]
            if read_committed:
                committed.update(map(int, values))
            else:
                everything = len(values)
    wanted = Counter(dict.fromkeys(range(ROWS), 2))
    if committed != wanted:
        raise AssertionError(f"not each row once: {(committed - wanted) + (wanted - committed)}")
    lost = everything - 2 * ROWS
    if not lost:
        raise AssertionError("no attempt has lost: nothing was tried")
    return f"{lost} rows of losing attempts are not visible, the others are; {took:.0f} s"


if __name__ == "__main__":
    main(*sys.argv[1:])
