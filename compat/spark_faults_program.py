"""A Spark driver to be killed at any moment and started again: it copies a topic, exactly once.

    python -m compat.spark_faults_program '{"bootstrap": ..., "source": ..., ...}'

A query that fails is started again from its checkpoint, and what it failed of is printed. The
program ends with status 0 at the end of its standard input. What kills it starts it again.
"""

import os
import sys
import time

import msgspec
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no stubs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_ottla import each_batch
from pyspark_ottla.pipeline.failures import cause, failure_of
from testkit.member_program import input_has_ended

POLL_SECONDS = 1
ATTEMPTS = 3
"""A task whose worker was killed is tried again; a killed commit fails the query."""
FAILED = "the query failed: "


class StreamTask(msgspec.Struct, frozen=True):
    """What the program is to do."""

    bootstrap: str
    source: str
    target: str
    checkpoint: str
    rows_in_a_batch: int
    audit: bool = False
    by_foreach_batch: bool = False
    """Write by `foreachBatch`, in place of the sink for streams."""


def start(spark: SparkSession, task: StreamTask) -> StreamingQuery:
    """The query, from where its checkpoint says."""
    rows = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", task.bootstrap)
        .option("subscribe", task.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(task.rows_in_a_batch))
        .option("audit", str(task.audit).lower())
        .load()
        .selectExpr("value as key", "value")
    )
    options = {
        "kafka.bootstrap.servers": task.bootstrap,
        "topic": task.target,
        "audit": str(task.audit).lower(),
    }
    writer = rows.writeStream.option("checkpointLocation", task.checkpoint)
    if task.by_foreach_batch:
        return writer.foreachBatch(each_batch(options)).start()
    return writer.format("ottla").options(**options).start()


def main(task: StreamTask) -> int:
    """Run the query until it is no longer wanted."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(f"local[2,{ATTEMPTS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    query: StreamingQuery | None = None
    while not input_has_ended():
        try:
            query = query or start(spark, task)
            query.awaitTermination(POLL_SECONDS)
        except (PySparkException, Py4JJavaError) as problem:
            # To start it fails as well, as long as Spark has not noticed which processes are gone.
            failure = None if query is None else failure_of(query)
            print(f"{FAILED}{cause(failure or str(problem))}", flush=True)
            query = None
            time.sleep(POLL_SECONDS)
    if query is not None:
        query.stop()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=StreamTask)))
