"""Parsing and canonical forms of Avro, JSON Schema and Protobuf."""

import base64
import json

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from ottla.registry.languages import (
    Dependency,
    SchemaError,
    SchemaSource,
    avro,
    json_schema,
    protobuf,
)

OTHER = Dependency("other.proto", 'syntax = "proto3"; package o; message B { int32 x = 1; }')


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (' "string" ', '"string"'),
        ("string", '"string"'),
        ('{"type": "string"}', '"string"'),
        ('{"type":"long","logicalType":"x"}', '{"type":"long","logicalType":"x"}'),
        (
            '{"namespace":"n.s","name":"A","type":"record","doc":"d","extra":[1],'
            '"fields":[{"default":1,"type":"int","name":"a","order":"ascending","x":2}]}',
            '{"type":"record","name":"A","namespace":"n.s","doc":"d",'
            '"fields":[{"name":"a","type":"int","default":1,"x":2}],"extra":[1]}',
        ),
        (
            '{"type":"record","name":"n.A","fields":[{"name":"a","type":["null",'
            '{"type":"enum","name":"n.E","symbols":["x"],"default":"x","aliases":["n.F","G"]}]},'
            '{"name":"b","type":{"type":"n.E"}},'
            '{"name":"c","type":{"type":"fixed","name":"m.X","size":2}}]}',
            '{"type":"record","name":"A","namespace":"n","fields":[{"name":"a","type":["null",'
            '{"type":"enum","name":"E","symbols":["x"],"default":"x","aliases":["F","G"]}]},'
            '{"name":"b","type":"E"},'
            '{"name":"c","type":{"type":"fixed","name":"X","namespace":"m","size":2}}]}',
        ),
    ],
)
def test_avro_is_kept_as_java_prints_it(sent: str, kept: str) -> None:
    assert avro.parse(sent, (), False) == kept
    assert avro.parse(kept, (), False) == kept


def test_normalized_avro_is_the_same_for_every_order() -> None:
    one = '{"type":"record","name":"A","namespace":"n","fields":[],"b":{"y":1,"x":2},"a":1}'
    two = '{"a":1,"b":{"x":2,"y":1},"fields":[],"name":"n.A","type":"record"}'
    assert avro.parse(one, (), True) == avro.parse(two, (), True)
    assert avro.parse(one, (), False) != avro.parse(two, (), False)


def test_avro_types_come_from_references() -> None:
    part = Dependency("n.P", '{"type":"record","name":"P","namespace":"n","fields":[]}')
    text = '{"type":"record","name":"A","namespace":"n","fields":[{"name":"p","type":"n.P"}]}'
    assert '"type":"P"' in avro.parse(text, (part,), False)
    with pytest.raises(SchemaError):
        avro.parse(text, (), False)
    resolved = json.loads(avro.formatted(SchemaSource(text, (part,)), "resolved"))
    assert resolved["fields"][0]["type"]["name"] == "P"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "3",
        "null x",
        "{}",
        '{"type":"nope"}',
        '{"type":"record","name":"A"}',
        '{"type":"record","name":"1A","fields":[]}',
        '{"type":"record","name":"A","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
        '{"type":"record","name":"A","fields":[{"name":"a","type":"int","default":"x"}]}',
        '{"type":"enum","name":"E","symbols":["a","a"]}',
        '["int","int"]',
        '{"type":"record","name":"A","fields":{"a":1}}',
        '{"type":"record","name":"A","fields":[3]}',
        '{"type":"array"}',
        '{"type":"fixed","name":"F","size":"x"}',
        "[" * 50_000,
        '{"type":"array","items":' * 2000 + '"int"' + "}" * 2000,
    ],
)
def test_malformed_avro_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        avro.parse(text, (), False)
    assert str(caught.value)


def test_json_keeps_its_order_unless_it_is_normalized() -> None:
    text = '{"type": "object",\n "properties": {"b": {}, "a": {}}}'
    assert json_schema.parse(text, (), False) == ('{"type":"object","properties":{"b":{},"a":{}}}')
    assert json_schema.parse(text, (), True) == '{"properties":{"a":{},"b":{}},"type":"object"}'


