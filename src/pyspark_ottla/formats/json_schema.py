"""JSON values by the reader's JSON Schema.

Rules kept here:
1. The schema gives names and types of columns; what it says beside them (lengths, patterns) is for
   the producer to check. A type that it leaves open is a text that holds JSON.
2. A value of another type than its column's is an error of its record; an unknown field is ignored.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.registry.client import FoundSchema, SchemaRefused
from pyspark_ottla.errors import OptionError
from pyspark_ottla.formats.columns import arrow_type, by_rows
from pyspark_ottla.formats.settings import FormatSettings

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

DEEPEST: Final = 50
LARGEST_LONG: Final = 2**63 - 1
_SCALARS: Final[dict[str, DataType]] = {
    "integer": LongType(),
    "number": DoubleType(),
    "string": StringType(),
    "boolean": BooleanType(),
}

Convert = Callable[[Any], Any]


class JsonSchema:
    """A reader's schema."""

    def __init__(self, settings: FormatSettings, reader: FoundSchema) -> None:
        self._settings = settings
        documents = {name: _loaded(text) for name, text in reader.references}
        self._type = _Types(documents).of(_loaded(reader.text), "", 0)
        self._group = JsonGroup(self._type)

    def type(self) -> DataType:
        """The reader's schema as Spark's type."""
        return self._type

    def group(self, schema_id: int) -> "JsonGroup":
        """Whatever schema has written it: JSON has its names in it."""
        found = self._settings.by_id(schema_id)
        if found.type != "JSON":
            raise SchemaRefused(f"it is {found.type}")
        return self._group


class JsonGroup:
    """Decodes values."""

    def __init__(self, kind: DataType) -> None:
        self._kind = arrow_type(kind)
        self._convert = _converter(kind)

    def decode(self, values: "pa.Array") -> "tuple[pa.Array, dict[int, str]]":
        """The values, and what is wrong with some."""
        return by_rows(values, self._kind, self._decode)

    def _decode(self, data: bytes) -> object:
        return self._convert(msgspec.json.decode(data))


class _Types:
    """Spark's types of a schema and of those that it refers to."""

    def __init__(self, documents: dict[str, Any]) -> None:
        self._documents = documents

    def of(self, document: Any, place: str, depth: int) -> DataType:
        """The type of the schema at a place (a JSON pointer) of a document."""
        return self._type(_at(document, place), document, depth)

    def _type(self, node: Any, document: Any, depth: int) -> DataType:
        if depth > DEEPEST or not isinstance(node, dict):
            return StringType()
        if isinstance(node.get("$ref"), str):
            name, _, place = node["$ref"].partition("#")
            target = document if not name else self._documents.get(name)
            return StringType() if target is None else self.of(target, place, depth + 1)
        for several in ("oneOf", "anyOf"):
            if isinstance(node.get(several), list):
                others = [each for each in node[several] if each != {"type": "null"}]
                return self._type(others[0], document, depth + 1) if len(others) == 1 else _JSON
        kinds = node.get("type")
        if isinstance(kinds, list):
            others = [each for each in kinds if each != "null"]
            kinds = others[0] if len(others) == 1 else None
        if kinds == "object" or (kinds is None and isinstance(node.get("properties"), dict)):
            return self._object(node, document, depth)
        if kinds == "array":
            items = node.get("items")
            if isinstance(items, dict):
                return ArrayType(self._type(items, document, depth + 1))
            return ArrayType(_JSON)
        return _SCALARS.get(str(kinds), _JSON)

    def _object(self, node: dict[str, Any], document: Any, depth: int) -> DataType:
        fields = node.get("properties")
        if isinstance(fields, dict) and fields:
            return StructType(
                [
                    StructField(str(name), self._type(each, document, depth + 1))
                    for name, each in fields.items()
                ]
            )
        more = node.get("additionalProperties")
        values = self._type(more, document, depth + 1) if isinstance(more, dict) else _JSON
        return MapType(StringType(), values)


_JSON: Final = StringType()
"""Text that holds JSON, but for a string, which is itself."""


