"""A Spark driver to be killed at any moment and started again: it copies a topic, exactly once.

    python -m compat.spark_faults_program '{"bootstrap": ..., "source": ..., ...}'

It ends with status 0 at the end of its standard input, and with 1 when its query has failed.
Whoever started it starts it again: the checkpoint says where it goes on.
"""

import os
import sys

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from compat.member_program import input_has_ended

POLL_SECONDS = 1
ATTEMPTS = 3
"""A task whose worker was killed is tried again; a killed commit fails the query."""


class StreamTask(msgspec.Struct, frozen=True):
    """What the program is to do."""

    bootstrap: str
    source: str
    target: str
    checkpoint: str
    rows_in_a_batch: int


def main(task: StreamTask) -> int:
    """Run the query until it fails or is not wanted any more."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(f"local[2,{ATTEMPTS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    query = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", task.bootstrap)
        .option("subscribe", task.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(task.rows_in_a_batch))
        .load()
        .selectExpr("value as key", "value")
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", task.bootstrap)
        .option("topic", task.target)
        .option("checkpointLocation", task.checkpoint)
        .start()
    )
    while query.isActive and not input_has_ended():
        try:
            query.awaitTermination(POLL_SECONDS)
        except StreamingQueryException as problem:
            print(problem, file=sys.stderr)
            return 1
    query.stop()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=StreamTask)))
