"""Protobuf messages by the reader's schema.

Rules kept here:
1. The types are those of Spark's `from_protobuf`: an enum is its name, unsigned numbers the next
   wider type, `Timestamp` a timestamp, wrappers what they wrap. A field without presence has its
   default, one with presence may be null.
2. A message that holds itself is no column: an error says where.
3. Fields are found by their numbers: the reader's file reads what any version of it has written.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
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
    TimestampType,
)

from ottla.registry.client import FoundSchema, SchemaRefused
from ottla.registry.decoding import ValueDecodeError, message_of, protobuf_file
from ottla.registry.languages.proto_text import proto_text
from pyspark_ottla.errors import OptionError
from pyspark_ottla.formats.columns import arrow_type, by_rows
from pyspark_ottla.formats.settings import FormatSettings

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

F: Final = FieldDescriptor
_PLAIN: Final[dict[int, DataType]] = {
    F.CPPTYPE_INT32: IntegerType(),
    F.CPPTYPE_INT64: LongType(),
    F.CPPTYPE_UINT32: LongType(),
    F.CPPTYPE_UINT64: DecimalType(20, 0),
    F.CPPTYPE_DOUBLE: DoubleType(),
    F.CPPTYPE_FLOAT: FloatType(),
    F.CPPTYPE_BOOL: BooleanType(),
    F.CPPTYPE_ENUM: StringType(),
    F.CPPTYPE_STRING: StringType(),
}
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)

Convert = Callable[[Any], Any]


class Protobuf:
    """A reader's schema: the first message of its file."""

    def __init__(self, settings: FormatSettings, reader: FoundSchema) -> None:
        self._settings = settings
        try:
            _, file = protobuf_file(reader)
            (self._message, *_) = file.message_types_by_name.values()
        except (ValueDecodeError, ValueError, TypeError, KeyError, ImportError) as problem:
            raise OptionError(f"option value.format: {reader.id}: {problem}") from None
        self._type, self._convert = _message(self._message, "value", ())
        self._class = message_factory.GetMessageClass(self._message)

    def type(self) -> DataType:
        """The reader's schema as Spark's type."""
        return self._type

    def group(self, schema_id: int) -> "ProtobufGroup":
        """What decodes values of a writer's file: those of the same message."""
        found = self._settings.by_id(schema_id)
        if found.type != "PROTOBUF":
            raise SchemaRefused(f"it is {found.type}")
        try:
            _, file = protobuf_file(found)
        except (ValueDecodeError, ValueError, TypeError, KeyError, ImportError) as problem:
            raise SchemaRefused(str(problem)) from None
        return ProtobufGroup(file, self._message, self._class, self._convert, self._type)


class ProtobufGroup:
    """Decodes values of one schema."""

    def __init__(
        self, file: Any, message: Any, made: Any, convert: Convert, kind: DataType
    ) -> None:
        self._file = file
        self._message = message
        self._class = made
        self._convert = convert
        self._kind = arrow_type(kind)

    def decode(self, values: "pa.Array") -> "tuple[pa.Array, dict[int, str]]":
        """The values, and what is wrong with some."""
        return by_rows(values, self._kind, self._decode)

    def _decode(self, data: bytes) -> object:
        found, at = message_of(self._file, data)
        if found.name != self._message.name:
            raise ValueError(f"it is a {found.full_name}, not a {self._message.full_name}")
        message = self._class()
        message.ParseFromString(data[at:])
        return self._convert(message)


def _message(descriptor: Any, where: str, inside: tuple[str, ...]) -> tuple[DataType, Convert]:
    if descriptor.full_name in inside:
        raise OptionError(f"{where} holds itself ({descriptor.full_name}): it cannot be a column")
    if descriptor.full_name == _TIMESTAMP:
        return TimestampType(), lambda message: message.ToDatetime(_utc())
    if descriptor.full_name in _WRAPPERS:
        kind, convert = _single(descriptor.fields_by_name["value"], where, inside)
        return kind, lambda message: convert(message.value)
    within = (*inside, descriptor.full_name)
    fields, converts = [], []
    for field in descriptor.fields:
        kind, nullable, convert = _field(field, f"{where}.{field.name}", within)
        fields.append(StructField(field.name, kind, nullable))
        converts.append((field.name, convert))
    return StructType(fields), lambda message: {name: take(message) for name, take in converts}


def _field(field: Any, where: str, inside: tuple[str, ...]) -> tuple[DataType, bool, Convert]:
    name = field.name
    if field.is_repeated:
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            key_kind, key = _single(entry.fields_by_name["key"], where, inside)
            kind, convert = _single(entry.fields_by_name["value"], where, inside)
            return (
                MapType(key_kind, kind, False),
                False,
                lambda message: [(key(k), convert(v)) for k, v in getattr(message, name).items()],
            )
        kind, convert = _single(field, where, inside)
        return (
            ArrayType(kind, False),
            False,
            lambda message: [convert(each) for each in getattr(message, name)],
        )
    kind, convert = _single(field, where, inside)
    if not field.has_presence:
        return kind, False, lambda message: convert(getattr(message, name))
    return (
        kind,
        True,
        lambda message: convert(getattr(message, name)) if message.HasField(name) else None,
    )


