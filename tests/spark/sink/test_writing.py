"""Rows by Spark into topics: batch jobs and streams, with a real Spark and a real broker."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla.client import Admin, Client, Reader, TopicPartition
from ottla.client.admin import LATEST
from ottla.records import Record
from ottla.records.hashing import partition_of
from tests.spark.sink.acting import open_ids, told, visible

NewTopic = Callable[..., str]


def write(rows: DataFrame, bootstrap: str, **options: str) -> None:
    """A batch write; dots in options are underscores."""
    given = {name.replace("_", "."): value for name, value in options.items()}
    writer = rows.write.format("ottla").mode("append")
    writer.options(**given).option("kafka.bootstrap.servers", bootstrap).save()


def records(client: Client, topic: str) -> dict[int, list[Record]]:
    """What a read_committed reader sees, by partition."""
    admin = Admin(client)
    ends = admin.list_offsets(dict.fromkeys(admin.partitions(topic), LATEST))
    found: dict[int, list[Record]] = {where.partition: [] for where in ends}
    starts: dict[TopicPartition, int] = dict.fromkeys(ends, 0)
    until = {where: end.offset for where, end in ends.items()}
    with Reader(client, starts, until=until, read_committed=True) as reader:
        for batch in reader:
            found[batch.partition] += batch.records
    return found


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_batch_job_writes_each_row_where_its_key_belongs(
    spark: SparkSession,
    bootstrap: str,
    client: Client,
    new_topic: NewTopic,
    guarantee: str,
    codec: str,
) -> None:
    topic = new_topic(partitions=3)
    rows = spark.range(0, 5000, 1, 1).selectExpr(
        "cast(id % 97 as string) key", "cast(id as string) value"
    )
    write(rows, bootstrap, topic=topic, guarantee=guarantee, kafka_compression_type=codec)
    found = records(client, topic)
    values = sorted(int(r.value or b"") for part in found.values() for r in part)
    assert values == list(range(5000))
    for partition, part in found.items():
        assert {partition_of(r.key or b"", 3) for r in part} == {partition}
        for key in {r.key for r in part}:
            numbers = [int(r.value or b"") for r in part if r.key == key]
            assert numbers == sorted(numbers)


def test_topic_partition_and_headers_come_from_columns(
    spark: SparkSession, bootstrap: str, client: Client, new_topic: NewTopic
) -> None:
    first, second = new_topic(partitions=2), new_topic(partitions=4)
    rows = spark.range(100).selectExpr(
        f"if(id < 60, '{first}', '{second}') topic",
        "if(id % 3 = 0, 1, null) partition",
        "cast(null as binary) key",
        "encode(cast(id as string), 'UTF-8') value",
        "if(id % 2 = 0, array(struct('a' as key, encode('x', 'UTF-8') as value)), null) headers",
        "id as something_else",
    )
    write(rows, bootstrap, includeHeaders="true")
    in_first, in_second = records(client, first), records(client, second)
    numbers = [int(r.value or b"") for part in in_first.values() for r in part]
    assert sorted(numbers) == list(range(60))
    assert sum(map(len, in_second.values())) == 40
    for part in (in_first, in_second):
        placed = {int(r.value or b"") for r in part[1]}
        assert {
            n for p in part.values() for r in p if (n := int(r.value or b"")) % 3 == 0
        } <= placed
        for record in part[1]:
            assert record.key is None
            even = int(record.value or b"") % 2 == 0
            assert list(record.headers) == ([("a", b"x")] if even else [])


def test_keyless_rows_spread_over_partitions(
    spark: SparkSession, bootstrap: str, client: Client, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=3)
    rows = spark.range(0, 2000, 1, 2).selectExpr("cast(id as string) value")
    write(rows, bootstrap, topic=topic, kafka_batch_size="2000", guarantee="at-least-once")
    found = records(client, topic)
    assert sorted(int(r.value or b"") for part in found.values() for r in part) == list(range(2000))
    assert all(len(part) > 300 for part in found.values())


def test_a_failing_batch_job_leaves_nothing_visible(
    spark: SparkSession, bootstrap: str, client: Client, topic: str
) -> None:
    def fail_behind_the_others(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The last task fails, when what the other one writes is in the log."""
        for batch in batches:
            if batch["value"][-1].as_py() == "3999":
                where = TopicPartition(topic, 0)
                with Client(bootstrap) as own:
                    while Admin(own).list_offsets({where: LATEST})[where].offset < 2000:
                        own.pause(0.05)
                raise ValueError("on purpose")
            yield batch

    numbers = spark.range(0, 4000, 1, 2).selectExpr("cast(id as string) value")
    rows = numbers.mapInArrow(fail_behind_the_others, "value string")
    others = set(open_ids(client, "~batch"))  # jobs whose drivers tests have killed leave some
    with pytest.raises(Exception, match="on purpose"):
        write(rows, bootstrap, topic=topic)
    assert visible(client, topic) == []
    assert set(open_ids(client, "~batch")) <= others


def stream(spark: SparkSession, folder: Path, bootstrap: str, topic: str, **options: str) -> None:
    """Write what is new in a folder of text files, one file a batch, and end."""
    given = {name.replace("_", "."): value for name, value in options.items()}
    lines = spark.readStream.option("maxFilesPerTrigger", "1").text(str(folder / "in"))
    query = (
        lines.selectExpr("value as key", "value")
        .repartition(2)
        .writeStream.format("ottla")
        .options(**given)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def add_file(folder: Path, name: str, numbers: range) -> list[str]:
    (folder / "in").mkdir(exist_ok=True)
    lines = [str(number) for number in numbers]
    (folder / "in" / name).write_text("\n".join(lines) + "\n")
    return sorted(lines)


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_stream_writes_each_row_over_restarts(
    spark: SparkSession,
    bootstrap: str,
    client: Client,
    new_topic: NewTopic,
    tmp_path: Path,
    guarantee: str,
) -> None:
    topic = new_topic(partitions=3)
    add_file(tmp_path, "1.txt", range(300))
    add_file(tmp_path, "2.txt", range(300, 400))
    stream(spark, tmp_path, bootstrap, topic, guarantee=guarantee, audit="true")
    assert visible(client, topic) == sorted(map(str, range(400)))
    add_file(tmp_path, "3.txt", range(400, 1000))
    stream(spark, tmp_path, bootstrap, topic, guarantee=guarantee, audit="true")
    assert visible(client, topic) == sorted(map(str, range(1000)))
    counted = [sum(count for *_, count in event.counts) for event in told(client, topic)]
    assert counted == [300, 100, 600]


def test_a_batch_that_spark_runs_again_after_its_commit_is_not_written_again(
    spark: SparkSession, bootstrap: str, client: Client, topic: str, tmp_path: Path
) -> None:
    numbers = add_file(tmp_path, "1.txt", range(50))
    stream(spark, tmp_path, bootstrap, topic)
    # Spark forgets that the batch was committed, as after a crash just then.
    for name in ("0", ".0.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    stream(spark, tmp_path, bootstrap, topic)
    assert visible(client, topic) == numbers
