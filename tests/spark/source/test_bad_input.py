"""Each mistake gives one error that says what is wrong: never nothing, never an empty result."""

from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from ottla.client import Client
from pyspark_ottla.errors import OptionError
from pyspark_ottla.pipeline.failures import cause
from pyspark_ottla.source import source_schema
from tests.spark.source.writing import named, write

# What is given beside the bootstrap servers, and what the error must say.
WRONG_OPTIONS = {
    "unknown option": ({"subscribe": "t", "colour": "red"}, "has no option colour"),
    "a typing error": (
        {"subscribe": "t", "startingOfsets": "earliest"},
        "has no option startingofsets: did you mean startingOffsets?",
    ),
    "a path": ({"subscribe": "t", "path": "/tmp/x"}, "paths are not supported"),
    "nothing to read": ({}, "give one of the options subscribe, subscribePattern, assign"),
    "two ways to say what": (
        {"subscribe": "t", "assign": '{"t":[0]}'},
        "subscribe and assign were given",
    ),
    "no topics": ({"subscribe": " , "}, "option subscribe is ',', but must be names of topics"),
    "a broken pattern": ({"subscribePattern": "("}, "option subscribePattern is"),
    "assign that is no JSON": ({"assign": "t-0"}, "option assign is 't-0', but must be"),
    "a word for offsets": (
        {"subscribe": "t", "startingOffsets": "newest"},
        "option startingOffsets is 'newest', but must be earliest, latest, or JSON",
    ),
    "broken JSON": (
        {"subscribe": "t", "startingOffsets": '{"t":{"0":1}'},
        "option startingOffsets is '{",
    ),
    "JSON of another shape": (
        {"subscribe": "t", "startingOffsets": '{"t":[1]}'},
        "must be offsets by topic and partition",
    ),
    "a negative offset": (
        {"subscribe": "t", "startingOffsets": '{"t":{"0":-5}}'},
        "with -2 for earliest and -1 for latest",
    ),
    "an offset that no log reaches": (
        {"subscribe": "t", "startingOffsets": '{"t":{"0":9223372036854775808}}'},
        "option startingOffsets is '{",
    ),
    "a time that never comes": (
        {"subscribe": "t", "startingTimestamp": "9223372036854775808"},
        "option startingTimestamp is '9223372036854775808', but must be a whole number of at most",
    ),
    "no number": (
        {"subscribe": "t", "minPartitions": "many"},
        "option minPartitions is 'many', but must be a whole number",
    ),
    "no truth": (
        {"subscribe": "t", "includeHeaders": "yes"},
        "option includeHeaders is 'yes', but must be true or false",
    ),
    "no time": ({"subscribe": "t", "maxTriggerDelay": "soon"}, "option maxTriggerDelay is 'soon'"),
    "a time that has no end": (
        {"subscribe": "t", "maxTriggerDelay": "9" * 400 + "d"},
        "option maxTriggerDelay is '999",
    ),
    "JSON without a bottom": (
        {"subscribe": "t", "startingOffsets": '{"t":' * 100_000},
        "must be offsets by topic and partition",
    ),
    "a partition that no topic has": (
        {"subscribe": "t", "startingOffsets": f'{{"t":{{"{"9" * 5000}":1}}}}'},
        "must be offsets by topic and partition",
    ),
    "a window that the audit does not take": (
        {"subscribe": "t", "audit": "true", "auditWindowMs": "31622400001"},
        "option auditWindowMs is '31622400001', but must be a whole number of at most 31622400000",
    ),
    "a longer wait than Kafka can be told": (
        {"subscribe": "t", "kafka.fetch.max.wait.ms": "2147483648"},
        "option kafka.fetch.max.wait.ms is '2147483648', but must be a whole number of at most",
    ),
    "a longer wait than a socket takes": (
        {"subscribe": "t", "kafka.request.timeout.ms": "99999999999999999999"},
        "option kafka.request.timeout.ms is '99999999999999999999', but must be a whole number of",
    ),
    "a longer poll than a socket takes": (
        {"subscribe": "t", "kafkaConsumer.pollTimeoutMs": "9223372036854775807"},
        "option kafkaConsumer.pollTimeoutMs is '9223372036854775807', but must be a whole number",
    ),
    "no time for an answer": (
        {"subscribe": "t", "kafka.request.timeout.ms": "0"},
        "option kafka.request.timeout.ms is '0', but must be a whole number of at least 1",
    ),
    "no time to connect": (
        {"subscribe": "t", "kafka.socket.connection.setup.timeout.ms": "0"},
        "kafka.socket.connection.setup.timeout.ms is '0', but must be a whole number of at least 1",
    ),
    "a client id that no request can hold": (
        {"subscribe": "t", "kafka.client.id": "é" * 16_384},
        "option kafka.client.id is too long: a client id has at most 32767 bytes",
    ),
    "a prefix that no request can hold": (
        {"subscribe": "t", "groupIdPrefix": "x" * 32_767},
        "option groupIdPrefix is too long",
    ),
    "more than the most": (
        {"subscribe": "t", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
        r"minOffsetsPerTrigger (9) is more than maxOffsetsPerTrigger (5)",
    ),
    "no address": (
        {"subscribe": "t", "kafka.bootstrap.servers": "http://x"},
        "option kafka.bootstrap.servers: 'http://x' is not a broker's address",
    ),
    "a setting that no client has": (
        {"subscribe": "t", "kafka.fetch.max.byte": "1"},
        "did you mean kafka.fetch.max.bytes?",
    ),
    "a setting that Spark manages": (
        {"subscribe": "t", "kafka.auto.offset.reset": "latest"},
        "option kafka.auto.offset.reset is not supported: use startingOffsets",
    ),
    "encryption that would not happen": (
        {"subscribe": "t", "kafka.ssl.truststore.type": "PEM"},
        "kafka.ssl.truststore.type has no effect without kafka.security.protocol",
    ),
    "a protocol that nobody has": (
        {"subscribe": "t", "kafka.security.protocol": "TLS"},
        "Invalid value TLS for configuration security.protocol",
    ),
    "a mechanism that is not supported": (
        {
            "subscribe": "t",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "NTLM",
        },
        "SASL mechanism NTLM is not supported",
    ),
    "an option of the sink": (
        {"subscribe": "t", "guarantee": "exactly-once"},
        "option guarantee is not for a source",
    ),
}


def refused(spark: SparkSession, options: Mapping[str, str], *, stream: bool = False) -> str:
    """What Spark says when it is asked to read with these options."""
    reader = spark.readStream if stream else spark.read
    with pytest.raises(Exception) as caught:  # noqa: PT011 (Spark's class is not the claim)
        reader.format("ottla").options(**options).load().isEmpty()
    return str(caught.value)


@pytest.mark.parametrize(("options", "message"), WRONG_OPTIONS.values(), ids=WRONG_OPTIONS)
def test_a_wrong_option_is_named(options: Mapping[str, str], message: str) -> None:
    """Without Spark, which only hands over the words."""
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", **options}
    with pytest.raises(OptionError) as caught:
        source_schema(given)
    assert message in str(caught.value)


def test_spark_says_so_when_the_source_is_loaded(spark: SparkSession) -> None:
    for options, message in (
        WRONG_OPTIONS["a typing error"],
        WRONG_OPTIONS["JSON of another shape"],
    ):
        assert message in refused(spark, {"kafka.bootstrap.servers": "127.0.0.1:1", **options})


def test_a_missing_address_is_named(spark: SparkSession) -> None:
    assert "option kafka.bootstrap.servers is missing" in refused(spark, {"subscribe": "t"})


def test_a_broker_that_cannot_be_reached_is_named(spark: SparkSession) -> None:
    message = refused(spark, {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"})
    assert "option kafka.bootstrap.servers is '127.0.0.1:1': cannot reach a broker" in message


def test_a_topic_that_does_not_exist_is_named(spark: SparkSession, bootstrap: str) -> None:
    options = named(bootstrap, {"subscribe": "there-is-none"})
    assert "option subscribe: topic there-is-none does not exist" in refused(spark, options)


def test_a_name_that_no_topic_can_have_is_named(spark: SparkSession, bootstrap: str) -> None:
    message = refused(spark, named(bootstrap, {"subscribe": "no topic!"}))
    assert "option subscribe: invalid topic name: topic no topic!" in message


def test_a_partition_that_does_not_exist_is_named(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    options = named(bootstrap, {"assign": f'{{"{topic}":[0,7]}}'})
    assert f"option assign: {topic}-7 does not exist" in refused(spark, options)


def test_a_pattern_that_fits_no_topic_is_named(spark: SparkSession, bootstrap: str) -> None:
    options = named(bootstrap, {"subscribePattern": "there-is-none.*"})
    assert "option subscribePattern: no topic matches 'there-is-none.*'" in refused(spark, options)


def test_offsets_must_name_every_partition_and_no_other(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    few = named(bootstrap, {"subscribe": topic, "startingOffsets": '{"other":{"0":1}}'})
    assert "option startingOffsets must name every partition" in refused(spark, few)
    assert f"{topic}-0 is missing" in refused(spark, few)
    offsets = f'{{"{topic}":{{"0":0,"9":0}}}}'
    many = named(bootstrap, {"subscribe": topic, "startingOffsets": offsets})
    assert f"option startingOffsets names {topic}-9" in refused(spark, many)


def test_a_batch_neither_starts_at_the_end_nor_ends_at_the_start(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    for option, value, message in (
        ("startingOffsets", "latest", "option startingOffsets is latest"),
        ("startingOffsets", f'{{"{topic}":{{"0":-1}}}}', f"is latest (-1) for {topic}-0"),
        ("endingOffsets", "earliest", "option endingOffsets is earliest"),
    ):
        assert message in refused(spark, named(bootstrap, {"subscribe": topic, option: value}))


def test_a_start_after_the_end_is_refused(spark: SparkSession, bootstrap: str, topic: str) -> None:
    offsets = {
        "startingOffsets": f'{{"{topic}":{{"0":5}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":3}}}}',
    }
    message = refused(spark, named(bootstrap, {"subscribe": topic, **offsets}))
    assert f"option startingOffsets is 5 for {topic}-0, after endingOffsets, which is 3" in message
    times = {"startingTimestamp": "5", "endingTimestamp": "3"}
    message = refused(spark, named(bootstrap, {"subscribe": topic, **times}))
    assert "option startingTimestamp (5) is after endingTimestamp (3)" in message


def test_a_start_after_an_end_that_the_log_tells_is_no_loss_but_a_mistake(
    spark: SparkSession, bootstrap: str, client: Client, topic: str
) -> None:
    write(client, topic, ["a", "b", "c"])
    given = {"startingOffsets": f'{{"{topic}":{{"0":2}}}}', "endingTimestamp": "1"}
    message = refused(spark, named(bootstrap, {"subscribe": topic, **given}))
    assert f"startingOffsets is offset 2 for {topic}-0, after endingTimestamp" in message
    assert "which is offset 0" in message


def test_a_schema_of_ones_own_is_refused(spark: SparkSession, bootstrap: str, topic: str) -> None:
    reader = spark.read.format("ottla").options(**named(bootstrap, {"subscribe": topic}))
    with pytest.raises(Exception, match="the source has the schema struct<key:binary"):
        reader.schema("a int").load().collect()


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"once": True}, {}])
def test_a_stream_has_no_end(
    spark: SparkSession, bootstrap: str, topic: str, trigger: Mapping[str, bool]
) -> None:
    given = named(bootstrap, {"subscribe": topic, "endingOffsets": "latest"})
    writer = spark.readStream.format("ottla").options(**given).load().writeStream.format("noop")
    with pytest.raises(
        Exception, match=r"option endingOffsets is not for spark\.readStream"
    ) as found:
        (writer.trigger(**trigger) if trigger else writer).start().awaitTermination()
    assert cause(str(found.value)).startswith("option endingOffsets is not for spark.readStream")


def test_a_stream_of_a_topic_that_does_not_exist_fails(spark: SparkSession, bootstrap: str) -> None:
    given = named(bootstrap, {"subscribe": "there-is-none"})
    frame = spark.readStream.format("ottla").options(**given).load()
    with pytest.raises(Exception, match="option subscribe: topic there-is-none does not exist"):
        frame.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
