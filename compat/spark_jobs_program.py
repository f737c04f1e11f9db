"""The same Spark jobs through the formats "kafka" (Spark's own) and "ottla", in one session.

`spark_jobs_program.py GIVEN`, a JSON object: bootstrap, folder, topics. It prints a line of JSON
for each job: its name, and what each format gave. Whether the two are equal is for the caller to
say. It runs on the PySpark that the official connector was made for.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

FORMATS = ("kafka", "ottla")
Result = Any
"""Whatever JSON can say of what a job gave."""


def session() -> SparkSession:
    """A session with the official connector's jars."""
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.jars", os.environ["SPARK_CONNECTOR_JARS"])
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


class Jobs:
    """All jobs; each is a function from a format to its result."""

    def __init__(self, spark: SparkSession, given: dict[str, Any]) -> None:
        self._spark = spark
        self._bootstrap: str = given["bootstrap"]
        self._folder = Path(given["folder"])
        self._plain: str = given["plain"]
        self._other: str = given["other"]
        self._transactional: str = given["transactional"]
        self._cut: str = given["cut"]
        self._middle: int = given["middle"]

    def all(self) -> dict[str, Callable[[str], Result]]:
        """Jobs by name."""
        plain = self._plain
        offsets = json.dumps({plain: {"0": 3, "1": -2, "2": 0}})
        ends = json.dumps({plain: {"0": -1, "1": 5, "2": 4}})
        times = json.dumps({plain: dict.fromkeys("012", self._middle)})
        return {
            "every column": self._reading(subscribe=plain, includeHeaders="true"),
            "offsets": self._reading(subscribe=plain, startingOffsets=offsets, endingOffsets=ends),
            "a timestamp to start at": self._reading(
                subscribe=plain, startingTimestamp=str(self._middle)
            ),
            "a timestamp to end at": self._reading(
                subscribe=plain, endingTimestamp=str(self._middle)
            ),
            "timestamps by partition": self._reading(
                subscribe=plain, startingOffsetsByTimestamp=times
            ),
            "no record as late": self._reading(
                subscribe=plain,
                startingTimestamp="99999999999999",
                startingOffsetsByTimestampStrategy="latest",
            ),
            "two topics": self._reading(subscribe=f"{plain},{self._other}"),
            "a pattern": self._reading(subscribePattern=f"{plain[:-3]}...|{self._other}"),
            "partitions": self._reading(assign=json.dumps({plain: [0, 2]})),
            "committed transactions": self._reading(
                subscribe=self._transactional, **{"kafka.isolation.level": "read_committed"}
            ),
            "all transactions": self._reading(
                subscribe=self._transactional, **{"kafka.isolation.level": "read_uncommitted"}
            ),
            "tasks": lambda name: self._frame(
                name, subscribe=plain, minPartitions="7"
            ).rdd.getNumPartitions(),
            "a stream in one go": lambda name: self._stream(name, "whole", {}),
            "a stream in steps": lambda name: self._stream(
                name, "steps", {"maxOffsetsPerTrigger": "7"}
            ),
            "offsets that were cut": self._refused(
                subscribe=self._cut, startingOffsets=json.dumps({self._cut: {"0": 0}})
            ),
            "no such topic": self._refused(subscribe="there-is-none"),
            "an end before the start": self._refused(
                subscribe=plain, startingOffsets=ends, endingOffsets=offsets
            ),
            "a typing error in JSON": self._refused(subscribe=plain, startingOffsets="{"),
            "written rows": self._written,
        }

    def _frame(self, name: str, **options: str) -> DataFrame:
        reader = self._spark.read.format(name).option("kafka.bootstrap.servers", self._bootstrap)
        return reader.options(**options).load()

    def _reading(self, **options: str) -> Callable[[str], Result]:
        return lambda name: in_order(self._frame(name, **options).collect())

    def _refused(self, **options: str) -> Callable[[str], Result]:
        def run(name: str) -> Result:
            try:
                self._frame(name, **options).collect()
            except Exception:  # noqa: BLE001 (that it fails is the claim; words differ)
                return "refused"
            return "accepted"

        return run

    def _stream(self, name: str, job: str, options: dict[str, str]) -> Result:
        """The rows, and how many offsets of each partition each batch with rows had taken."""
        batches: dict[int, list[Row]] = {}

        def take(frame: DataFrame, batch_id: int) -> None:
            batches[batch_id] = frame.collect()

        query = (
            self._spark.readStream.format(name)
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", self._plain)
            .option("startingOffsets", "earliest")
            .options(**options)
            .load()
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self._folder / f"{name}-{job}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        ends = [
            json.loads(progress["sources"][0]["endOffset"])[self._plain]
            for progress in query.recentProgress
            if progress["numInputRows"]
        ]
        return {
            "rows": in_order([row for rows in batches.values() for row in rows]),
            "ends": ends,
        }

    def _written(self, name: str) -> Result:
        """Rows written by one format and read by the other: where keys go, and what stays."""
        topic = f"{self._plain}-by-{name}"
        rows = self._spark.range(200).select(
            f.concat(f.lit("key "), f.col("id")).cast("binary").alias("key"),
            f.when(f.col("id") % 10 != 0, f.col("id").cast("string")).alias("value"),
            f.array(
                f.struct(f.lit("h").alias("key"), f.lit("x").cast("binary").alias("value"))
            ).alias("headers"),
        )
        # Spark's own sink hands headers on only when told; ours always does.
        options = {"includeHeaders": "true"} if name == "kafka" else {}
        (
            rows.write.format(name)
            .mode("append")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("topic", topic)
            .options(**options)
            .save()
        )
        other = FORMATS[1 - FORMATS.index(name)]
        read = self._frame(other, subscribe=topic, includeHeaders="true")
        found = read.select("key", "value", "partition", "headers").collect()
        return sorted(json.dumps(plain(row), sort_keys=True) for row in found)


def plain(row: Row) -> dict[str, Any]:
    """A row as JSON can say it."""

    def value(found: Any) -> Any:
        if isinstance(found, bytes | bytearray):
            return found.hex()
        if isinstance(found, Row):
            return plain(found)
        if isinstance(found, list):
            return [value(item) for item in found]
        return str(found) if hasattr(found, "isoformat") else found

    return {name: value(found) for name, found in row.asDict().items()}


def in_order(rows: list[Row]) -> Result:
    """Rows by topic, partition and offset."""
    ordered = sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))
    return [plain(row) for row in ordered]


def main() -> None:
    """Run all jobs through both formats."""
    spark = session()
    spark.sparkContext.setLogLevel("OFF")
    for name, job in Jobs(spark, json.loads(sys.argv[1])).all().items():
        print(json.dumps({"job": name, **{kind: job(kind) for kind in FORMATS}}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