def test_json_refers_to_registered_schemas_only() -> None:
    text = '{"$ref":"other.json"}'
    other = Dependency("other.json", '{"type":"string"}')
    assert json_schema.parse(text, (other,), False) == text
    for ref in ("other.json", "http://127.0.0.1:1/x.json", "file:///etc/passwd", "#/nowhere"):
        with pytest.raises(SchemaError):
            json_schema.parse(json.dumps({"$ref": ref}), (), False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        '"x"',
        '{"type":"nope"}',
        '{"$schema":"http://example.com/nope"}',
        '{"$schema":3}',
        '{"type":"string","pattern":"("}',
        '{"properties":3}',
        "[" * 50_000,
    ],
)
def test_malformed_json_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        json_schema.parse(text, (), False)


PROTO = """
// A comment.
syntax = "proto3";
package a.b;
import "other.proto";
import "google/protobuf/timestamp.proto";
option java_package = "x";
message A {
  reserved 10 to 12, 15;
  reserved "gone";
  string foo_bar = 1 [deprecated = true];
  map<string, o.B> m = 2;
  oneof k { int32 x = 3; o.B y = 4; }
  repeated C cs = 5 [json_name = "zzz"];
  optional bool maybe = 6;
  google.protobuf.Timestamp t = 7;
  message C { enum Z { P = 0; } Z z = 1; }
}
enum E { option allow_alias = true; U = 0; V = 1; W = 1; }
service S { rpc f(A) returns (stream A.C) { option deprecated = true; } }
"""

PROTO2 = """
syntax = "proto2";
message A {
  required int32 x = 1 [default = 5];
  optional string s = 2 [default = "a\\"b"];
  optional E e = 3 [default = V];
  extensions 100 to max;
  enum E { U = 0; V = 1; }
}
extend A { optional int32 more = 100; }
"""


@pytest.mark.parametrize(("text", "needs"), [(PROTO, (OTHER,)), (PROTO2, ())])
def test_protobuf_is_kept_by_its_meaning(text: str, needs: tuple[Dependency, ...]) -> None:
    kept = protobuf.parse(text, needs, False)
    assert "comment" not in kept
    assert protobuf.parse(kept, needs, False) == kept
    assert protobuf.parse(" ".join(kept.split()), needs, False) == kept
    full = protobuf.parse(text, needs, True)
    assert protobuf.compiled(full, needs)[-1] == protobuf.compiled(kept, needs)[-1]


def test_a_protobuf_descriptor_in_base64_becomes_text_and_back() -> None:
    kept = protobuf.parse(PROTO, (OTHER,), False)
    serialized = protobuf.formatted(SchemaSource(kept, (OTHER,)), "serialized")
    file = FileDescriptorProto.FromString(base64.b64decode(serialized))
    assert [item.name for item in file.message_type] == ["A"]
    assert protobuf.parse(serialized, (OTHER,), False) == kept


def test_custom_options_keep_the_text_as_it_was_sent() -> None:
    text = (
        'syntax = "proto3"; import "confluent/meta.proto"; '
        'message A { string x = 1 [(confluent.field_meta).doc = "d"]; } // kept'
    )
    assert protobuf.parse(text, (), False) == text


@pytest.mark.parametrize(
    "text",
    [
        "message A {",
        'syntax = "proto3"; message A { Unknown x = 1; }',
        'syntax = "proto3"; message A { int32 x = 1; int32 y = 1; }',
        'syntax = "proto3"; import "../../../../etc/passwd"; message A {}',
        'syntax = "proto3"; import "/etc/passwd"; message A {}',
        'syntax = "proto3"; import "missing.proto"; message A {}',
        'syntax = "proto9"; message A {}',
        "message A { " * 500 + "}" * 500,
        "\x00\x01",
        "nonsense",
    ],
)
def test_malformed_protobuf_is_refused(text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        protobuf.parse(text, (), False)
    assert "/tmp" not in str(caught.value)
    assert "__schema__" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["../x.proto", "/etc/x.proto", "a/../../x", "", "x\x00y", "a" * 600]
)
def test_a_reference_cannot_leave_its_folder(name: str) -> None:
    with pytest.raises(SchemaError, match="invalid name"):
        protobuf.parse('syntax = "proto3"; message A {}', (Dependency(name, "x"),), False)
