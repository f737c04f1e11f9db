"""Avro values as columns, by polars' reader of Avro files.

Rules kept here:
1. A writer's schema is told to polars in the types that it reads: an enum is its number, a map an
   array of its entries, a logical type its number; all have the same bytes. Arrow makes of the
   columns what they are.
2. Whatever does not come out as expected is None: the caller reads the values one by one then.
"""

import io
import json
from collections.abc import Callable
from itertools import count
from typing import Any, Final

import polars
import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
import pyarrow.compute as pc  # type: ignore[import-untyped]  # it has no stubs

from pyspark_ottla.formats.avro_types import without_null

PREFIX: Final = 5
DEEPEST: Final = 30
_WIDER: Final = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "double": ("double",),
    "boolean": ("boolean",),
    "string": ("string",),
    "bytes": ("bytes",),
}
_UNITS: Final = {"millis": "ms", "micros": "us"}

Finish = Callable[[Any], Any]


class NotInColumns(Exception):  # noqa: N818 (it names what happened)
    """Polars does not read this schema, or Arrow does not make of it what the reader wants."""


class Block:
    """Reads values of a writer's schema as a column of the reader's type."""

    def __init__(
        self,
        writer: Any,
        writer_names: dict[str, Any],
        reader: Any,
        reader_names: dict[str, Any],
        kind: pa.DataType,
    ) -> None:
        """Raises NotInColumns."""
        self._names = writer_names, reader_names
        self._numbers = count()
        self._kind = kind
        value, self._finish = self._plan(writer, reader, kind, 0)
        fields = [
            {"name": "prefix", "type": self._fixed(PREFIX)},
            {"name": "value", "type": value},
            {"name": "end", "type": self._fixed(8)},
        ]
        schema = {"type": "record", "name": "Row", "fields": fields}
        self._header = _file_header(json.dumps(schema).encode())

    def read(self, values: pa.Array, end: bytes) -> Any:
        """The column; None where a value does not fit."""
        ended = pc.binary_join_element_wise(values, pa.scalar(end, values.type), b"")
        offsets = memoryview(ended.buffers()[1]).cast("i")
        first, last = offsets[ended.offset], offsets[ended.offset + len(ended)]
        data = memoryview(ended.buffers()[2])[first:last]
        sync = self._header[-16:]
        file = b"".join((self._header, _long(len(ended)), _long(len(data)), data, sync))
        try:
            frame = polars.read_avro(io.BytesIO(file))
            if len(frame) != len(values):
                return None
            table = frame.to_arrow()
            head = values[0].as_py()[:PREFIX]
            if not (_are(table.column("end"), end) and _are(table.column("prefix"), head)):
                return None
            found = self._finish(_joined(table.column("value")))
        except Exception as problem:
            if isinstance(problem, MemoryError):
                raise
            return None
        except BaseException as problem:
            # What Rust did not expect comes as an exception beside all others.
            if type(problem).__name__ != "PanicException":
                raise
            return None
        return found if found.type == self._kind else found.cast(self._kind)

    # What polars is told, and what is made of it -----------------------------------------------

    def _plan(self, writer: Any, reader: Any, kind: pa.DataType, depth: int) -> tuple[Any, Finish]:
        if depth > DEEPEST:
            raise NotInColumns
        writer, reader = self._resolved(writer, 0), self._resolved(reader, 1)
        if isinstance(writer, list):
            return self._optional(writer, reader, kind, depth)
        if isinstance(reader, list):
            branches = without_null(reader)
            if len(branches) != 1:
                raise NotInColumns
            return self._plan(writer, branches[0], kind, depth + 1)
        name, wanted = _type_of(writer), _type_of(reader)
        logical = None if isinstance(writer, str) else writer.get("logicalType")
        if logical != (None if isinstance(reader, str) else reader.get("logicalType")):
            raise NotInColumns
        if name in _WIDER:
            if wanted not in _WIDER[name]:
                raise NotInColumns
            if logical is not None:
                return self._logical(writer, reader, logical, kind)
            return name, lambda found: found.cast(kind)
        if name != wanted or logical is not None:
            raise NotInColumns
        match name:
            case "enum":
                return self._enum(writer, reader, kind)
            case "fixed":
                if writer["size"] != reader["size"]:
                    raise NotInColumns
                return self._fixed(writer["size"]), lambda found: found.cast(kind)
            case "array":
                return self._array(writer["items"], reader["items"], kind, depth)
            case "map":
                return self._map(writer["values"], reader["values"], kind, depth)
            case "record":
                return self._record(writer, reader, kind, depth)
        raise NotInColumns

    def _resolved(self, node: Any, side: int) -> Any:
        while True:
            if isinstance(node, str) and node in self._names[side]:
                node = self._names[side][node]
            elif isinstance(node, dict) and isinstance(node["type"], dict | list):
                node = node["type"]
            else:
                return node

    def _optional(
        self, writer: list[Any], reader: Any, kind: pa.DataType, depth: int
    ) -> tuple[Any, Finish]:
        branches = without_null(writer)
        may_be_null = isinstance(reader, list) and len(without_null(reader)) < len(reader)
        if len(writer) != 2 or len(branches) != 1 or not may_be_null:
            raise NotInColumns
        inner, finish = self._plan(branches[0], reader, kind, depth + 1)
        return [inner if each is branches[0] else "null" for each in writer], finish

    def _logical(
        self, writer: Any, reader: Any, logical: str, kind: pa.DataType
    ) -> tuple[Any, Finish]:
        name = _type_of(writer)
        if name != _type_of(reader):
            raise NotInColumns
        if name == "int" and logical == "date":
            return "int", lambda found: found.cast(pa.int32()).cast(kind)
        if name == "long" and "timestamp-" in logical:
            unit = _UNITS[logical.rpartition("-")[2]]
            zone = None if logical.startswith("local") else "UTC"
            return "long", lambda found: found.cast(pa.timestamp(unit, zone)).cast(kind)
        if name == "bytes" and logical == "decimal":
            sizes = [(each["precision"], each.get("scale", 0)) for each in (writer, reader)]
            if sizes[0] == sizes[1] and sizes[0][0] <= 38:
                told = {"type": "bytes", "logicalType": "decimal"}
                return {**told, "precision": sizes[0][0], "scale": sizes[0][1]}, (
                    lambda found: found.cast(kind)
                )
        raise NotInColumns

    def _enum(self, writer: Any, reader: Any, kind: pa.DataType) -> tuple[Any, Finish]:
        if not set(writer["symbols"]) <= set(reader["symbols"]):
            raise NotInColumns
        symbols = pa.array(writer["symbols"], pa.string())

        def finish(found: Any) -> Any:
            return symbols.take(found.cast(pa.int32())).cast(kind)

        return "int", finish

    def _array(self, writer: Any, reader: Any, kind: pa.DataType, depth: int) -> tuple[Any, Finish]:
        inner, finish = self._plan(writer, reader, kind.value_type, depth + 1)

        def make(found: Any) -> Any:
            items = finish(found.values)
            offsets = found.offsets.cast(pa.int32())
            return pa.ListArray.from_arrays(offsets, items, kind, mask=_nulls(found))

        return {"type": "array", "items": inner}, make

    def _map(self, writer: Any, reader: Any, kind: pa.DataType, depth: int) -> tuple[Any, Finish]:
        inner, finish = self._plan(writer, reader, kind.item_type, depth + 1)
        fields = [{"name": "key", "type": "string"}, {"name": "value", "type": inner}]
        entry = {"type": "record", "name": self._name(), "fields": fields}

        def make(found: Any) -> Any:
            keys, items = found.values.flatten()
            offsets = found.offsets.cast(pa.int32())
            keys, items = keys.cast(kind.key_type), finish(items)
            return pa.MapArray.from_arrays(offsets, keys, items, kind, mask=_nulls(found))

        return {"type": "array", "items": entry}, make

    def _record(
        self, writer: Any, reader: Any, kind: pa.DataType, depth: int
    ) -> tuple[Any, Finish]:
        wanted: dict[str, tuple[int, Any]] = {}
        for place, field in enumerate(reader["fields"]):
            for name in (field["name"], *field.get("aliases", ())):
                wanted.setdefault(name, (place, field["type"]))
        told = []
        finishes: dict[int, tuple[int, Finish]] = {}
        for number, field in enumerate(writer["fields"]):
            place, target = wanted.get(field["name"], (-1, field["type"]))
            if place < 0:
                # Its bytes have to be read, whatever becomes of them.
                inner = self._skipped(field["type"], depth + 1)
            else:
                inner, finish = self._plan(field["type"], target, kind.field(place).type, depth + 1)
                finishes[place] = number, finish
            told.append({"name": f"f{number}", "type": inner})
        constants = {}
        for place, field in enumerate(reader["fields"]):
            if place not in finishes:
                constants[place] = _default(field, kind.field(place).type)
        if not told:
            raise NotInColumns

        def make(found: Any) -> Any:
            columns = found.flatten()
            children = []
            for place in range(kind.num_fields):
                if place in finishes:
                    number, finish = finishes[place]
                    children.append(finish(columns[number]))
                else:
                    children.append(pa.repeat(constants[place], len(found)))
            fields = [kind.field(place) for place in range(kind.num_fields)]
            return pa.StructArray.from_arrays(children, fields=fields, mask=_nulls(found))

        return {"type": "record", "name": self._name(), "fields": told}, make

    def _skipped(self, node: Any, depth: int) -> Any:
        """What polars is told of a value that nobody wants."""
        if depth > DEEPEST:
            raise NotInColumns
        node = self._resolved(node, 0)
        if isinstance(node, list):
            branches = without_null(node)
            if len(node) != 2 or len(branches) != 1:
                raise NotInColumns
            inner = self._skipped(branches[0], depth + 1)
            return [inner if each is branches[0] else "null" for each in node]
        name = _type_of(node)
        if name in _WIDER:
            return name
        match name:
            case "enum":
                return "int"
            case "fixed":
                return self._fixed(node["size"])
            case "array":
                return {"type": "array", "items": self._skipped(node["items"], depth + 1)}
            case "map":
                value = {"name": "value", "type": self._skipped(node["values"], depth + 1)}
                fields = [{"name": "key", "type": "string"}, value]
                entry = {"type": "record", "name": self._name(), "fields": fields}
                return {"type": "array", "items": entry}
            case "record" if node["fields"]:
                fields = [
                    {"name": f"f{number}", "type": self._skipped(field["type"], depth + 1)}
                    for number, field in enumerate(node["fields"])
                ]
                return {"type": "record", "name": self._name(), "fields": fields}
        raise NotInColumns

    def _fixed(self, size: int) -> dict[str, Any]:
        return {"type": "fixed", "name": self._name(), "size": size}

    def _name(self) -> str:
        return f"N{next(self._numbers)}"


