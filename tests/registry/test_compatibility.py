"""The table of compatibility decisions: old schema, new schema, backward, forward.

Backward: a reader with the new schema reads what was written with the old one. Forward: the other
way round. The expectations are those of Confluent's registry; for Avro the library's own checker is
asked as well.
"""

import json
from typing import Any, NamedTuple

import avro.compatibility
import pytest

from ottla.registry.languages import (
    Dependency,
    Difference,
    SchemaSource,
    avro_diff,
    json_diff,
    proto_diff,
)
from ottla.registry.languages.avro import schema_object


class Row(NamedTuple):
    """A decision."""

    name: str
    old: Any
    new: Any
    backward: str | None
    """What is incompatible, or nothing."""
    forward: str | None


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any = "int", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


A = field("a")
MISSING = "READER_FIELD_MISSING_DEFAULT_VALUE"
AVRO = [
    Row("the same", record(A), record(A), None, None),
    Row("a field with a default", record(A), record(A, field("b", default=1)), None, None),
    Row("a field without one", record(A), record(A, field("b")), MISSING, None),
    Row("a field gone", record(A, field("b")), record(A), None, MISSING),
    Row("int to long", "int", "long", None, "TYPE_MISMATCH"),
    Row("int to float", "int", "float", None, "TYPE_MISMATCH"),
    Row("float to double", "float", "double", None, "TYPE_MISMATCH"),
    Row("string to bytes", "string", "bytes", None, None),
    Row("int to string", "int", "string", "TYPE_MISMATCH", "TYPE_MISMATCH"),
    Row("into a union", "int", ["null", "int"], None, "TYPE_MISMATCH"),
    Row("a union grows", ["null", "int"], ["null", "int", "string"], None, "MISSING_UNION_BRANCH"),
    Row("a union promotes", ["null", "int"], ["null", "long"], None, "MISSING_UNION_BRANCH"),
    Row("a symbol more", enum("a"), enum("a", "b"), None, "MISSING_ENUM_SYMBOLS"),
    Row("a symbol less, default", enum("a", "b"), enum("a", default="a"), None, None),
    Row("another name", record(A), record(A, name="S"), "NAME_MISMATCH", "NAME_MISMATCH"),
    Row("an alias", record(A), {**record(A, name="S"), "aliases": ["R"]}, None, "NAME_MISMATCH"),
    Row("a field alias", record(A), record(field("b", aliases=["a"])), None, MISSING),
    Row(
        "a fixed of another size",
        {"type": "fixed", "name": "F", "size": 1},
        {"type": "fixed", "name": "F", "size": 2},
        "FIXED_SIZE_MISMATCH",
        "FIXED_SIZE_MISMATCH",
    ),
    Row(
        "items promote",
        {"type": "array", "items": "int"},
        {"type": "array", "items": "long"},
        None,
        "TYPE_MISMATCH",
    ),
    Row(
        "values do not",
        {"type": "map", "values": "string"},
        {"type": "map", "values": "int"},
        "TYPE_MISMATCH",
        "TYPE_MISMATCH",
    ),
    Row(
        "deep in a recursion",
        record(field("next", ["null", "R"], default=None)),
        record(field("next", ["null", "R"], default=None), field("x")),
        MISSING,
        None,
    ),
    Row("array to map", {"type": "array", "items": "int"}, {"type": "map", "values": "int"},
        "TYPE_MISMATCH", "TYPE_MISMATCH"),
]  # fmt: skip


def obj(properties: dict[str, Any], *required: str, closed: bool = False, **more: Any) -> Any:
    found: dict[str, Any] = {"type": "object", "properties": properties, **more}
    if required:
        found["required"] = list(required)
    if closed:
        found["additionalProperties"] = False
    return found