def _loaded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise OptionError(f"option value.format: the schema cannot be read: {problem}") from None


def _at(document: Any, place: str) -> Any:
    found = document
    for step in place.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _converter(kind: DataType) -> Convert:
    match kind:
        case StructType():
            fields = [(field.name, _converter(field.dataType)) for field in kind]
            return lambda value: _struct(value, fields)
        case ArrayType():
            item = _converter(kind.elementType)
            return lambda value: _list(value, item)
        case MapType():
            item = _converter(kind.valueType)
            return lambda value: _map(value, item)
        case LongType():
            return _long
        case DoubleType():
            return _double
        case BooleanType():
            return _boolean
    return _text


def _struct(value: Any, fields: list[tuple[str, Convert]]) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise TypeError(f"{_shown(value)} is no object")
    return {name: convert(value.get(name)) for name, convert in fields}


def _list(value: Any, item: Convert) -> Any:
    if value is None:
        return None
    if not isinstance(value, list):
        raise TypeError(f"{_shown(value)} is no array")
    return [item(each) for each in value]


def _map(value: Any, item: Convert) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise TypeError(f"{_shown(value)} is no object")
    return [(name, item(each)) for name, each in value.items()]


def _long(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # in JSON Schema 1.0 is an integer
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        if value is not None and abs(value) > LARGEST_LONG:
            raise ValueError(f"{_shown(value)} is too large for a bigint")
        return value
    raise TypeError(f"{_shown(value)} is no integer")


def _double(value: Any) -> Any:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value if value is None else float(value)
    raise TypeError(f"{_shown(value)} is no number")


def _boolean(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    raise TypeError(f"{_shown(value)} is no boolean")


def _text(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else _encoded(value)


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _shown(value: Any) -> str:
    return _encoded(value)[:50]


def json_schema_of(kind: StructType) -> dict[str, Any]:
    """The schema of columns; OptionError for a type that JSON lacks."""
    found = _object_of(kind, "value")
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Value", **found}


def _object_of(kind: StructType, where: str) -> dict[str, Any]:
    fields = {field.name: _schema_of(field.dataType, f"{where}.{field.name}") for field in kind}
    optional = {field.name for field in kind if field.nullable}
    properties = {
        name: {"oneOf": [{"type": "null"}, each]} if name in optional else each
        for name, each in fields.items()
    }
    found: dict[str, Any] = {"type": "object", "properties": properties}
    required = [name for name in fields if name not in optional]
    return {**found, "required": required} if required else found


def _schema_of(kind: DataType, where: str) -> dict[str, Any]:
    match kind:
        case ByteType() | ShortType() | IntegerType() | LongType():
            return {"type": "integer"}
        case FloatType() | DoubleType() | DecimalType():
            return {"type": "number"}
        case BooleanType():
            return {"type": "boolean"}
        case StringType():
            return {"type": "string"}
        case BinaryType():
            return {"type": "string", "contentEncoding": "base64"}
        case DateType():
            return {"type": "string", "format": "date"}
        case TimestampType() | TimestampNTZType():
            return {"type": "string", "format": "date-time"}
        case ArrayType():
            items = _schema_of(kind.elementType, f"{where}[]")
            if kind.containsNull:
                items = {"oneOf": [{"type": "null"}, items]}
            return {"type": "array", "items": items}
        case MapType() if isinstance(kind.keyType, StringType):
            values = _schema_of(kind.valueType, f"{where}{{}}")
            if kind.valueContainsNull:
                values = {"oneOf": [{"type": "null"}, values]}
            return {"type": "object", "additionalProperties": values}
        case StructType():
            return _object_of(kind, where)
    raise OptionError(f"column {where}: JSON Schema has no type for {kind.simpleString()}")


def json_value(value: Any) -> Any:
    """A value of Arrow's as what msgspec encodes; numbers that JSON lacks are null."""
    if isinstance(value, dict):
        return {name: json_value(each) for name, each in value.items()}
    if isinstance(value, list):
        return [json_value(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
