"""Wrong options, columns and rows of a sink: one clear error each."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from pyspark_ottla.errors import OptionError
from pyspark_ottla.options import Use
from pyspark_ottla.sink import batch_writer
from pyspark_ottla.sink.settings import sink_settings

GOOD = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}


STRING, INT = StringType(), IntegerType()
TEXT_HEADERS = ArrayType(StructType().add("key", STRING).add("value", STRING))


def schema(**columns: DataType) -> StructType:
    whole = StructType()
    for name, kind in columns.items():
        whole.add(name, kind)
    return whole


VALUE = schema(value=STRING)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (schema(key=STRING), "needs a column value; there are only key"),
        (schema(value=INT), "column value is int, but must be string or binary"),
        (schema(value=STRING, key=ArrayType(INT)), "column key is array<int>, but must be string"),
        (schema(value=STRING, partition=STRING), "column partition is string, but must be int"),
        (schema(value=STRING, partition=LongType()), "column partition is bigint, but must be int"),
        (schema(value=STRING, headers=MapType(STRING, STRING)), "headers is map<string,string>"),
        (schema(value=STRING, headers=TEXT_HEADERS), "must be array<struct<key:string,value:bin"),
    ],
)
def test_wrong_columns_are_named(columns: StructType, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        sink_settings(columns, GOOD, Use.STREAM_WRITE)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (VALUE, "needs the option topic, or a column topic"),
        (schema(value=STRING, topic=INT), "column topic is int, but must be string"),
    ],
)
def test_a_topic_is_needed(columns: StructType, text: str) -> None:
    options = {"kafka.bootstrap.servers": "localhost:9092"}
    with pytest.raises(OptionError, match=text):
        sink_settings(columns, options, Use.BATCH_WRITE)


def test_with_the_option_the_column_topic_is_not_looked_at() -> None:
    settings = sink_settings(schema(value=BinaryType(), topic=INT), GOOD, Use.BATCH_WRITE)
    assert settings.columns.topic is None


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("guarantee", "once", "option guarantee is 'once', but must be exactly-once or"),
        ("kafka.compression.type", "rar", "compression.type is 'rar', but must be none or gzip"),
        ("sinkId", "a b", "option sinkId is 'a b', but must be letters"),
        ("topic", "", "option topic is empty"),
        ("topics", "t", "did you mean topic"),
        ("kafka.transaction.timeout.ms", "0", "whole number of at least 1"),
        ("kafka.transaction.timeout.ms", "2147483648", "whole number of at most 2147483647"),
        ("kafka.transactional.id", "x", "use sinkId"),
        ("unknownOutcome", "maybe", "must be fail or committed or aborted"),
    ],
)
def test_wrong_options_are_named(name: str, value: str, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        sink_settings(VALUE, {**GOOD, name: value}, Use.STREAM_WRITE)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"batchId": "1"}, "batchId needs the option sinkId"),
        ({"sinkId": "s"}, "sinkId needs the option batchId"),
        ({"unknownOutcome": "fail"}, "unknownOutcome needs the option batchId"),
        ({"sinkId": "s", "batchId": "-1"}, "whole number of at least 0"),
        ({"sinkId": "s", "batchId": "1", "guarantee": "at-least-once"}, "needs guarantee=exactly"),
    ],
)
def test_a_number_of_a_batch_needs_what_makes_it_count(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        sink_settings(VALUE, GOOD | given, Use.BATCH_WRITE)


def test_a_stream_numbers_its_batches_itself() -> None:
    with pytest.raises(OptionError, match=r"batchId is not for DataFrame\.writeStream"):
        sink_settings(VALUE, {**GOOD, "batchId": "1"}, Use.STREAM_WRITE)


def test_the_largest_request_lowers_the_size_of_batches() -> None:
    for batch, request, wanted in (
        ("500", "100", 100),
        ("100", "500", 100),
        ("5000000", "2000000", 2_000_000),
    ):
        given = {**GOOD, "kafka.batch.size": batch, "kafka.max.request.size": request}
        assert sink_settings(VALUE, given, Use.STREAM_WRITE).batch_bytes == wanted
    alone = {**GOOD, "kafka.max.request.size": "100"}
    assert sink_settings(VALUE, alone, Use.STREAM_WRITE).batch_bytes == 100


def test_a_topic_is_never_overwritten() -> None:
    with pytest.raises(OptionError, match=r'mode\("append"\)'):
        batch_writer(VALUE, GOOD, overwrite=True)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ("cast(null as string) topic, 'v' value", "a row has no topic"),
        ("'{topic}' topic, 9 partition, 'v' value", "has partitions 0 to 0"),
        ("'{topic}' topic, repeat('x', 2000000) value", "MESSAGE_TOO_LARGE"),
        ("'no such/topic' topic, 'v' value", "column topic: topic no such/topic"),
    ],
)
def test_a_row_that_cannot_be_written_says_why(
    spark: SparkSession, bootstrap: str, topic: str, columns: str, text: str
) -> None:
    rows = spark.range(1).selectExpr(f"inline(array(struct({columns.format(topic=topic)})))")
    writer = rows.write.format("ottla").mode("append")
    with pytest.raises(Exception, match=text):
        writer.option("kafka.bootstrap.servers", bootstrap).save()


def test_a_topic_that_cannot_be_is_named_with_its_option(
    spark: SparkSession, bootstrap: str
) -> None:
    writer = spark.range(1).selectExpr("'v' value").write.format("ottla").mode("append")
    with pytest.raises(Exception, match="option topic: topic no such/topic"):
        writer.options(**{"kafka.bootstrap.servers": bootstrap, "topic": "no such/topic"}).save()


def test_a_broker_that_cannot_be_reached_is_named(spark: SparkSession) -> None:
    writer = spark.range(1).selectExpr("'v' value").write.format("ottla").mode("append")
    with pytest.raises(Exception, match=r"kafka\.bootstrap\.servers is '127\.0\.0\.1:1'"):
        writer.option("kafka.bootstrap.servers", "127.0.0.1:1").option("topic", "t").save()