def _type_of(node: Any) -> str:
    return str(node if isinstance(node, str) else node["type"])


def _default(field: Any, kind: pa.DataType) -> Any:
    """A field's default as a scalar; only plain ones, others are fastavro's business."""
    if "default" not in field:
        raise NotInColumns
    value = field["default"]
    if value is not None and not isinstance(value, bool | int | float | str):
        raise NotInColumns
    if isinstance(value, str) and not pa.types.is_string(kind):
        raise NotInColumns
    try:
        return pa.scalar(value, kind)
    except pa.ArrowException:  # Arrow has no scalar of it: fastavro decodes this schema instead
        raise NotInColumns from None


def _nulls(found: Any) -> Any:
    return found.is_null() if found.null_count else None


def _joined(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _are(column: Any, value: bytes) -> bool:
    return bool(pc.all(pc.equal(column, pa.scalar(value, column.type))).as_py())


def _file_header(schema: bytes) -> bytes:
    parts = [b"Obj\x01", _long(2)]
    for name, value in ((b"avro.schema", schema), (b"avro.codec", b"null")):
        parts += [_long(len(name)), name, _long(len(value)), value]
    return b"".join([*parts, b"\0", bytes(range(16))])


def _long(number: int) -> bytes:
    """A number that is not negative, as Avro writes it."""
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
