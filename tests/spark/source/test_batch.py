"""`spark.read.format("ottla")` against a real broker."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer as ConfluentProducer
from pyspark.sql import SparkSession

from ottla.audit.events import AUDIT_TOPIC, Event, Tier
from ottla.client import Admin, Client, Producer, Reader, TopicPartition
from ottla.client.admin import LATEST
from tests.spark.source.writing import (
    reading,
    values,
    write,
    write_numbers,
    write_transaction,
)

NewTopic = Callable[..., str]


def numbers(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


def test_a_record_becomes_a_row_of_the_columns_of_sparks_kafka_source(
    spark: SparkSession, bootstrap: str, client: Client, topic: str
) -> None:
    with Producer(client) as producer:
        producer.send(
            topic, b"v", key=b"k", headers=[("a", b"1"), ("b", None)], timestamp=1_700_000_000_123
        )
        producer.send(topic, None, timestamp=1_700_000_000_124)
    frame = reading(spark, bootstrap, subscribe=topic, includeHeaders=True)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    first, second = sorted(frame.collect(), key=lambda row: row.offset)
    assert (first.key, first.value, first.topic, first.partition) == (b"k", b"v", topic, 0)
    assert (first.offset, first.timestampType) == (0, 0)
    assert first.timestamp.astimezone(UTC) == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    assert [(item.key, item.value) for item in first.headers] == [("a", b"1"), ("b", None)]
    assert (second.key, second.value, second.headers, second.offset) == (None, None, None, 1)


def test_headers_are_a_column_only_when_asked_for(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    assert "headers" not in reading(spark, bootstrap, subscribe=topic).columns


def test_the_brokers_own_time_is_told_by_the_timestamp_type(
    spark: SparkSession, bootstrap: str, client: Client, new_topic: NewTopic
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    write(client, topic, ["x"])
    (row,) = reading(spark, bootstrap, subscribe=topic).collect()
    assert row.timestampType == 1


def test_every_codec_can_be_read(
    spark: SparkSession, bootstrap: str, client: Client, topic: str
) -> None:
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    for codec in codecs:
        producer = ConfluentProducer({"bootstrap.servers": bootstrap, "compression.type": codec})
        for number in range(100):
            producer.produce(topic, f"{codec} {number}" + "." * 100)
        producer.flush()
    found = values(reading(spark, bootstrap, subscribe=topic).collect())
    assert [text.rstrip(".") for text in found] == [
        f"{codec} {number}" for codec in codecs for number in range(100)
    ]


def test_offsets_bound_what_is_read(
    spark: SparkSession, bootstrap: str, client: Client, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    write(client, topic, numbers(0, 10), 0)
    write(client, topic, numbers(10, 20), 1)
    frame = reading(
        spark,
        bootstrap,
        subscribe=topic,
        startingOffsets=f'{{"{topic}":{{"0":3,"1":-2}}}}',
        endingOffsets=f'{{"{topic}":{{"0":-1,"1":4}}}}',
    )
    assert values(frame.collect()) == [*numbers(3, 10), *numbers(10, 14)]


def test_timestamps_bound_what_is_read(
    spark: SparkSession, bootstrap: str, client: Client, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    with Producer(client) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0, timestamp=1000 + number)
        producer.send(topic, b"other", partition=1, timestamp=1005)
    between = reading(
        spark, bootstrap, subscribe=topic, startingTimestamp=1004, endingTimestamp=1007
    )
    assert values(between.collect()) == ["4", "5", "6", "other"]
    by_partition = reading(
        spark,
        bootstrap,
        subscribe=topic,
        startingOffsetsByTimestamp=f'{{"{topic}":{{"0":1008,"1":9000}}}}',
        startingOffsetsByTimestampStrategy="latest",
    )
    assert values(by_partition.collect()) == ["8", "9"]
    with pytest.raises(Exception, match=rf"startingTimestamp: {topic}-1 has no record at or after"):
        reading(spark, bootstrap, subscribe=topic, startingTimestamp=1006).collect()


def test_topics_are_named_by_list_by_pattern_or_by_partitions(
    spark: SparkSession, bootstrap: str, client: Client, new_topic: NewTopic
) -> None:
    first, second = new_topic(2), new_topic()
    write_numbers(client, first, 4, 2)
    write(client, second, ["other"])
    both = {first: ["0", "2", "1", "3"], second: ["other"]}
    in_order = [value for topic in sorted(both) for value in both[topic]]
    assert values(reading(spark, bootstrap, subscribe=f"{first}, {second}").collect()) == in_order
    pattern = f"{first[:-2]}..|{second}"
    assert values(reading(spark, bootstrap, subscribePattern=pattern).collect()) == in_order
    assigned = reading(spark, bootstrap, assign=f'{{"{first}":[1]}}')
    assert values(assigned.collect()) == ["1", "3"]


def test_large_partitions_are_split_among_tasks_and_every_row_is_read_once(
    spark: SparkSession, bootstrap: str, client: Client, topic: str
) -> None:
    write_numbers(client, topic, 1000)
    for options, tasks in (
        ({}, 1),
        ({"minPartitions": 4}, 4),
        ({"maxRecordsPerPartition": 300}, 4),
        ({"maxRecordsPerPartition": 300, "minPartitions": 8}, 8),
    ):
        frame = reading(spark, bootstrap, subscribe=topic, **options)
        assert frame.rdd.getNumPartitions() == tasks
        assert values(frame.collect()) == numbers(0, 1000)


def test_aborted_and_open_transactions_are_not_read(
    spark: SparkSession, bootstrap: str, client: Client, topic: str
) -> None:
    write(client, topic, ["plain"])
    write_transaction(bootstrap, topic, ["committed"], commit=True)
    write_transaction(bootstrap, topic, ["aborted"], commit=False)
    still_open = write_transaction(bootstrap, topic, ["open"], commit=None)
    assert values(reading(spark, bootstrap, subscribe=topic).collect()) == ["plain", "committed"]
    everything = reading(
        spark, bootstrap, subscribe=topic, kafka_isolation_level="read_uncommitted"
    )
    assert values(everything.collect()) == ["plain", "committed", "aborted", "open"]
    still_open.abort_transaction()


def test_a_stretch_that_ends_in_markers_and_aborted_records_ends(
    spark: SparkSession, bootstrap: str, client: Client, topic: str
) -> None:
    write_transaction(bootstrap, topic, ["committed"], commit=True)
    write_transaction(bootstrap, topic, ["aborted", "aborted too"], commit=False)
    for end, expected in ((1, 1), (2, 1), (3, 1), (4, 1), (5, 1)):
        offsets = f'{{"{topic}":{{"0":{end}}}}}'
        frame = reading(spark, bootstrap, subscribe=topic, endingOffsets=offsets)
        assert frame.count() == expected
    only_markers = f'{{"{topic}":{{"0":1}}}}'
    assert reading(spark, bootstrap, subscribe=topic, startingOffsets=only_markers).count() == 0


def test_records_larger_than_a_fetch_are_read(
    spark: SparkSession, bootstrap: str, client: Client, topic: str
) -> None:
    with Producer(client) as producer:
        for letter in b"abc":
            producer.send(topic, bytes([letter]) * 900_000)
    frame = reading(spark, bootstrap, subscribe=topic, kafka_max_partition_fetch_bytes=10_000)
    assert [len(row.value) for row in frame.collect()] == [900_000] * 3


def test_an_empty_topic_has_no_rows(spark: SparkSession, bootstrap: str, topic: str) -> None:
    assert reading(spark, bootstrap, subscribe=topic).count() == 0


def test_offsets_that_retention_has_cut_are_an_error_or_are_skipped(
    spark: SparkSession, bootstrap: str, client: Client, admin: Admin, topic: str
) -> None:
    write_numbers(client, topic, 10)
    admin.delete_records({TopicPartition(topic, 0): 6})
    options = {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":2}}}}'}
    with pytest.raises(
        Exception, match=rf"offsets 2 to 5 of {topic}-0 no longer exist.*starts at offset 6"
    ):
        reading(spark, bootstrap, **options).collect()
    rest = reading(spark, bootstrap, **options, failOnDataLoss=False)
    assert values(rest.collect()) == numbers(6, 10)
    assert values(reading(spark, bootstrap, subscribe=topic).collect()) == numbers(6, 10)


def test_offsets_after_the_end_are_an_error(
    spark: SparkSession, bootstrap: str, client: Client, topic: str
) -> None:
    write_numbers(client, topic, 3)
    with pytest.raises(Exception, match=rf"{topic}-0 cannot be read up to offset 9.*ends at.* 3"):
        reading(
            spark, bootstrap, subscribe=topic, endingOffsets=f'{{"{topic}":{{"0":9}}}}'
        ).collect()
    with pytest.raises(Exception, match=rf"{topic}-0 cannot be read from offset 7.*ends at.* 3"):
        reading(
            spark, bootstrap, subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":7}}}}'
        ).collect()


def test_what_was_read_is_counted_for_the_audit(
    spark: SparkSession, bootstrap: str, client: Client, topic: str
) -> None:
    with Producer(client) as producer:
        for number in range(5):
            producer.send(topic, b"x", timestamp=60_000 * 1000 + 20_000 * number)
    reading(spark, bootstrap, subscribe=topic, audit=True, auditName="the job").collect()
    where = {TopicPartition(AUDIT_TOPIC, 0): 0}
    end = Admin(client).list_offsets(dict.fromkeys(where, LATEST))
    until = {partition: found.offset for partition, found in end.items()}
    with Reader(client, where, until=until) as reader:
        records = [record for batch in reader for record in batch.records]
    (event,) = (
        event for event in map(Event.decode, (r.value for r in records)) if event.topic == topic
    )
    assert (event.tier, event.name) == (Tier.SPARK_SOURCE, "the job")
    assert (event.sequence, event.next, event.spans) == (0, 5, {0: (0, 5)})
    assert [count for *_, count in event.counts] == [3, 2]
