"""confluent-kafka's own serializers and deserializers, unmodified, through a broker and back."""

import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.embedded import Broker

USER = (
    '{"type":"record","name":"User","namespace":"n","fields":[{"name":"name","type":"string"},'
    '{"name":"age","type":["null","int"],"default":null}]}'
)


@pytest.fixture(scope="module")
def with_registry() -> Iterator[Broker]:
    """`ottla.Broker(registry=True)`, as a test of an application would have it."""
    with Broker(registry=True) as broker:
        yield broker


@pytest.fixture
def client(with_registry: Broker) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": with_registry.registry_url}) as client:
        yield client


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def through_the_broker(broker: Broker, topic: str, value: bytes) -> bytes:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"g-{topic}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    try:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        found = message.value()
        assert isinstance(found, bytes)
        return found
    finally:
        consumer.close()


def test_avro(with_registry: Broker, client: SchemaRegistryClient) -> None:
    user = {"name": "Ada", "age": 36}
    sent = AvroSerializer(client, USER)(user, context("avro"))
    assert sent is not None
    assert sent[0] == 0
    found = through_the_broker(with_registry, "avro", sent)
    assert AvroDeserializer(client)(found, context("avro")) == user
    assert client.get_latest_version("avro-value").schema_id == int.from_bytes(sent[1:5])


def test_avro_evolves(client: SchemaRegistryClient) -> None:
    old = AvroSerializer(client, USER)({"name": "Ada", "age": None}, context("evolving"))
    newer = USER.replace("]}", ',{"name":"city","type":"string","default":"?"}]}')
    AvroSerializer(client, newer)({"name": "Bob", "age": 1, "city": "x"}, context("evolving"))
    assert client.get_versions("evolving-value") == [1, 2]
    read = AvroDeserializer(client, newer)(old, context("evolving"))
    assert read == {"name": "Ada", "age": None, "city": "?"}
    with pytest.raises(SchemaRegistryError) as caught:
        client.register_schema("evolving-value", Schema('"string"', "AVRO"))
    assert caught.value.http_status_code == 409
    assert client.test_compatibility("evolving-value", Schema(newer, "AVRO"))


def test_avro_with_references(with_registry: Broker, client: SchemaRegistryClient) -> None:
    client.register_schema("user", Schema(USER, "AVRO"))
    order = Schema(
        '{"type":"record","name":"Order","fields":[{"name":"by","type":"n.User"}]}',
        "AVRO",
        [SchemaReference("n.User", "user", 1)],
    )
    value = {"by": {"name": "Ada", "age": 1}}
    sent = AvroSerializer(client, order)(value, context("avro-ref"))
    assert sent is not None
    found = through_the_broker(with_registry, "avro-ref", sent)
    assert AvroDeserializer(client)(found, context("avro-ref")) == value


def test_json_schema(with_registry: Broker, client: SchemaRegistryClient) -> None:
    schema = (
        '{"$schema":"http://json-schema.org/draft-07/schema#","title":"User","type":"object",'
        '"properties":{"name":{"type":"string"}},"required":["name"]}'
    )
    sent = JSONSerializer(schema, client)({"name": "Ada"}, context("json"))
    assert sent is not None
    found = through_the_broker(with_registry, "json", sent)
    assert JSONDeserializer(schema, schema_registry_client=client)(found, context("json")) == {
        "name": "Ada"
    }


def test_json_schema_with_references(with_registry: Broker, client: SchemaRegistryClient) -> None:
    part = '{"$id":"http://example.com/part.json","type":"object","properties":{"n":{"type":"integer"}}}'
    client.register_schema("part", Schema(part, "JSON"))
    whole = Schema(
        '{"type":"object","properties":{"part":{"$ref":"http://example.com/part.json"}}}',
        "JSON",
        [SchemaReference("http://example.com/part.json", "part", 1)],
    )
    sent = JSONSerializer(whole, client)({"part": {"n": 1}}, context("json-ref"))
    assert sent is not None
    found = through_the_broker(with_registry, "json-ref", sent)
    reader = JSONDeserializer(whole, schema_registry_client=client)
    assert reader(found, context("json-ref")) == {"part": {"n": 1}}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module that protoc makes of two files, one of which needs the other."""
    from grpc_tools import protoc  # type: ignore[import-untyped] # it has no types

    folder: Path = tmp_path_factory.mktemp("proto")
    (folder / "registry_part.proto").write_text(
        'syntax = "proto3"; package t; message Part { int32 n = 1; }'
    )
    (folder / "registry_whole.proto").write_text(
        'syntax = "proto3"; package t; import "registry_part.proto"; '
        'import "google/protobuf/timestamp.proto"; '
        "message First {} "
        "message Whole { Part part = 1; map<string, int64> counts = 2; "
        "google.protobuf.Timestamp at = 3; oneof k { string s = 4; bool b = 5; } "
        "message Inner { optional string x = 1; } Inner inner = 6; }"
    )
    names = ["registry_part.proto", "registry_whole.proto"]
    known = resources.files("grpc_tools") / "_proto"
    command = ["protoc", f"-I{folder}", f"-I{known}", f"--python_out={folder}", *names]
    assert protoc.main(command) == 0
    sys.path.insert(0, str(folder))
    try:
        import registry_whole_pb2  # type: ignore[import-not-found] # made above

        yield registry_whole_pb2
    finally:
        sys.path.remove(str(folder))


def test_protobuf_with_references(
    with_registry: Broker, client: SchemaRegistryClient, generated: Any
) -> None:
    value = generated.Whole(counts={"a": 1}, s="x")
    value.part.n = 7
    value.inner.x = "y"
    serializer = ProtobufSerializer(generated.Whole, client)
    sent = serializer(value, context("proto"))
    assert sent is not None
    found = through_the_broker(with_registry, "proto", sent)
    assert ProtobufDeserializer(generated.Whole)(found, context("proto")) == value
    registered = client.get_latest_version("proto-value").schema
    assert [item.name for item in registered.references or ()] == ["registry_part.proto"]
    assert "message Whole" in (registered.schema_str or "")
    # A second producer finds what the first one registered.
    again = ProtobufSerializer(generated.Whole, client)(value, context("proto"))
    assert again == sent


def test_the_admin_calls_of_the_client(client: SchemaRegistryClient) -> None:
    schema_id = client.register_schema("admin", Schema('"int"', "AVRO"))
    assert client.get_schema(schema_id).schema_str == '"int"'
    assert "admin" in client.get_subjects()
    assert client.lookup_schema("admin", Schema('"int"', "AVRO")).version == 1
    assert client.get_subjects_by_schema_id(schema_id) == ["admin"]
    client.set_compatibility("admin", "FULL")
    assert client.get_compatibility("admin") == "FULL"
    client.update_mode("admin", "READONLY")
    assert client.get_mode("admin") == "READONLY"
    client.update_mode("admin", "READWRITE")
    assert client.get_contexts() == ["."]
    assert client.delete_subject("admin") == [1]
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_latest_version("admin")
    assert caught.value.error_code == 40401
