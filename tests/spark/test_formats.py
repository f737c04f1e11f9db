"""Values by the schemas of a registry, read and written by Spark.

What confluent-kafka's serializers write is read here, and its deserializers read what is written.
"""

import datetime
import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ottla.client import Client, Producer
from tests.registry.registries import RegistryProcess
from tests.spark.pipeline.running import committed, headers, read, run

AT = datetime.datetime(2026, 11, 16, 10, 0, tzinfo=datetime.UTC)
FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "old", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "USED"]}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "int"]}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "lines", "type": {"type": "array", "items": ["null", "string"]}},
    ],
}
SECOND: dict[str, Any] = {
    **FIRST,
    "fields": [
        {"name": "id", "type": "long"},
        *FIRST["fields"][2:],
        {"name": "city", "type": "string", "default": "Brno"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "old": "x" * (number % 5),
        "at": AT + datetime.timedelta(seconds=number),
        "kind": ("NEW", "USED")[number % 2],
        "tags": {"a": number, "b": None} if number % 3 else {},
        "price": Decimal(number) / 4,
        "lines": ["one", None][: number % 3],
    }


@pytest.fixture(scope="module")
def url(bootstrap: str) -> Iterator[str]:
    with RegistryProcess(bootstrap) as registry:
        yield registry.url


@pytest.fixture
def registry(url: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": url})


def avro(schema_id: int, schema: dict[str, Any], value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4) + out.getvalue()


def produce(client: Client, topic: str, *values: bytes | None) -> None:
    with Producer(client) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, key=b"%d" % number)


@pytest.fixture
def load(spark: SparkSession, bootstrap: str, url: str, topic: str) -> Callable[..., DataFrame]:
    def loaded(form: str, **more: str) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": topic,
            "value.format": form,
            "schema.registry.url": url,
            **more,
        }
        return spark.read.format("ottla").options(**options).load()

    return loaded


def test_avro_of_two_versions_is_read_by_the_newer_one(
    client: Client, registry: SchemaRegistryClient, topic: str, load: Callable[..., DataFrame]
) -> None:
    first = registry.register_schema(f"{topic}-value", Schema(json.dumps(FIRST), "AVRO"))
    old = [avro(first, FIRST, row(number)) for number in range(30)]
    second = registry.register_schema(f"{topic}-value", Schema(json.dumps(SECOND), "AVRO"))
    new = [
        avro(second, SECOND, {**row(number), "city": "Oslo", "note": "n"})
        for number in range(30, 60)
    ]
    mixed = [value for pair in zip(old, new, strict=True) for value in pair]
    produce(client, topic, *mixed, None)
    rows = load("avro")
    assert [name for name, _ in rows.dtypes] == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType"
    ]  # fmt: skip
    assert dict(rows.select("value.*").dtypes) == {
        "id": "bigint",
        "at": "timestamp",
        "kind": "string",
        "tags": "map<string,int>",
        "price": "decimal(9,2)",
        "lines": "array<string>",
        "city": "string",
        "note": "string",
    }
    found = {each["offset"]: each["value"] for each in rows.collect()}
    assert len(found) == 61
    assert found[60] is None
    for offset in range(60):
        number = offset // 2 + 30 * (offset % 2)
        made, wanted = found[offset].asDict(), row(number)
        for name in ("id", "kind", "tags", "price", "lines"):
            assert made[name] == wanted[name], name
        assert (made["city"], made["note"]) == (("Oslo", "n") if offset % 2 else ("Brno", None))

    pinned = load("avro", **{"value.schema.version": "1"}).select("value.*")
    assert {"old", "city"} & set(pinned.columns) == {"old"}


def test_values_that_do_not_fit_are_named_or_told_about(
    client: Client, registry: SchemaRegistryClient, topic: str, load: Callable[..., DataFrame]
) -> None:
    schema_id = registry.register_schema(f"{topic}-value", Schema(json.dumps(FIRST), "AVRO"))
    good = [avro(schema_id, FIRST, row(number)) for number in range(2)]
    produce(client, topic, good[0], b"no id", good[1], None)
    rows = load("avro", **{"value.mode": "permissive"}).orderBy("offset").collect()
    assert [each["value"] and each["value"]["id"] for each in rows] == [0, None, 1, None]
    why = "the value carries no schema id"
    assert [each["valueError"] for each in rows] == [None, why, None, None]
    assert [each["valueBytes"] for each in rows] == [None, b"no id", None, None]
    with pytest.raises(Exception, match=rf"record 1 in partition 0 of topic {topic}: {why}"):
        load("avro").collect()


