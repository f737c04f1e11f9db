"""The decoder of values with hostile schemas and values, and with a registry in trouble."""

import json
from collections.abc import Iterator

import pytest

from ottla.embedded import Broker
from ottla.registry.client import FoundSchema, RegistryUnreachable
from ottla.registry.decoding import (
    FAILED_SECONDS,
    UNREACHABLE_SECONDS,
    Decoder,
    ValueDecodeError,
    avro_schema,
)
from tests.registry.registries import Rest

FRAME = b"\x00"


@pytest.fixture(scope="module")
def rest() -> Iterator[Rest]:
    with Broker(registry=True) as broker:
        yield Rest(broker.registry_url)


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "null"},
        {"type": "fixed", "name": "F", "size": 0},
        {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]},
    ],
)
def test_items_without_bytes_are_refused(items: object) -> None:
    field = {"name": "a", "type": ["null", {"type": "array", "items": items}]}
    schema = {"type": "record", "name": "R", "fields": [field]}
    with pytest.raises(ValueDecodeError, match="without any bytes"):
        avro_schema(FoundSchema(1, "AVRO", json.dumps(schema), ()))


def test_a_schema_that_refers_to_itself_is_no_array_of_nothing() -> None:
    following = {"name": "next", "type": {"type": "array", "items": "R"}}
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}, following]}
    avro_schema(FoundSchema(1, "AVRO", json.dumps(schema), ()))


def test_a_value_of_few_bytes_takes_little_memory(rest: Rest) -> None:
    schema = {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}
    made = rest.register("bomb", schema)
    value = FRAME + made.body["id"].to_bytes(4) + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    with pytest.raises(ValueDecodeError, match="without any bytes"):
        Decoder(rest.url).decode(value)


def test_an_unknown_id_is_asked_for_once_in_a_while(rest: Rest) -> None:
    clock = [0.0]
    decoder = Decoder(rest.url, now=lambda: clock[0])
    expected = rest.register("later", "string").body["id"] + 1
    value = FRAME + expected.to_bytes(4) + b"\x02"
    with pytest.raises(ValueDecodeError, match="not found"):
        decoder.decode(value)
    assert rest.register("later-too", "int").body["id"] == expected
    with pytest.raises(ValueDecodeError, match="not found"):
        decoder.decode(value)
    clock[0] += FAILED_SECONDS
    assert decoder.decode(value) == b"1"


def test_a_registry_that_is_down_is_not_asked_for_each_value() -> None:
    clock = [0.0]
    decoder = Decoder("http://127.0.0.1:1", now=lambda: clock[0])
    problems = []
    for schema_id, now in ((1, 0.0), (2, 0.0), (3, UNREACHABLE_SECONDS)):
        clock[0] = now
        with pytest.raises(RegistryUnreachable) as problem:
            decoder.decode(FRAME + schema_id.to_bytes(4))
        problems.append(problem.value)
    assert problems[0] is problems[1]
    assert problems[1] is not problems[2]
