"""One measured Spark job in a process of its own: `spark_program.py JOB`, a JSON object.

It prints one line of JSON: rows, and the seconds they took. The session is warm by then: a small
job of the same kind has run before. What a broker writes finds memory at hand (`bench.disk`).
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

from bench import disk

OPTIONS: dict[str, dict[str, dict[str, str]]] = {
    "kafka": {"write": {}, "stream-write": {}},
    "ottla": {
        "write": {"guarantee": "at-least-once"},
        "stream-write": {"guarantee": "exactly-once"},
    },
}
WARM_UP_ROWS = 1_000_000
"""As many as the official connector's writer needs until most of it is compiled."""
ROW_BYTES = 200
FIRST = 10**18
"""Added to the numbers of rows, so that all have as many digits."""


def session() -> SparkSession:
    """A session with the official connector's jars."""
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.jars", os.environ["SPARK_CONNECTOR_JARS"])
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


class Job:
    """What one process measures."""

    def __init__(self, spark: SparkSession, given: dict[str, Any]) -> None:
        self._spark = spark
        self._given = given
        self._format: str = given["format"]
        self._work = Path(given["folder"])

    def run(self) -> dict[str, float]:
        """Run the work that was asked for."""
        work = {
            "read": self._read,
            "stream-read": self._stream_read,
            "write": self._write,
            "stream-write": self._stream_write,
        }[self._given["work"]]
        rows: int = self._given["rows"]
        if self._given["work"] == "stream-write":
            self._files(rows)
        work(min(rows, WARM_UP_ROWS), "warm-up")
        if "write" in self._given["work"]:
            disk.settle(self._work, rows * ROW_BYTES)
        began = time.monotonic()
        work(rows, "measured")
        return {"rows": rows, "seconds": time.monotonic() - began}

    def _address(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self._given["bootstrap"]}

    def _offsets(self, rows: int) -> str:
        """The end of the first `rows` rows, which are spread evenly."""
        partitions: int = self._given["partitions"]
        ends = {str(partition): rows // partitions for partition in range(partitions)}
        return json.dumps({self._given["topic"]: ends})

    def _read(self, rows: int, _: str) -> None:
        frame = (
            self._spark.read.format(self._format)
            .options(**self._address())
            .option("subscribe", self._given["topic"])
            .option("endingOffsets", self._offsets(rows))
            .load()
        )
        frame.write.format("noop").mode("overwrite").save()

    def _stream_read(self, rows: int, name: str) -> None:
        """From so many rows before the end on."""
        partitions: int = self._given["partitions"]
        first = (self._given["rows"] - rows) // partitions
        starts = {str(partition): first for partition in range(partitions)}
        frame = (
            self._spark.readStream.format(self._format)
            .options(**self._address())
            .option("subscribe", self._given["topic"])
            .option("startingOffsets", json.dumps({self._given["topic"]: starts}))
            .option("maxOffsetsPerTrigger", self._given["rows_a_trigger"])
            .load()
        )
        self._stream(frame.writeStream.format("noop"), name)

    def _write(self, rows: int, _: str) -> None:
        ids = self._spark.range(0, rows, 1, 2)
        writer = ids.select(value(f.col("id"))).write.format(self._format).mode("append")
        self._to_topic(writer, "write").save()

    def _stream_write(self, rows: int, name: str) -> None:
        """From files, two of them for each trigger: one for each thread."""
        frame = (
            self._spark.readStream.schema("id long")
            .option("maxFilesPerTrigger", 2)
            .parquet(str(self._files(rows)))
        )
        writer = frame.select(value(f.col("id"))).writeStream.format(self._format)
        self._stream(self._to_topic(writer, "stream-write"), name)

    def _files(self, rows: int) -> Path:
        files = self._work / f"rows-{rows}"
        if not files.exists():
            triggers = max(rows // self._given["rows_a_trigger"], 1)
            self._spark.range(0, rows, 1, 2 * triggers).write.parquet(str(files))
        return files

    def _to_topic(self, writer: Any, work: str) -> Any:
        return (
            writer.options(**self._address())
            .options(**OPTIONS[self._format][work])
            .option("topic", self._given["topic"])
        )

    def _stream(self, writer: Any, name: str) -> None:
        checkpoint = self._work / f"checkpoint-{name}"
        query = (
            writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        )
        query.awaitTermination()


def value(number: Column) -> Column:
    """200 bytes for a number, cheaply: both connectors wait for the rows, and are what is measured.

    Spark's `rpad` copies byte by byte, which took longer than writing the row does.
    """
    digits = (number + FIRST).cast("string")
    rest = ROW_BYTES - len(str(FIRST))
    return f.concat(digits, f.lit("x" * rest)).cast("binary").alias("value")


def main() -> None:
    """Run one job and print what it took."""
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    result = Job(spark, json.loads(sys.argv[1])).run()
    print(json.dumps(result), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
