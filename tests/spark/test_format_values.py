"""Values by the schemas of a registry: what becomes of them, without Spark.

Everything is done twice: in columns by polars where it is installed, and value by value.
"""

import datetime
import io
import json
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
import pytest
from google.protobuf import message_factory
from msgspec.structs import replace
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.embedded import Broker
from ottla.registry.client import RegistryClient
from ottla.registry.decoding import protobuf_file
from pyspark_ottla.errors import OptionError
from pyspark_ottla.formats.avro import Avro
from pyspark_ottla.formats.columns import Values, language_of
from pyspark_ottla.formats.protobuf import fill
from pyspark_ottla.formats.settings import KEEP, PERMISSIVE, FormatSettings
from pyspark_ottla.formats.writing import encoded, planned
from pyspark_ottla.options import Use
from pyspark_ottla.sink.errors import RowError
from pyspark_ottla.source import source_schema
from pyspark_ottla.source.settings import SourceSettings
from tests.registry.registries import Rest

AT = datetime.datetime(2026, 11, 16, 10, 0, tzinfo=datetime.UTC)
FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "old", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "USED"]}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "int"]}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "lines", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {
            "name": "who",
            "type": [
                "null",
                {"type": "record", "name": "Who", "fields": [{"name": "n", "type": "float"}]},
            ],
        },
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
SECOND: dict[str, Any] = {
    **FIRST,
    "fields": [
        {"name": "number", "aliases": ["id"], "type": "long"},
        *FIRST["fields"][2:],
        {"name": "city", "type": "string", "default": "Brno"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "parts", "type": {"type": "array", "items": "int"}, "default": [1]},
    ],
}
UUID = "2b2c8f1e-5a2f-4d2e-9a5b-6b2d3c4e5f60"


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "old": "x" * (number % 5),
        "at": AT + datetime.timedelta(seconds=number),
        "day": AT.date(),
        "kind": ("NEW", "USED")[number % 2],
        "tags": {"a": number, "b": None} if number % 3 else {},
        "price": Decimal(number) / 4,
        "lines": ["one", None][: number % 3],
        "hash": b"ab",
        "who": {"n": 1.5} if number % 2 else None,
        "uuid": UUID,
    }


def avro(schema_id: int, schema: dict[str, Any], value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4) + out.getvalue()


@pytest.fixture(scope="module")
def rest() -> Iterator[Rest]:
    with Broker(registry=True) as broker:
        yield Rest(broker.registry_url)


