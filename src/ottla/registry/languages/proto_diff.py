"""What a reader with one Protobuf schema cannot read of a writer with another.

Rules kept here (those of Confluent's registry):
1. Fields are the same by their numbers; names may change. A field may be added or removed unless it
   is required, or belongs to a oneof that stays.
2. A type may change within the kinds that have the same bytes: integers, bools and enums; sint32
   and sint64; fixed32 and sfixed32; fixed64 and sfixed64; string and bytes.
3. A message that is gone is incompatible, an enum that is gone is not. So is another package.
4. One field may move into a oneof; several into the same one may not.
"""

from collections.abc import Iterable
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from ottla.registry.languages import Difference, SchemaSource
from ottla.registry.languages.protobuf import compiled

_F: Final = FieldDescriptorProto
_KINDS: Final = {
    **dict.fromkeys(
        (_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_BOOL, _F.TYPE_ENUM),
        "number",
    ),
    **dict.fromkeys((_F.TYPE_SINT32, _F.TYPE_SINT64), "zigzag"),
    **dict.fromkeys((_F.TYPE_FIXED32, _F.TYPE_SFIXED32), "fixed32"),
    **dict.fromkeys((_F.TYPE_FIXED64, _F.TYPE_SFIXED64), "fixed64"),
    **dict.fromkeys((_F.TYPE_STRING, _F.TYPE_BYTES), "string"),
    _F.TYPE_FLOAT: "float",
    _F.TYPE_DOUBLE: "double",
    _F.TYPE_MESSAGE: "message",
    _F.TYPE_GROUP: "group",
}
_NAMED: Final = (_F.TYPE_MESSAGE, _F.TYPE_GROUP, _F.TYPE_ENUM)
_TEXTS: Final = {
    "PACKAGE_CHANGED": "The package in the {reader} schema does not match the package in the "
    "{writer} schema",
    "MESSAGE_REMOVED": "The {reader} schema is missing a field of type MESSAGE at path '{path}' in "
    "the {writer} schema",
    "FIELD_KIND_CHANGED": "The type of a field at path '{path}' in the {reader} schema does not "
    "match the {writer} schema",
    "FIELD_SCALAR_KIND_CHANGED": "The kind of a SCALAR field at path '{path}' in the {reader} "
    "schema does not match its kind in the {writer} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The type of a MESSAGE field at path '{path}' in the {reader} "
    "schema does not match its type in the {writer} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label of a numeric field at path '{path}' in the {reader} "
    "schema does not match its label in the {writer} schema",
    "REQUIRED_FIELD_ADDED": "The {reader} schema has a required field at path '{path}' that is "
    "missing in the {writer} schema",
    "REQUIRED_FIELD_REMOVED": "The {reader} schema is missing a required field at path '{path}' in "
    "the {writer} schema",
    "ONEOF_FIELD_REMOVED": "The {reader} schema is missing a oneof field at path '{path}' in the "
    "{writer} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Multiple fields in the oneof at path '{path}' in the "
    "{reader} schema are outside a oneof in the {writer} schema",
}


def differences(new: SchemaSource, old: SchemaSource) -> list[Difference]:
    """What a reader with `new` cannot read of a writer with `old`."""
    after = compiled(new.text, new.dependencies)
    before = compiled(old.text, old.dependencies)
    return _Comparison(before, after).compare()


def _difference(kind: str, path: str) -> Difference:
    return Difference(kind, _TEXTS[kind].replace("{path}", path))


