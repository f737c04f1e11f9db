"""What a reader with one Avro schema cannot read of a writer with another.

The decisions are those of Java's `SchemaCompatibility`, over the objects of the library avro; each
difference keeps its place, which the library's own checker does not.
"""

from typing import Any

from ottla.registry.languages import Difference, SchemaSource
from ottla.registry.languages.avro import PRIMITIVES, schema_object

PROMOTIONS = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
"""What a reader of a primitive type reads beside its own."""


def differences(new: SchemaSource, old: SchemaSource) -> list[Difference]:
    """What a reader with `new` cannot read of a writer with `old`."""
    return _Comparison().compare(schema_object(new), schema_object(old), "")


class _Comparison:
    def __init__(self) -> None:
        self._done: dict[tuple[int, int], list[Difference]] = {}

    def compare(self, reader: Any, writer: Any, path: str) -> list[Difference]:
        """The schemas are the library's objects, which are not typed."""
        pair = id(reader), id(writer)
        if pair not in self._done:
            self._done[pair] = []  # while it is in progress, a recursion finds nothing
            self._done[pair] = self._calculated(reader, writer, path)
        return self._done[pair]

    def _calculated(self, reader: Any, writer: Any, path: str) -> list[Difference]:
        if writer.type == "union" and reader.type == "union":
            found = []
            for number, branch in enumerate(writer.schemas):
                if self.compare(reader, branch, path):
                    found.append(_missing_branch(f"{path}/{number}", branch))
            return found
        if writer.type == "union":
            return [item for one in writer.schemas for item in self.compare(reader, one, path)]
        if reader.type == "union":
            if any(not self.compare(branch, writer, path) for branch in reader.schemas):
                return []
            return [_missing_branch(path, writer)]
        if reader.type != writer.type:
            if writer.type in PROMOTIONS.get(reader.type, ()):
                return []
            return [_type_mismatch(path, reader, writer)]
        return self._same_type(reader, writer, path)

    def _same_type(self, reader: Any, writer: Any, path: str) -> list[Difference]:
        match reader.type:
            case kind if kind in PRIMITIVES:
                return []
            case "array":
                return self.compare(reader.items, writer.items, f"{path}/items")
            case "map":
                return self.compare(reader.values, writer.values, f"{path}/values")
            case "fixed":
                found = _names(reader, writer, path)
                if reader.size != writer.size:
                    found.append(_size_mismatch(f"{path}/size", reader.size, writer.size))
                return found
            case "enum":
                return _names(reader, writer, path) + _symbols(reader, writer, path)
            case _:
                return _names(reader, writer, path) + self._fields(reader, writer, path)

    def _fields(self, reader: Any, writer: Any, path: str) -> list[Difference]:
        found: list[Difference] = []
        for number, field in enumerate(reader.fields):
            place = f"{path}/fields/{number}"
            names = [field.name, *(field.props.get("aliases") or ())]
            written = next(
                (writer.fields_dict[name] for name in names if name in writer.fields_dict), None
            )
            if written is not None:
                found += self.compare(field.type, written.type, f"{place}/type")
            elif not field.has_default:
                found.append(
                    Difference(
                        "READER_FIELD_MISSING_DEFAULT_VALUE",
                        f"The field '{field.name}' at path '{place}' in the {{reader}} schema has "
                        "no default value and is missing in the {writer} schema",
                        field.name,
                    )
                )
        return found


def _names(reader: Any, writer: Any, path: str) -> list[Difference]:
    aliases = reader.props.get("aliases") or ()
    full_names = [
        alias if "." in alias or not reader.namespace else f"{reader.namespace}.{alias}"
        for alias in aliases
    ]
    if reader.name == writer.name or writer.fullname in full_names:
        return []
    return [
        Difference(
            "NAME_MISMATCH",
            f"The name of the schema has changed (path '{path}/name')",
            f"expected: {writer.fullname}",
        )
    ]


def _symbols(reader: Any, writer: Any, path: str) -> list[Difference]:
    missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
    if not missing or reader.props.get("default") in reader.symbols:
        return []
    shown = f"[{', '.join(missing)}]"
    return [
        Difference(
            "MISSING_ENUM_SYMBOLS",
            f"The {{reader}} schema is missing enum symbols '{shown}' at path '{path}/symbols' in "
            "the {writer} schema",
            shown,
        )
    ]


def _size_mismatch(path: str, found: int, expected: int) -> Difference:
    return Difference(
        "FIXED_SIZE_MISMATCH",
        f"The size of FIXED type field at path '{path}' in the {{reader}} schema does not match "
        "with the {writer} schema",
        f"expected: {expected}, found: {found}",
    )


def _type_mismatch(path: str, reader: Any, writer: Any) -> Difference:
    return Difference(
        "TYPE_MISMATCH",
        f"The type (path '{path or '/'}') of a field in the {{reader}} schema does not match with "
        "the {writer} schema",
        f"reader type: {reader.type.upper()} not compatible with writer type: "
        f"{writer.type.upper()}",
    )


def _missing_branch(path: str, writer: Any) -> Difference:
    return Difference(
        "MISSING_UNION_BRANCH",
        f"The {{reader}} schema is missing a type inside a union field at path '{path or '/'}' in "
        "the {writer} schema",
        f"reader union lacking writer type: {writer.type.upper()}",
    )