@pytest.fixture(params=["columns", "values"])
def without_polars(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether values are taken one by one."""
    if request.param == "columns":
        pytest.importorskip("polars")
        return False
    monkeypatch.setitem(__import__("sys").modules, "pyspark_ottla.formats.avro_blocks", None)
    return True


def settings_of(rest: Rest, subject: str, form: str = "avro", mode: str = KEEP) -> FormatSettings:
    settings = FormatSettings(
        format=form, url=rest.url, user_info=None, subject=subject, version=None, mode=mode
    )
    return replace(settings, schema_id=settings.chosen().id)


def decoded(settings: FormatSettings, values: list[bytes | None]) -> tuple[list[Any], Any]:
    found, problems = Values(settings).decode(pa.array(values, pa.binary()))
    return found.to_pylist(maps_as_pydicts="strict"), problems


def test_avro_of_two_versions_by_the_newer_one(rest: Rest, without_polars: bool) -> None:
    first = rest.register("orders", FIRST).body["id"]
    second = rest.register("orders", SECOND).body["id"]
    assert first != second
    values: list[bytes | None] = [None]
    for number in range(100):
        values.append(avro(first, FIRST, row(number)))
        newer = {**row(number), "number": number, "city": "Oslo", "note": "n", "parts": []}
        values.append(avro(second, SECOND, newer))
    settings = settings_of(rest, "orders")
    found, problems = decoded(settings, values)
    assert problems == {}
    assert found[0] is None
    for place, made in enumerate(found[1:]):
        wanted = row(place // 2)
        new = {"city": "Oslo", "note": "n", "parts": []} if place % 2 else {
            "city": "Brno", "note": None, "parts": [1]
        }  # fmt: skip
        wanted["number"] = wanted.pop("id")
        del wanted["old"]
        assert made == {**wanted, **new}
    language = language_of(settings)
    assert isinstance(language, Avro)
    assert language.group(second).in_columns is not without_polars
    # A default that is no plain value is fastavro's business.
    assert not language.group(first).in_columns


def test_misfits_are_told_and_others_do_not_suffer(rest: Rest, without_polars: bool) -> None:
    one = rest.register("misfits", FIRST).body["id"]
    good = [avro(one, FIRST, row(number)) for number in range(6)]
    head = b"\0" + one.to_bytes(4)
    bad = [
        b"",
        b"no id",
        b"\0\xff\xff\xff\xffunknown id",
        good[1][:-1],
        good[2] + b"more",
        good[3] + good[3],
        head,
        head + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" * 3,
    ]
    found, problems = decoded(settings_of(rest, "misfits"), [*good[:3], *bad, *good[3:]])
    assert [each and each["id"] for each in found] == [0, 1, 2, *[None] * len(bad), 3, 4, 5]
    assert list(problems) == list(range(3, 3 + len(bad))) or set(problems) == set(range(3, 11))
    assert problems[3] == problems[4] == "the value carries no schema id"
    assert "schema 4294967295 cannot be used" in problems[5]
    assert "4 bytes are left over" in problems[7]


def test_a_value_that_hides_another_row_does_not_move_the_rows_behind_it(
    rest: Rest, without_polars: bool
) -> None:
    """Two values in one, and one too few: together they have the bytes of two rows."""
    schema = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}
    one = rest.register("shifted", schema).body["id"]
    good = [avro(one, schema, {"n": number}) for number in range(4)]
    values = [good[0], good[1] + good[2], good[2][:5], good[3]]
    found, problems = decoded(settings_of(rest, "shifted"), list(values))
    assert found == [{"n": 0}, None, None, {"n": 3}]
    assert set(problems) == {1, 2}


@pytest.mark.parametrize(
    ("schema", "value", "kind"),
    [
        ("long", 7, LongType()),
        ("string", "ü", StringType()),
        (["null", "double"], None, DoubleType()),
        (["int", "long"], 2**40, LongType()),
        ({"type": "map", "values": "boolean"}, {"k": True}, MapType(StringType(), BooleanType())),
        ({"type": "array", "items": "bytes"}, [b"x"], ArrayType(BinaryType(), False)),
    ],
)
def test_a_schema_need_not_be_a_record(
    rest: Rest, without_polars: bool, schema: Any, value: Any, kind: DataType
) -> None:
    subject = f"plain-{type(schema).__name__}-{kind.simpleString()}".replace("<", "-")
    made = rest.register(subject, schema).body["id"]
    settings = settings_of(rest, subject)
    assert language_of(settings).type().simpleString() == kind.simpleString()
    assert decoded(settings, [avro(made, schema, value)] * 3) == ([value] * 3, {})


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ({"name": "u", "type": ["int", "string"]}, "value.u is a union of 2 types"),
        ({"name": "next", "type": ["null", "Node"]}, "value.next holds itself"),
        ({"name": "z", "type": "null"}, "value.z is of the Avro type null"),
    ],
)
def test_what_is_no_column_is_named(rest: Rest, field: dict[str, Any], words: str) -> None:
    rest.register(f"no-{field['name']}", {"type": "record", "name": "Node", "fields": [field]})
    with pytest.raises(OptionError, match=words):
        language_of(settings_of(rest, f"no-{field['name']}"))


KIND = StructType(
    [
        StructField("id", LongType(), False),
        StructField("city", StringType()),
        StructField("names", ArrayType(StringType(), False), False),
        StructField("tags", MapType(StringType(), IntegerType(), False), False),
        StructField("line", StructType([StructField("sku", StringType())])),
        StructField("half", DoubleType(), False),
        StructField("at", TimestampType()),
        StructField("price", DecimalType(9, 2)),
    ]
)
ROWS: list[dict[str, Any]] = [
    {
        "id": number,
        "city": "Brno" if number % 2 else None,
        "names": ["a", "b"][: number % 3],
        "tags": {"k": number},
        "line": {"sku": "A"},
        "half": number / 2,
        "at": AT,
        "price": Decimal("1.25"),
    }
    for number in range(10)
]


def written(settings: FormatSettings, kind: StructType, rows: list[dict[str, Any]]) -> pa.Array:
    from pyspark_ottla.formats.columns import arrow_type

    settings = planned(settings, kind)
    batch = pa.RecordBatch.from_arrays([pa.array(rows, arrow_type(kind))], names=["value"])
    (found,) = encoded(settings, [batch], 0)
    return found.column(0)


@pytest.mark.parametrize("form", ["avro", "json-schema", "protobuf"])
def test_what_is_written_is_read(rest: Rest, form: str) -> None:
    kind, rows = KIND, ROWS
    if form == "protobuf":  # it has no decimal
        kind = StructType(KIND.fields[:-1])
        rows = [{name: each for name, each in one.items() if name != "price"} for one in ROWS]
    plan = FormatSettings(
        format=form, url=rest.url, user_info=None, subject=f"back-{form}", version=None
    )
    values = written(plan, kind, rows)
    found, problems = decoded(settings_of(rest, f"back-{form}", form), values.to_pylist())
    assert problems == {}
    if form == "json-schema":  # a schema has no types for these
        for one in found:
            assert (one.pop("at"), one.pop("price")) == ("2026-11-16T10:00:00Z", 1.25)
        rows = [{k: v for k, v in one.items() if k not in ("at", "price")} for one in rows]
    assert found == rows


def test_rows_are_written_by_a_version_that_there_is(rest: Rest) -> None:
    narrow = {"type": "record", "name": "N", "fields": [{"name": "id", "type": "long"}]}
    made = rest.register("there", narrow).body["id"]
    plan = FormatSettings(
        format="avro", url=rest.url, user_info=None, subject="there", version="latest"
    )
    kind = StructType([StructField("id", LongType())])
    values = written(plan, kind, [{"id": 5}])
    assert values[0].as_py() == b"\0" + made.to_bytes(4) + b"\x0a"
    with pytest.raises(RowError, match="does not fit the schema"):
        written(plan, kind, [{"id": None}])
    with pytest.raises(OptionError, match="the schema of there is AVRO"):
        written(replace(plan, format="protobuf"), kind, [{"id": 5}])


def test_a_schema_that_is_not_compatible_is_refused(rest: Rest) -> None:
    plan = FormatSettings(format="avro", url=rest.url, user_info=None, subject="kept", version=None)
    written(plan, StructType([StructField("id", LongType())]), [{"id": 1}])
    with pytest.raises(OptionError, match="cannot be registered as kept"):
        written(plan, StructType([StructField("id", StringType())]), [{"id": "x"}])


JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "size": {"type": ["null", "number"]},
        "open": {},
        "line": {"$ref": "#/definitions/line"},
        "more": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "list": {"type": "array", "items": {"oneOf": [{"type": "null"}, {"type": "string"}]}},
    },
    "definitions": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}}},
}


def test_json_by_its_schema(rest: Rest) -> None:
    made = rest.register("json", JSON, schemaType="JSON").body["id"]
    settings = settings_of(rest, "json", "json-schema")
    assert language_of(settings).type().simpleString() == (
        "struct<id:bigint,size:double,open:string,line:struct<sku:string>,"
        "more:map<string,boolean>,list:array<string>>"
    )
    head = b"\0" + made.to_bytes(4)
    good = {"id": 1.0, "size": 2, "open": {"a": [1]}, "line": {"sku": "A", "x": 1}}
    values = [
        head + json.dumps({**good, "more": {"k": True}, "list": ["a", None]}).encode(),
        head + b'{"id": "x"}',
        head + b'{"id": 1e30}',
        head + b'{"line": 3}',
        head + b"not json",
        head + b"[" * 5000,
        head + b"{}",
    ]
    found, problems = decoded(settings, list(values))
    assert found[0] == {
        "id": 1,
        "size": 2.0,
        "open": '{"a":[1]}',
        "line": {"sku": "A"},
        "more": {"k": True},
        "list": ["a", None],
    }
    assert set(problems) == {1, 2, 3, 4, 5}
    assert problems[1].endswith('"x" is no integer')
    assert set(found[6].values()) == {None}


PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int64 id = 1;
  optional string city = 2;
  repeated Line lines = 3;
  map<string, int32> tags = 4;
  google.protobuf.Timestamp at = 5;
  Kind kind = 6;
  google.protobuf.Int32Value wrapped = 7;
  uint64 large = 8;
  message Line { string sku = 1; uint32 n = 2; }
  enum Kind { NEW = 0; USED = 1; }
}
message Other { string text = 1; }
"""


def test_protobuf_by_its_file(rest: Rest) -> None:
    made = rest.register("proto", PROTO, schemaType="PROTOBUF").body["id"]
    settings = settings_of(rest, "proto", "protobuf", PERMISSIVE)
    _, file = protobuf_file(RegistryClient(rest.url).by_id(made, serialized=True))
    order = {
        "id": 1,
        "lines": [{"sku": "A", "n": 4_000_000_000}],
        "tags": {"x": 1},
        "at": AT,
        "kind": "USED",
        "wrapped": 5,
        "large": 2**64 - 1,
    }
    kind = message_factory.GetMessageClass(file.message_types_by_name["Order"])
    data = fill(kind(), order).SerializeToString()
    head = b"\0" + made.to_bytes(4)
    values = [
        head + b"\0" + data,
        head + b"\x02\x00" + data,  # the path 0, in full
        head + b"\x02\x02\x0a\x01x",  # the second message
        head + b"\x02\x12" + data,  # a message that there is not
        head + b"\0\x0a\xff",
        head,
    ]
    found, problems = decoded(settings, list(values))
    assert found[:2] == [{**order, "city": None}] * 2
    assert set(problems) == {2, 3, 4, 5}
    assert "it is a Other, not a Order" in problems[2]
    assert "leads nowhere" in problems[3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"value.format": "xml"}, "avro or json-schema or protobuf or binary"),
        ({"value.format": "avro"}, "it needs the option schema.registry.url"),
        ({"schema.registry.url": "http://127.0.0.1:1"}, "schema.registry.url needs value.format"),
        ({"value.mode": "keep"}, "value.mode needs value.format"),
        ({"value.format": "avro", "schema.registry.url": "ftp://x"}, "is not the URL"),
        ({"value.format": "avro", "schema.registry.url": "http://127.0.0.1:1"}, "cannot reach"),
        ({"value.format": "avro", "schema.registry.url": "${env:NOT_SET}"}, "NOT_SET"),
        (
            {"value.format": "avro", "schema.registry.url": "http://x", "subscribe": "a,b"},
            "needs the option value.subject",
        ),
        (
            {"value.format": "avro", "schema.registry.url": "http://x", "value.mode": "lax"},
            "failfast or permissive or keep",
        ),
        (
            {
                "value.format": "avro",
                "schema.registry.url": "http://x",
                "value.schema.version": "-1",
            },
            "latest or a number",
        ),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], words: str) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", **options}
    with pytest.raises(OptionError) as wrong:
        source_schema(given)
    assert words in str(wrong.value)


def test_secrets_of_the_registry_are_resolved_where_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "subscribe": "t",
        "value.format": "avro",
        "schema.registry.url": "http://${env:REGISTRY_HOST}:8081",
        "schema.registry.basic.auth.user.info": "user:${env:REGISTRY_PASSWORD}",
    }
    settings = SourceSettings.of(options, Use.BATCH_READ).format
    assert settings is not None
    monkeypatch.setenv("REGISTRY_HOST", "there")
    monkeypatch.setenv("REGISTRY_PASSWORD", "secret")
    assert b"secret" not in pickle.dumps(settings)
    assert settings.registry().url == "http://there:8081"
    assert settings.registry()._headers["Authorization"] == "Basic dXNlcjpzZWNyZXQ="
