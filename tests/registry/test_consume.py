"""`ottla consume --schema-registry` shows values of all three languages as JSON."""

import json
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.cli.main import main
from ottla.client import Client, Producer
from ottla.embedded import Broker


@pytest.fixture(scope="module")
def both() -> Iterator[Broker]:
    with Broker(registry=True) as broker:
        yield broker


def produce(broker: Broker, topic: str, *values: bytes | None) -> None:
    with Client(broker.bootstrap_servers) as client, Producer(client) as producer:
        for value in values:
            producer.send(topic, value)


def consumed(
    broker: Broker, topic: str, capsys: pytest.CaptureFixture[str], url: str | None = None
) -> tuple[int, str, str]:
    capsys.readouterr()
    where = broker.registry_url if url is None else url
    status = main(
        ["consume", topic, "--bootstrap", broker.bootstrap_servers, "--schema-registry", where]
    )
    said = capsys.readouterr()
    return status, said.out, said.err


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_with_a_reference(both: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    with SchemaRegistryClient({"url": both.registry_url}) as client:
        part = '{"type":"record","name":"P","fields":[{"name":"n","type":"long"}]}'
        client.register_schema("part", Schema(part, "AVRO"))
        whole = Schema(
            '{"type":"record","name":"W","fields":[{"name":"p","type":"P"},'
            '{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}}]}',
            "AVRO",
            [SchemaReference("P", "part", 1)],
        )
        value = AvroSerializer(client, whole)({"p": {"n": 5}, "at": 0}, context("avro"))
    produce(both, "avro", value, None, b"plain")
    status, out, _ = consumed(both, "avro", capsys)
    assert status == 0
    first, null, plain = out.splitlines()
    assert json.loads(first) == {"p": {"n": 5}, "at": "1970-01-01T00:00:00Z"}
    assert (null, plain) == ("", "plain")


def test_json(both: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    with SchemaRegistryClient({"url": both.registry_url}) as client:
        schema = '{"title":"T","type":"object"}'
        value = JSONSerializer(schema, client)({"a": 1}, context("json"))
    produce(both, "json", value)
    assert json.loads(consumed(both, "json", capsys)[1]) == {"a": 1}


def test_protobuf(both: Broker, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from grpc_tools import protoc  # type: ignore[import-untyped] # it has no types

    (tmp_path / "consume_part.proto").write_text(
        'syntax = "proto3"; message CPart { int32 n = 1; }'
    )
    (tmp_path / "consume_whole.proto").write_text(
        'syntax = "proto3"; import "consume_part.proto"; import "google/protobuf/duration.proto"; '
        "message CFirst {} message CWhole { message In { CPart part = 1; "
        "google.protobuf.Duration d = 2; } }"
    )
    known = resources.files("grpc_tools") / "_proto"
    command = ["protoc", f"-I{tmp_path}", f"-I{known}", f"--python_out={tmp_path}"]
    assert protoc.main([*command, "consume_part.proto", "consume_whole.proto"]) == 0
    sys.path.insert(0, str(tmp_path))
    try:
        import consume_whole_pb2  # type: ignore[import-not-found] # made above
    finally:
        sys.path.remove(str(tmp_path))
    message = consume_whole_pb2.CWhole.In()
    message.part.n = 3
    message.d.seconds = 2
    with SchemaRegistryClient({"url": both.registry_url}) as client:
        serializer = ProtobufSerializer(consume_whole_pb2.CWhole.In, client)
        value = serializer(message, context("proto"))
    produce(both, "proto", value)
    assert json.loads(consumed(both, "proto", capsys)[1]) == {"part": {"n": 3}, "d": "2s"}


def test_what_cannot_be_decoded_is_shown_as_it_is(
    both: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    with SchemaRegistryClient({"url": both.registry_url}) as client:
        schema_id = client.register_schema("s", Schema('{"type":"array","items":"string"}', "AVRO"))
    unknown = b"\x00" + (4711).to_bytes(4) + b"abc"
    broken = (
        b"\x00" + schema_id.to_bytes(4) + b"\x02\x7eabc"
    )  # a string of 63 bytes, of which 3 are there
    produce(both, "broken", unknown, broken, unknown)
    status, out, err = consumed(both, "broken", capsys)
    assert status == 0
    assert out.count("abc") == 3
    assert err.count("Schema 4711 not found") == 1
    assert f"does not fit schema {schema_id}" in err


def test_a_registry_that_is_not_there(both: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    produce(both, "nowhere", b"\x00\x00\x00\x00\x01x")
    for url, words, status in (
        ("http://127.0.0.1:1", "cannot reach the registry", 1),
        ("nonsense", "is not the URL of a registry", 2),
    ):
        found = consumed(both, "nowhere", capsys, url)
        assert found[0] == status
        assert words in found[2]
        assert "Traceback" not in found[2]