class _Comparison:
    def __init__(self, before: list[FileDescriptorProto], after: list[FileDescriptorProto]) -> None:
        self._before, self._after = before[-1], after[-1]
        self._types_before, self._types_after = _messages(before), _messages(after)
        self._compared: set[tuple[str, str]] = set()

    def compare(self) -> list[Difference]:
        before, after = self._before, self._after
        if before.package != after.package:
            return [_difference("PACKAGE_CHANGED", "#/")]
        names = {item.name for item in after.message_type}
        found = []
        for message in before.message_type:
            full = _full(before.package, message.name)
            if message.name in names:
                found += self._message(full, full, f"#/{message.name}")
            else:
                found.append(_difference("MESSAGE_REMOVED", f"#/{message.name}"))
        return found

    def _message(self, was: str, now: str, path: str) -> list[Difference]:
        before, after = self._types_before.get(was), self._types_after.get(now)
        if before is None or after is None or (was, now) in self._compared:
            return []
        self._compared.add((was, now))
        found = self._nested(before, after, was, now, path)
        fields = {item.number: item for item in after.field}
        known = {item.number for item in before.field}
        oneofs = {name for name in map(_oneof, [after] * len(after.field), after.field) if name}
        for field in before.field:
            place = f"{path}/{field.number}"
            current = fields.get(field.number)
            oneof = _oneof(before, field)
            if oneof and oneof in oneofs and (current is None or _oneof(after, current) != oneof):
                found.append(_difference("ONEOF_FIELD_REMOVED", f"{path}/{oneof}/{field.number}"))
            elif current is None and field.label == _F.LABEL_REQUIRED:
                found.append(_difference("REQUIRED_FIELD_REMOVED", place))
            if current is not None:
                found += self._field(field, current, place)
        for field in after.field:
            if field.number not in known and field.label == _F.LABEL_REQUIRED:
                found.append(_difference("REQUIRED_FIELD_ADDED", f"{path}/{field.number}"))
        return found + _moved(before, after, path)

    def _nested(
        self, before: DescriptorProto, after: DescriptorProto, was: str, now: str, path: str
    ) -> list[Difference]:
        names = {item.name for item in after.nested_type}
        found = []
        for nested in before.nested_type:
            place = f"{path}/{nested.name}"
            if nested.name in names:
                found += self._message(f"{was}.{nested.name}", f"{now}.{nested.name}", place)
            elif not nested.options.map_entry:
                found.append(_difference("MESSAGE_REMOVED", place))
        return found

    def _field(
        self, was: FieldDescriptorProto, now: FieldDescriptorProto, path: str
    ) -> list[Difference]:
        kind, before = _KINDS[now.type], _KINDS[was.type]
        if kind != before:
            named = now.type in _NAMED or was.type in _NAMED
            return [
                _difference("FIELD_KIND_CHANGED" if named else "FIELD_SCALAR_KIND_CHANGED", path)
            ]
        repeated = _F.LABEL_REPEATED
        if (was.label == repeated) != (now.label == repeated) and kind not in (
            "string",
            "message",
            "group",
        ):
            return [_difference("FIELD_NUMERIC_LABEL_CHANGED", path)]
        if now.type not in (_F.TYPE_MESSAGE, _F.TYPE_GROUP):
            return []
        was_map, now_map = (
            self._is_map(was, self._types_before),
            self._is_map(now, self._types_after),
        )
        if was_map != now_map:
            return [_difference("FIELD_KIND_CHANGED", path)]
        if was.type_name != now.type_name and not now_map:
            return [_difference("FIELD_NAMED_TYPE_CHANGED", path)]
        return self._message(was.type_name, now.type_name, path)

    @staticmethod
    def _is_map(field: FieldDescriptorProto, types: dict[str, DescriptorProto]) -> bool:
        found = types.get(field.type_name)
        return found is not None and found.options.map_entry


def _moved(before: DescriptorProto, after: DescriptorProto, path: str) -> list[Difference]:
    alone = {item.number for item in before.field if not _oneof(before, item)}
    found = []
    for oneof in after.oneof_decl:
        inside = [item for item in after.field if _oneof(after, item) == oneof.name]
        if sum(item.number in alone for item in inside) > 1:
            found.append(_difference("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{oneof.name}"))
    return found


def _oneof(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    """The name of the oneof that a field belongs to, or nothing."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return ""
    return message.oneof_decl[field.oneof_index].name


def _full(package: str, name: str) -> str:
    return f".{package}.{name}" if package else f".{name}"


def _messages(files: Iterable[FileDescriptorProto]) -> dict[str, DescriptorProto]:
    """All messages by their full names."""
    found: dict[str, DescriptorProto] = {}

    def note(full: str, message: DescriptorProto) -> None:
        found[full] = message
        for nested in message.nested_type:
            note(f"{full}.{nested.name}", nested)

    for file in files:
        for message in file.message_type:
            note(_full(file.package, message.name), message)
    return found