S, N = {"type": "string"}, {"type": "number"}
JSON = [
    Row("the same", obj({"a": S}), obj({"a": S}), None, None),
    Row("added, open", obj({}), obj({"a": S}), "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", None),
    Row(
        "added, closed",
        obj({}, closed=True),
        obj({"a": S}, closed=True),
        None,
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    Row(
        "added and required, closed",
        obj({}, closed=True),
        obj({"a": S}, "a", closed=True),
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    Row("required", obj({"a": S}), obj({"a": S}, "a"), "REQUIRED_ATTRIBUTE_ADDED", None),
    Row(
        "required with a default",
        obj({"a": {**S, "default": "x"}}),
        obj({"a": {**S, "default": "x"}}, "a"),
        None,
        None,
    ),
    Row("closed", obj({}), obj({}, closed=True), "ADDITIONAL_PROPERTIES_REMOVED", None),
    Row("integer to number", {"type": "integer"}, N, None, "TYPE_NARROWED"),
    Row("string to number", S, N, "TYPE_CHANGED", "TYPE_CHANGED"),
    Row("more types", S, {"type": ["string", "null"]}, None, "TYPE_NARROWED"),
    Row("anything", S, {}, None, "TYPE_NARROWED"),
    Row("longer", {**S, "maxLength": 3}, {**S, "maxLength": 4}, None, "MAX_LENGTH_DECREASED"),
    Row("a minimum", N, {**N, "minimum": 1}, "MINIMUM_ADDED", None),
    Row("a pattern", S, {**S, "pattern": "a"}, "PATTERN_ADDED", None),
    Row("a multiple", {**N, "multipleOf": 10}, {**N, "multipleOf": 5}, None, "MULTIPLE_OF_CHANGED"),
    Row("an enum grows", {"enum": ["a"]}, {"enum": ["a", "b"]}, None, "ENUM_ARRAY_NARROWED"),
    Row("an enum goes", {**S, "enum": ["a"]}, S, None, "ENUM_ARRAY_NARROWED"),
    Row("a sum grows", {"oneOf": [S, N]}, {"oneOf": [S, N, {"type": "null"}]}, None,
        "SUM_TYPE_NARROWED"),
    Row("into a sum", S, {"oneOf": [S, N]}, None, "SUM_TYPE_NARROWED"),
    Row("one to any", {"oneOf": [S, N]}, {"anyOf": [S, N]}, None, "COMBINED_TYPE_CHANGED"),
    Row("a product grows", {"allOf": [S]}, {"allOf": [S, {"maxLength": 3}]},
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED", None),
    Row("items", {"type": "array", "items": S}, {"type": "array", "items": N}, "TYPE_CHANGED",
        "TYPE_CHANGED"),
    Row("more items", {"type": "array", "maxItems": 1}, {"type": "array", "maxItems": 2}, None,
        "MAX_ITEMS_DECREASED"),
    Row("unique items", {"type": "array"}, {"type": "array", "uniqueItems": True},
        "UNIQUE_ITEMS_ADDED", None),
    Row("not", {"not": S}, {}, None, "NOT_TYPE_EXTENDED"),
    Row("a description", S, {**S, "description": "x", "title": "y", "default": "z"}, None, None),
    Row(
        "through a reference",
        {"$ref": "#/definitions/x", "definitions": {"x": obj({"a": S})}},
        {"$ref": "#/$defs/y", "$defs": {"y": obj({"a": N})}},
        "TYPE_CHANGED",
        "TYPE_CHANGED",
    ),
    Row(
        "recursive",
        obj({"next": {"$ref": "#"}, "a": S}),
        obj({"next": {"$ref": "#"}, "a": S}, "a"),
        "REQUIRED_ATTRIBUTE_ADDED",
        None,
    ),
    Row(
        "covered by additional properties",
        obj({"a": S}, additionalProperties=S),
        obj({}, additionalProperties=S),
        None,
        None,
    ),
]  # fmt: skip


def proto(body: str, syntax: str = "proto3", package: str = "p") -> str:
    return f'syntax = "{syntax}"; package {package}; {body}'


def message(fields: str) -> str:
    return proto(f"message A {{ {fields} }}")


PROTO = [
    Row("the same", message("int32 x = 1;"), message("int32 x = 1;"), None, None),
    Row("a field more", message(""), message("int32 x = 1;"), None, None),
    Row("another name", message("int32 x = 1;"), message("int32 y = 1;"), None, None),
    Row("wider", message("int32 x = 1;"), message("int64 x = 1;"), None, None),
    Row("to bool", message("int32 x = 1;"), message("bool x = 1;"), None, None),
    Row(
        "to string",
        message("int32 x = 1;"),
        message("string x = 1;"),
        "FIELD_SCALAR_KIND_CHANGED",
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    Row(
        "to zigzag",
        message("int32 x = 1;"),
        message("sint32 x = 1;"),
        "FIELD_SCALAR_KIND_CHANGED",
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    Row("string to bytes", message("string x = 1;"), message("bytes x = 1;"), None, None),
    Row(
        "numbers repeated",
        message("int32 x = 1;"),
        message("repeated int32 x = 1;"),
        "FIELD_NUMERIC_LABEL_CHANGED",
        "FIELD_NUMERIC_LABEL_CHANGED",
    ),
    Row(
        "strings repeated", message("string x = 1;"), message("repeated string x = 1;"), None, None
    ),
    Row(
        "a message gone",
        proto("message A {} message B {}"),
        proto("message A {}"),
        "MESSAGE_REMOVED",
        None,
    ),
    Row("an enum gone", proto("message A {} enum E { U = 0; }"), proto("message A {}"), None, None),
    Row(
        "a package",
        proto("message A {}"),
        proto("message A {}", package="q"),
        "PACKAGE_CHANGED",
        "PACKAGE_CHANGED",
    ),
    Row(
        "required",
        proto("message A {}", "proto2"),
        proto("message A { required int32 x = 1; }", "proto2"),
        "REQUIRED_FIELD_ADDED",
        "REQUIRED_FIELD_REMOVED",
    ),
    Row(
        "out of a oneof",
        message("oneof k { int32 x = 1; int32 y = 2; }"),
        message("oneof k { int32 x = 1; }"),
        "ONEOF_FIELD_REMOVED",
        None,
    ),
    Row(
        "one into a oneof",
        message("int32 x = 1;"),
        message("oneof k { int32 x = 1; int32 y = 2; }"),
        None,
        None,
    ),
    Row(
        "two into a oneof",
        message("int32 x = 1; int32 y = 2;"),
        message("oneof k { int32 x = 1; int32 y = 2; }"),
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF",
        None,
    ),
    Row(
        "another message type",
        proto("message A { B x = 1; } message B {} message C {}"),
        proto("message A { C x = 1; } message B {} message C {}"),
        "FIELD_NAMED_TYPE_CHANGED",
        "FIELD_NAMED_TYPE_CHANGED",
    ),
    Row(
        "deep within",
        proto("message A { B x = 1; message B { int32 y = 1; } }"),
        proto("message A { B x = 1; message B { string y = 1; } }"),
        "FIELD_SCALAR_KIND_CHANGED",
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    Row(
        "scalar to message",
        proto("message A { int32 x = 1; } message B {}"),
        proto("message A { B x = 1; } message B {}"),
        "FIELD_KIND_CHANGED",
        "FIELD_KIND_CHANGED",
    ),
    Row(
        "the values of a map",
        message("map<string, int32> m = 1;"),
        message("map<string, string> m = 1;"),
        "FIELD_SCALAR_KIND_CHANGED",
        "FIELD_SCALAR_KIND_CHANGED",
    ),
]


def named(rows: list[Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])


def first(found: list[Difference]) -> str | None:
    return found[0].type if found else None


@named(AVRO)
def test_avro(row: Row) -> None:
    old, new = SchemaSource(json.dumps(row.old)), SchemaSource(json.dumps(row.new))
    assert first(avro_diff.differences(new, old)) == row.backward
    assert first(avro_diff.differences(old, new)) == row.forward


@named(AVRO)
def test_the_library_decides_as_we_do_for_avro(row: Row) -> None:
    old = schema_object(SchemaSource(json.dumps(row.old)))
    new = schema_object(SchemaSource(json.dumps(row.new)))
    for reader, writer, expected in ((new, old, row.backward), (old, new, row.forward)):
        kind: Any = avro.compatibility.ReaderWriterCompatibilityChecker  # it has no types
        checker = kind()
        result = checker.get_compatibility(reader, writer).compatibility
        is_compatible = result is avro.compatibility.SchemaCompatibilityType.compatible
        assert is_compatible == (expected is None)


@named(JSON)
def test_json(row: Row) -> None:
    old, new = SchemaSource(json.dumps(row.old)), SchemaSource(json.dumps(row.new))
    assert first(json_diff.differences(new, old)) == row.backward
    assert first(json_diff.differences(old, new)) == row.forward


@named(PROTO)
def test_protobuf(row: Row) -> None:
    old, new = SchemaSource(row.old), SchemaSource(row.new)
    assert first(proto_diff.differences(new, old)) == row.backward
    assert first(proto_diff.differences(old, new)) == row.forward


def test_differences_within_references_count() -> None:
    main = 'syntax = "proto3"; import "o.proto"; message A { B x = 1; }'
    before = Dependency("o.proto", 'syntax = "proto3"; message B { int32 y = 1; }')
    after = Dependency("o.proto", 'syntax = "proto3"; message B { string y = 1; }')
    found = proto_diff.differences(SchemaSource(main, (after,)), SchemaSource(main, (before,)))
    assert first(found) == "FIELD_SCALAR_KIND_CHANGED"
    ref = '{"$ref":"o.json"}'
    old = SchemaSource(ref, (Dependency("o.json", '{"type":"string"}'),))
    new = SchemaSource(ref, (Dependency("o.json", '{"type":"number"}'),))
    assert first(json_diff.differences(new, old)) == "TYPE_CHANGED"


def test_the_texts_are_those_of_confluent() -> None:
    old, new = SchemaSource(json.dumps(record(A))), SchemaSource(json.dumps(record(A, field("b"))))
    (found,) = avro_diff.differences(new, old)
    assert found.shown("new", "old") == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path "
        "'/fields/1' in the new schema has no default value and is missing in the old schema', "
        "additionalInfo:'b'}"
    )
    before, after = SchemaSource(message("int32 x = 1;")), SchemaSource(message("string x = 1;"))
    (found,) = proto_diff.differences(after, before)
    assert found.shown("new", "old") == (
        '{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"The kind of a SCALAR field at path '
        "'#/A/1' in the new schema does not match its kind in the old schema\"}"
    )
