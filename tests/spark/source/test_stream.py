"""`spark.readStream.format("ottla")` against a real broker."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.client import Admin, Client, TopicPartition
from ottla.client.group_admin import GroupAdmin
from testkit.waiting import until
from tests.spark.source.writing import (
    Batches,
    read_available,
    streaming,
    values,
    write,
    write_numbers,
)

NewTopic = Callable[..., str]


def numbers(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


def test_a_restarted_query_reads_only_what_is_new(
    spark: SparkSession, bootstrap: str, client: Client, topic: str, tmp_path: Path
) -> None:
    frame = streaming(spark, bootstrap, subscribe=topic, startingOffsets="earliest")
    write(client, topic, numbers(0, 5))
    first, _ = read_available(frame, tmp_path)
    write(client, topic, numbers(5, 8))
    second, _ = read_available(frame, tmp_path)
    nothing, _ = read_available(frame, tmp_path)
    assert values(first.rows) == numbers(0, 5)
    assert values(second.rows) == numbers(5, 8)
    assert nothing.rows == []


def test_a_query_that_found_nothing_at_first_continues_from_there(
    spark: SparkSession, bootstrap: str, client: Client, topic: str, tmp_path: Path
) -> None:
    write(client, topic, ["before"])
    frame = streaming(spark, bootstrap, subscribe=topic)
    nothing, _ = read_available(frame, tmp_path)
    write(client, topic, ["after"])
    batches, _ = read_available(frame, tmp_path)
    assert nothing.rows == []
    assert values(batches.rows) == ["after"]


def test_micro_batches_are_no_larger_than_asked_and_the_lag_is_reported(
    spark: SparkSession, bootstrap: str, client: Client, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    write_numbers(client, topic, 10, 2)
    frame = streaming(
        spark, bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=4
    )
    batches, query = read_available(frame, tmp_path)
    assert [len(rows) for rows in batches.by_id.values()] == [4, 4, 2]
    assert sorted(values(batches.rows), key=int) == numbers(0, 10)
    progress = [item["sources"][0] for item in query.recentProgress if item["numInputRows"]]
    assert json.loads(progress[1]["startOffset"])[topic] == {"0": 2, "1": 2}
    assert json.loads(progress[1]["endOffset"])[topic] == {"0": 4, "1": 4}
    assert json.loads(progress[1]["latestOffset"]) == {topic: {"0": 5, "1": 5}}


def test_new_partitions_and_topics_are_read_from_their_start(
    spark: SparkSession,
    bootstrap: str,
    client: Client,
    admin: Admin,
    new_topic: NewTopic,
    tmp_path: Path,
) -> None:
    first = new_topic()
    frame = streaming(
        spark, bootstrap, subscribePattern=f"{first[:-8]}.*", startingOffsets="latest"
    )
    write(client, first, ["before"])
    nothing, _ = read_available(frame, tmp_path)
    admin.create_partitions(first, 2)
    second = new_topic()
    write(client, first, ["in a new partition"], 1)
    write(client, second, ["in a new topic"])
    batches, _ = read_available(frame, tmp_path)
    assert nothing.rows == []
    assert sorted(values(batches.rows)) == ["in a new partition", "in a new topic"]


@pytest.mark.parametrize("fails", [True, False])
def test_partitions_that_are_added_under_a_running_query_are_read(
    spark: SparkSession,
    bootstrap: str,
    client: Client,
    admin: Admin,
    topic: str,
    tmp_path: Path,
    fails: bool,
) -> None:
    """The Python processes of the query have seen the topic with one partition."""
    batches = Batches()
    frame = streaming(spark, bootstrap, subscribe=topic, failOnDataLoss=fails)
    query = (
        frame.writeStream.foreachBatch(batches.take)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        query.processAllAvailable()
        write(client, topic, numbers(0, 3))
        query.processAllAvailable()
        admin.create_partitions(topic, 4)
        client.forget(topic)
        for partition in (1, 2, 3):
            write(client, topic, numbers(3, 103), partition)
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(values(batches.rows)) == sorted([*numbers(0, 3), *3 * numbers(3, 103)])


def test_a_topic_that_was_created_again_is_an_error_though_its_log_is_longer(
    spark: SparkSession, bootstrap: str, client: Client, admin: Admin, topic: str, tmp_path: Path
) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    write(client, topic, numbers(0, 3))
    read_available(streaming(spark, bootstrap, **options), tmp_path)
    admin.delete_topic(topic)
    admin.create_topic(topic, partitions=1)
    client.forget(topic)
    write(client, topic, numbers(100, 110))
    with pytest.raises(Exception, match=rf"topic {topic} was deleted and created again: what came"):
        read_available(streaming(spark, bootstrap, **options), tmp_path)
    careless = streaming(spark, bootstrap, **options, failOnDataLoss=False)
    batches, _ = read_available(careless, tmp_path)
    assert values(batches.rows) == numbers(100, 110)
    nothing, _ = read_available(careless, tmp_path)
    assert nothing.rows == []


@pytest.mark.parametrize("rows", [2, 10], ids=["shorter", "longer"])
@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_is_created_again_under_a_running_query_is_found_out(
    spark: SparkSession,
    bootstrap: str,
    client: Client,
    admin: Admin,
    topic: str,
    tmp_path: Path,
    fails: bool,
    rows: int,
) -> None:
    batches = Batches()
    options = {"subscribe": topic, "failOnDataLoss": str(fails)}
    query = (
        streaming(spark, bootstrap, startingOffsets="earliest", **options)
        .writeStream.foreachBatch(batches.take)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    new = numbers(100, 100 + rows)
    try:
        write(client, topic, numbers(0, 5))
        query.processAllAvailable()
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=1)
        client.forget(topic)
        write(client, topic, new)
        if fails:
            # Whether the query looks before or after the topic is there again is chance.
            with pytest.raises(Exception, match=r"created again|does not exist"):
                query.processAllAvailable()
        else:
            until(lambda: new[-1] in values(batches.rows), "the new topic is read", 60)
            query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(values(batches.rows)) == sorted([*numbers(0, 5), *([] if fails else new)])


def test_a_running_query_reads_what_arrives(
    spark: SparkSession, bootstrap: str, client: Client, topic: str, tmp_path: Path
) -> None:
    batches = Batches()
    frame = streaming(spark, bootstrap, subscribe=topic)
    query = (
        frame.writeStream.foreachBatch(batches.take)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        query.processAllAvailable()
        write(client, topic, ["a"])
        query.processAllAvailable()
        write(client, topic, ["b"])
        query.processAllAvailable()
    finally:
        query.stop()
    assert values(batches.rows) == ["a", "b"]


def test_a_batch_that_failed_is_read_again_with_the_same_rows(
    spark: SparkSession, bootstrap: str, client: Client, topic: str, tmp_path: Path
) -> None:
    def fail(frame: object, batch_id: int) -> None:
        raise RuntimeError("on purpose")

    write(client, topic, ["a", "b"])
    frame = streaming(spark, bootstrap, subscribe=topic, startingOffsets="earliest")
    query = (
        frame.writeStream.foreachBatch(fail)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="on purpose"):
        query.awaitTermination()
    write(client, topic, ["c"])
    batches, _ = read_available(frame, tmp_path)
    assert [values(rows) for _, rows in sorted(batches.by_id.items())] == [["a", "b"], ["c"]]


def test_a_consumer_group_is_told_what_has_been_read(
    spark: SparkSession, bootstrap: str, client: Client, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    write_numbers(client, topic, 5, 2)
    frame = streaming(
        spark, bootstrap, subscribe=topic, startingOffsets="earliest", commitGroup=f"of {topic}"
    )
    read_available(frame, tmp_path)
    committed = GroupAdmin(client).committed_offsets(f"of {topic}")
    assert {partition: item.offset for partition, item in committed.items()} == {
        TopicPartition(topic, 0): 3,
        TopicPartition(topic, 1): 2,
    }


def test_a_query_that_retention_overtook_fails_or_continues(
    spark: SparkSession,
    bootstrap: str,
    client: Client,
    admin: Admin,
    topic: str,
    tmp_path: Path,
) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    write(client, topic, numbers(0, 3))
    read_available(streaming(spark, bootstrap, **options), tmp_path)
    write(client, topic, numbers(3, 10))
    admin.delete_records({TopicPartition(topic, 0): 6})
    with pytest.raises(
        Exception, match=rf"offsets 3 to 5 of {topic}-0 no longer exist.*failOnDataLoss"
    ):
        read_available(streaming(spark, bootstrap, **options), tmp_path)
    careless = streaming(spark, bootstrap, **options, failOnDataLoss=False)
    batches, _ = read_available(careless, tmp_path)
    assert values(batches.rows) == numbers(6, 10)


def test_a_topic_that_was_deleted_is_an_error(
    spark: SparkSession,
    bootstrap: str,
    client: Client,
    admin: Admin,
    new_topic: NewTopic,
    tmp_path: Path,
) -> None:
    topic, other = new_topic(), new_topic()
    frame = streaming(spark, bootstrap, subscribe=f"{topic},{other}", startingOffsets="earliest")
    write(client, topic, ["a", "b"])
    read_available(frame, tmp_path)
    admin.delete_topic(topic)
    with pytest.raises(Exception, match=rf"{topic}-0 no longer exists.*after offset 2"):
        read_available(frame, tmp_path)
