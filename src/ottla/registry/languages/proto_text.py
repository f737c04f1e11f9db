"""Protobuf descriptors as .proto text.

What has no place here (custom options, groups) is left out: the caller compares what protoc reads
from the text with the descriptor.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.message import Message

_SCALARS: Final = {
    getattr(FieldDescriptorProto, f"TYPE_{name.upper()}"): name
    for name in (
        "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string",
        "bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64",
    )
}  # fmt: skip
_LARGEST_TAG: Final = 536870911
_LARGEST_NUMBER: Final = 2147483647
_LABELS: Final = {
    FieldDescriptorProto.LABEL_REQUIRED: "required ",
    FieldDescriptorProto.LABEL_REPEATED: "repeated ",
}


def default_json_name(name: str) -> str:
    """What protoc makes of a field's name."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def proto_text(file: FileDescriptorProto, *, full_names: bool) -> str:
    """The text of a file; with `full_names` types begin with a dot and their package."""
    return "\n".join(_Printer(file, full_names).file()) + "\n"


class _Printer:
    def __init__(self, file: FileDescriptorProto, full_names: bool) -> None:
        self._file = file
        self._full_names = full_names
        self._proto3 = file.syntax == "proto3"

    def file(self) -> Iterator[str]:
        file = self._file
        yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        if file.dependency:
            yield ""
        for number, name in enumerate(file.dependency):
            kind = "public " if number in file.public_dependency else ""
            kind = "weak " if number in file.weak_dependency else kind
            yield f"import {kind}{_quoted(name)};"
        options = list(_options(file.options))
        if options:
            yield ""
        yield from (f"option {item};" for item in options)
        for message in file.message_type:
            yield ""
            yield from self._message(message)
        for enum in file.enum_type:
            yield ""
            yield from _enum(enum)
        yield from self._extensions(file.extension)
        for service in file.service:
            yield ""
            yield from self._service(service)

    def _message(self, message: DescriptorProto) -> Iterator[str]:
        entries = {item.name: item for item in message.nested_type if item.options.map_entry}
        yield f"message {message.name} {{"
        yield from _indented(f"option {item};" for item in _options(message.options))
        yield from _indented(_reserved(message))
        shown: set[int] = set()
        for field in message.field:
            if field.HasField("oneof_index") and not field.proto3_optional:
                if field.oneof_index in shown:
                    continue
                shown.add(field.oneof_index)
                yield from _indented(self._oneof(message, field.oneof_index))
            else:
                yield f"  {self._field(field, entries)}"
        for item in message.extension_range:
            yield f"  extensions {_range(item.start, item.end - 1, _LARGEST_TAG)};"
        yield from _indented(self._extensions(message.extension))
        for nested in message.nested_type:
            if nested.name not in entries:
                yield ""
                yield from _indented(self._message(nested))
        for enum in message.enum_type:
            yield ""
            yield from _indented(_enum(enum))
        yield "}"

    def _oneof(self, message: DescriptorProto, index: int) -> Iterator[str]:
        oneof = message.oneof_decl[index]
        yield f"oneof {oneof.name} {{"
        yield from _indented(f"option {item};" for item in _options(oneof.options))
        for field in message.field:
            if field.HasField("oneof_index") and field.oneof_index == index:
                yield f"  {self._field(field, {}, in_oneof=True)}"
        yield "}"

    def _field(
        self,
        field: FieldDescriptorProto,
        entries: dict[str, DescriptorProto],
        *,
        in_oneof: bool = False,
    ) -> str:
        entry = entries.get(field.type_name.rpartition(".")[2])
        repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
        if entry is not None and repeated:
            key, value = entry.field
            kind = f"map<{self._type(key)}, {self._type(value)}>"
            label = ""
        else:
            kind = self._type(field)
            label = "" if in_oneof else self._label(field)
        extras = [*self._field_extras(field), *_options(field.options)]
        shown = f" [{', '.join(item for item in extras)}]" if extras else ""
        return f"{label}{kind} {field.name} = {field.number}{shown};"

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.label in _LABELS:
            return _LABELS[field.label]
        return "" if self._proto3 and not field.proto3_optional else "optional "

    def _field_extras(self, field: FieldDescriptorProto) -> Iterator[str]:
        if field.HasField("default_value"):
            text = field.default_value
            if field.type == FieldDescriptorProto.TYPE_STRING:
                text = _quoted(text)
            elif field.type == FieldDescriptorProto.TYPE_BYTES:
                text = f'"{text}"'  # it is escaped already
            yield f"default = {text}"
        if field.json_name and field.json_name != default_json_name(field.name):
            yield f"json_name = {_quoted(field.json_name)}"

    def _type(self, field: FieldDescriptorProto) -> str:
        return _SCALARS.get(field.type) or self._name(field.type_name)

    def _name(self, full: str) -> str:
        package = f".{self._file.package}." if self._file.package else "."
        if self._full_names or not full.startswith("."):
            return full
        return full.removeprefix(package) if full.startswith(package) else full.removeprefix(".")

    def _extensions(self, fields: Iterable[FieldDescriptorProto]) -> Iterator[str]:
        for field in fields:
            yield ""
            yield f"extend {self._name(field.extendee)} {{"
            yield f"  {self._field(field, {})}"
            yield "}"

    def _service(self, service: ServiceDescriptorProto) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from _indented(f"option {item};" for item in _options(service.options))
        for method in service.method:
            takes = "stream " if method.client_streaming else ""
            gives = "stream " if method.server_streaming else ""
            head = (
                f"  rpc {method.name} ({takes}{self._name(method.input_type)}) "
                f"returns ({gives}{self._name(method.output_type)})"
            )
            options = list(_options(method.options))
            if not options:
                yield f"{head};"
                continue
            yield f"{head} {{"
            yield from _indented(_indented(f"option {item};" for item in options))
            yield "  }"
        yield "}"


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _indented(f"option {item};" for item in _options(enum.options))
    ranges = [_range(item.start, item.end, _LARGEST_NUMBER) for item in enum.reserved_range]
    yield from _indented(_reserved_lines(ranges, enum.reserved_name))
    for value in enum.value:
        options = ", ".join(_options(value.options))
        yield f"  {value.name} = {value.number}{f' [{options}]' if options else ''};"
    yield "}"


def _reserved(message: DescriptorProto) -> Iterator[str]:
    ranges = [_range(item.start, item.end - 1, _LARGEST_TAG) for item in message.reserved_range]
    return _reserved_lines(ranges, message.reserved_name)


def _reserved_lines(ranges: list[str], names: Iterable[str]) -> Iterator[str]:
    if ranges:
        yield f"reserved {', '.join(ranges)};"
    quoted = [_quoted(name) for name in names]
    if quoted:
        yield f"reserved {', '.join(quoted)};"


def _range(start: int, end: int, largest: int) -> str:
    if start == end:
        return str(start)
    return f"{start} to {'max' if end == largest else end}"


def _options(options: Message) -> Iterator[str]:
    for field, value in options.ListFields():
        if field.is_extension or field.name in ("map_entry", "uninterpreted_option"):
            continue
        if field.message_type is not None:
            continue
        for item in value if field.is_repeated else [value]:
            yield f"{field.name} = {_option(field, item)}"


def _option(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return str(value).lower()
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" if line else line for line in lines)
