"""`foreachBatch` with numbered batch writes, `outputMode("update")`, and the modes of a write."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla.client import Client
from pyspark_ottla import each_batch
from tests.spark.sink.acting import told, visible
from tests.spark.sink.test_writing import NewTopic, add_file

Batch = Callable[[DataFrame, int], None]


def run(spark: SparkSession, folder: Path, write: Batch) -> None:
    """Take what is new in a folder of text files, one file a batch."""
    lines = spark.readStream.option("maxFilesPerTrigger", "1").text(str(folder / "in"))
    query = (
        lines.selectExpr("value as key", "value")
        .repartition(2)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def forget_last_commit(folder: Path) -> None:
    """Spark forgets that its last batch was committed, as after a crash just then."""
    last = max(int(path.name) for path in (folder / "checkpoint/commits").glob("[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):
        (folder / "checkpoint" / "commits" / name).unlink(missing_ok=True)


def test_several_sinks_of_a_batch_are_each_written_once(
    spark: SparkSession, bootstrap: str, client: Client, new_topic: NewTopic, tmp_path: Path
) -> None:
    topics = [new_topic(), new_topic()]
    fails = [True]

    def write(rows: DataFrame, batch: int) -> None:
        for number, topic in enumerate(topics):
            if number and batch and fails and fails.pop():
                raise ValueError("between the sinks")
            numbered = {"sinkId": f"sink-{topic}", "batchId": str(batch)}
            writer = rows.write.format("ottla").options(**numbered, topic=topic, audit="true")
            writer.option("kafka.bootstrap.servers", bootstrap).mode("append").save()

    add_file(tmp_path, "1.txt", range(50))
    add_file(tmp_path, "2.txt", range(50, 80))
    with pytest.raises(Exception, match="between the sinks"):
        run(spark, tmp_path, write)
    assert [len(visible(client, topic)) for topic in topics] == [80, 50]
    run(spark, tmp_path, write)
    forget_last_commit(tmp_path)
    run(spark, tmp_path, write)
    for topic in topics:
        assert visible(client, topic) == sorted(map(str, range(80)))
        counted = [sum(count for *_, count in event.counts) for event in told(client, topic)]
        assert counted == [50, 30]


def test_sinks_of_a_batch_that_share_a_sink_id_by_mistake_are_found_out(
    spark: SparkSession, bootstrap: str, client: Client, new_topic: NewTopic, tmp_path: Path
) -> None:
    topics = [new_topic(), new_topic()]

    def write(rows: DataFrame, batch: int) -> None:
        for topic in topics:
            each_batch({"kafka.bootstrap.servers": bootstrap, "topic": topic})(rows, batch)

    add_file(tmp_path, "1.txt", range(5))
    with pytest.raises(Exception, match=f"belongs to batch writes of the query .* {topics[0]},"):
        run(spark, tmp_path, write)
    assert [len(visible(client, topic)) for topic in topics] == [5, 0]


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_update_mode_writes_each_change_once(
    spark: SparkSession,
    bootstrap: str,
    client: Client,
    topic: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    def start() -> None:
        lines = spark.readStream.option("maxFilesPerTrigger", "1").text(str(tmp_path / "in"))
        counts = lines.groupBy("value").count()
        query = (
            counts.selectExpr("value as key", "to_json(struct(*)) as value")
            .writeStream.format("ottla")
            .outputMode("update")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("guarantee", guarantee)
            .option("topic", topic)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("a\nb\n")
    start()
    (tmp_path / "in" / "2.txt").write_text("a\n")
    start()
    if guarantee == "exactly-once":
        forget_last_commit(tmp_path)
        start()
    found = [json.loads(text) for text in visible(client, topic)]
    assert sorted((each["value"], each["count"]) for each in found) == [
        ("a", 1),
        ("a", 2),
        ("b", 1),
    ]


@pytest.mark.parametrize("mode", [None, "append", "error", "errorifexists"])
def test_a_batch_write_appends_in_sparks_default_mode(
    spark: SparkSession, bootstrap: str, client: Client, topic: str, mode: str | None
) -> None:
    """As Spark's Kafka sink does; that it is asked for in `mode` or in `save` is the same."""
    rows = spark.range(3).selectExpr("cast(id as string) value")
    writer = rows.write.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    writer = writer.option("topic", topic)
    (writer if mode is None else writer.mode(mode)).save()
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    rows.write.save(format="ottla", mode=mode, **options)
    assert visible(client, topic) == ["0", "0", "1", "1", "2", "2"]


@pytest.mark.parametrize("mode", ["overwrite", "ignore"])
def test_a_topic_is_neither_overwritten_nor_ignored(
    spark: SparkSession, bootstrap: str, client: Client, topic: str, mode: str
) -> None:
    rows = spark.range(3).selectExpr("cast(id as string) value")
    writer = rows.write.format("ottla").option("kafka.bootstrap.servers", bootstrap).mode(mode)
    with pytest.raises(Exception, match=r"(?i)append"):
        writer.option("topic", topic).save()
    assert visible(client, topic) == []


def test_other_formats_keep_their_default_mode(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(Exception, match="PATH_ALREADY_EXISTS"):
        spark.range(3).write.format("parquet").save(str(tmp_path / "there"))
