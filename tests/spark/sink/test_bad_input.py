"""Wrong options, columns and rows of a sink: one clear error each."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from pyspark_ottla.errors import OptionError
from pyspark_ottla.options import Use
from pyspark_ottla.sink import batch_writer
from pyspark_ottla.sink.settings import sink_settings

GOOD = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}


def schema(text: str) -> StructType:
    parsed = _parse_datatype_string(text)
    assert isinstance(parsed, StructType)
    return parsed


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ("key string", "needs a column value; there are only key"),
        ("value int", "column value is int, but must be string or binary"),
        ("value string, key array<int>", "column key is array<int>, but must be string or binary"),
        ("value string, partition string", "column partition is string, but must be int"),
        ("value string, partition bigint", "column partition is bigint, but must be int"),
        ("value string, headers map<string,string>", "column headers is map<string,string>"),
        (
            "value string, headers array<struct<key:string,value:string>>",
            "must be array<struct<key",
        ),
    ],
)
def test_wrong_columns_are_named(columns: str, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        sink_settings(schema(columns), GOOD, Use.STREAM_WRITE)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ("value string", "needs the option topic, or a column topic"),
        ("value string, topic int", "column topic is int, but must be string"),
    ],
)
def test_a_topic_is_needed(columns: str, text: str) -> None:
    options = {"kafka.bootstrap.servers": "localhost:9092"}
    with pytest.raises(OptionError, match=text):
        sink_settings(schema(columns), options, Use.BATCH_WRITE)


def test_with_the_option_the_column_topic_is_not_looked_at() -> None:
    settings = sink_settings(schema("value string, topic int"), GOOD, Use.BATCH_WRITE)
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
        ("kafka.transactional.id", "x", "use sinkId"),
        ("unknownOutcome", "maybe", "must be fail or committed or aborted"),
    ],
)
def test_wrong_options_are_named(name: str, value: str, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        sink_settings(schema("value string"), {**GOOD, name: value}, Use.STREAM_WRITE)
    assert text in str(caught.value)


def test_a_topic_is_never_overwritten() -> None:
    with pytest.raises(OptionError, match=r'mode\("append"\)'):
        batch_writer(schema("value string"), GOOD, overwrite=True)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ("cast(null as string) topic, 'v' value", "a row has no topic"),
        ("'{topic}' topic, 9 partition, 'v' value", "has partitions 0 to 0"),
        ("'{topic}' topic, repeat('x', 2000000) value", "MESSAGE_TOO_LARGE"),
        ("'no such/topic' topic, 'v' value", "no such/topic"),
    ],
)
def test_a_row_that_cannot_be_written_says_why(
    spark: SparkSession, bootstrap: str, topic: str, columns: str, text: str
) -> None:
    rows = spark.range(1).selectExpr(f"inline(array(struct({columns.format(topic=topic)})))")
    writer = rows.write.format("ottla").mode("append")
    with pytest.raises(Exception, match=text):
        writer.option("kafka.bootstrap.servers", bootstrap).save()


def test_a_broker_that_cannot_be_reached_is_named(spark: SparkSession) -> None:
    writer = spark.range(1).selectExpr("'v' value").write.format("ottla").mode("append")
    with pytest.raises(Exception, match=r"kafka\.bootstrap\.servers is '127\.0\.0\.1:1'"):
        writer.option("kafka.bootstrap.servers", "127.0.0.1:1").option("topic", "t").save()