def _single(field: Any, where: str, inside: tuple[str, ...]) -> tuple[DataType, Convert]:
    if field.message_type is not None:
        return _message(field.message_type, where, inside)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return StringType(), lambda number: names.get(number, str(number))
    if field.type == F.TYPE_BYTES:
        return BinaryType(), bytes
    kind = _PLAIN[field.cpp_type]
    if isinstance(kind, DecimalType):
        from decimal import Decimal

        return kind, Decimal
    return kind, lambda value: value


def _utc() -> Any:
    from datetime import UTC

    return UTC


# Writing --------------------------------------------------------------------------------------

_TYPES: Final = (
    ((ByteType, ShortType, IntegerType), FieldDescriptorProto.TYPE_INT32),
    ((LongType,), FieldDescriptorProto.TYPE_INT64),
    ((FloatType,), FieldDescriptorProto.TYPE_FLOAT),
    ((DoubleType,), FieldDescriptorProto.TYPE_DOUBLE),
    ((BooleanType,), FieldDescriptorProto.TYPE_BOOL),
    ((StringType,), FieldDescriptorProto.TYPE_STRING),
    ((BinaryType,), FieldDescriptorProto.TYPE_BYTES),
)


def protobuf_text_of(kind: StructType) -> str:
    """The .proto of columns; OptionError for a type that Protobuf lacks."""
    file = FileDescriptorProto(name="value.proto", syntax="proto3")
    _add_message(file, file.message_type.add(), "Value", kind, "value")
    return proto_text(file, full_names=False)


def _add_message(
    file: FileDescriptorProto, made: DescriptorProto, name: str, kind: StructType, where: str
) -> None:
    made.name = name
    for number, field in enumerate(kind, 1):
        item = made.field.add(name=field.name, number=number)
        item.label = FieldDescriptorProto.LABEL_OPTIONAL
        inner = field.dataType
        place = f"{where}.{field.name}"
        if isinstance(inner, MapType):
            nested = _map_entry(file, made, field.name, inner, place)
            item.label = FieldDescriptorProto.LABEL_REPEATED
            item.type, item.type_name = FieldDescriptorProto.TYPE_MESSAGE, nested
            continue
        if isinstance(inner, ArrayType):
            item.label = FieldDescriptorProto.LABEL_REPEATED
            inner = inner.elementType
        _set_type(file, made, item, inner, place)
        scalar = item.type != FieldDescriptorProto.TYPE_MESSAGE
        if item.label == FieldDescriptorProto.LABEL_OPTIONAL and field.nullable and scalar:
            item.proto3_optional = True
            item.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{field.name}")


def _map_entry(
    file: FileDescriptorProto, made: DescriptorProto, name: str, kind: MapType, where: str
) -> str:
    entry = made.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    for number, part, inner in ((1, "key", kind.keyType), (2, "value", kind.valueType)):
        item = entry.field.add(name=part, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        _set_type(file, made, item, inner, f"{where}.{part}")
    return f"{entry.name}"


def _set_type(
    file: FileDescriptorProto,
    made: DescriptorProto,
    item: FieldDescriptorProto,
    kind: DataType,
    where: str,
) -> None:
    if isinstance(kind, StructType):
        name = f"{''.join(part.title() for part in item.name.split('_'))}Type"
        _add_message(file, made.nested_type.add(), name, kind, where)
        item.type, item.type_name = FieldDescriptorProto.TYPE_MESSAGE, name
        return
    if isinstance(kind, TimestampType):
        if "google/protobuf/timestamp.proto" not in file.dependency:
            file.dependency.append("google/protobuf/timestamp.proto")
        item.type, item.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_TIMESTAMP}"
        return
    for kinds, found in _TYPES:
        if isinstance(kind, kinds):
            item.type = found
            return
    raise OptionError(f"column {where}: Protobuf has no type for {kind.simpleString()}")


def fill(message: Any, row: dict[str, Any]) -> Any:
    """A message with the values of a row; a null is left out."""
    for name, value in row.items():
        if value is None:
            continue
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise ValueError(f"{message.DESCRIPTOR.full_name} has no field {name}")
        if field.is_repeated and field.message_type is not None:
            _fill_messages(getattr(message, name), field.message_type, value)
        elif field.is_repeated:
            getattr(message, name).extend(_scalar(field, each) for each in value)
        elif field.message_type is not None:
            _fill_message(getattr(message, name), value)
            getattr(message, name).SetInParent()
        else:
            setattr(message, name, _scalar(field, value))
    return message


def _fill_messages(target: Any, kind: Any, values: Any) -> None:
    if not kind.GetOptions().map_entry:
        for each in values:
            _fill_message(target.add(), each)
        return
    of_messages = kind.fields_by_name["value"].message_type is not None
    for key, value in values.items():
        if of_messages:
            _fill_message(target[key], value)
        else:
            target[key] = _scalar(kind.fields_by_name["value"], value)


def _fill_message(message: Any, value: Any) -> None:
    name = message.DESCRIPTOR.full_name
    if name == _TIMESTAMP:
        message.FromDatetime(value)
    elif name in _WRAPPERS:
        message.value = value
    else:
        fill(message, value)


def _scalar(field: Any, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        found = field.enum_type.values_by_name.get(value)
        if found is None:
            raise ValueError(f"{field.enum_type.full_name} has no value {value}")
        return found.number
    return int(value) if field.cpp_type == F.CPPTYPE_UINT64 else value