def test_avro_is_written_with_a_schema_of_the_columns(
    spark: SparkSession,
    client: Client,
    bootstrap: str,
    registry: SchemaRegistryClient,
    topic: str,
    load: Callable[..., DataFrame],
) -> None:
    rows = spark.range(100).select(
        f.struct(
            f.col("id"),
            f.when(f.col("id") % 2 == 0, f.lit("even")).alias("note"),
            f.array(f.lit(1.5), f.lit(None)).alias("parts"),
            f.create_map(f.lit("k"), f.col("id").cast("int")).alias("tags"),
            f.lit(AT).alias("at"),
            f.lit(Decimal("1.25")).alias("price"),
            f.struct(f.lit(b"x").alias("b"), f.lit(True).alias("t")).alias("inner"),
        ).alias("value")
    )
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": topic,
        "value.format": "avro",
        "schema.registry.url": registry._rest_client.base_urls[0],
    }
    for _ in range(2):
        rows.write.format("ottla").mode("append").options(**options).save()
    assert registry.get_versions(f"{topic}-value") == [1]
    decode = AvroDeserializer(registry)
    context = SerializationContext(topic, MessageField.VALUE)
    decoded = [decode(value, context) for value in committed(client, topic)]
    assert len(decoded) == 200
    by_id = {each["id"]: each for each in decoded}
    assert by_id[3] == {
        "id": 3,
        "note": None,
        "parts": [1.5, None],
        "tags": {"k": 3},
        "at": AT,
        "price": Decimal("1.25"),
        "inner": {"b": b"x", "t": True},
    }
    again = {each["value"]["id"]: each["value"] for each in load("avro").collect()}
    assert again[3]["tags"] == {"k": 3}
    assert again[4]["note"] == "even"

    changed = rows.select(f.struct(f.col("value.note").cast("int").alias("id")).alias("value"))
    with pytest.raises(Exception, match=r"cannot be registered as .*incompatible"):
        changed.write.format("ottla").mode("append").options(**options).save()


def test_a_pipeline_needs_no_written_schema(
    spark: SparkSession,
    client: Client,
    bootstrap: str,
    url: str,
    registry: SchemaRegistryClient,
    topic: str,
    tmp_path: Path,
) -> None:
    schema_id = registry.register_schema(f"{topic}-value", Schema(json.dumps(FIRST), "AVRO"))
    good = [avro(schema_id, FIRST, row(number)) for number in range(6)]
    produce(client, topic, *good, b"no schema", None)
    file = tmp_path / "orders.yaml"
    file.write_text(f"""\
checkpoint: state
schema_registry: {url}
sources:
  orders:
    topic: {topic}
    format: avro
    dead_letters: {topic}.broken
    metadata: true
steps:
  used: SELECT id, kind, price, kafka.offset AS place FROM orders WHERE kind = 'USED'
sinks:
  out:
    from: used
    topic: {topic}.used
    format: avro
    key: id
""")
    done = run(spark, file, bootstrap)
    assert {name: each.rows for name, each in done.items()} == {"out": 3, "orders.dead_letters": 2}
    decode = AvroDeserializer(registry)
    context = SerializationContext(f"{topic}.used", MessageField.VALUE)
    found = [decode(value, context) for value in committed(client, f"{topic}.used")]
    assert sorted(each["id"] for each in found) == [1, 3, 5]
    assert [each["place"] for each in found] == [each["id"] for each in found]
    letters = sorted(read(spark, bootstrap, f"{topic}.broken"), key=lambda each: bytes(each["key"]))
    assert [headers(each)["ottla.reason"] for each in letters] == [
        "the value carries no schema id",
        "the value is null",
    ]
    assert bytes(letters[0]["value"]) == b"no schema"
