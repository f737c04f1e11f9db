"""Writes src/ottla/wire/messages/: a module for each Kafka API, from the schemas that kio carries.

Run it after a new release of kio, or after a change here:

    python tools/generate_messages.py

kio has a class for each message and version. This joins all versions of a message to one class
that has every field, with specs that say which version carries which (see ottla.wire.message).

Rules kept here:
1. The names are Kafka's: kio drops the `_ms` of durations and times, so it is put back.
2. The values are plain: what kio makes a timedelta, datetime or enum is an int here.
3. In each version the fields have the order of that version; merging must keep all orders.
4. A part that the request and the response both have is one class if it is the same in both;
   else each gets its message's name in front.
5. The output is what `ruff format` would make of it, so that a test can compare files.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from enum import Enum
from graphlib import TopologicalSorter
from pathlib import Path
from pkgutil import resolve_name
from types import NoneType, UnionType
from typing import get_args, get_origin
from uuid import UUID

from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

API_KEYS = (
    *(*range(4), *range(8, 52), 55, 57, 60, 61, 64, 65, 66, 68, 69, 71, 72, *range(74, 80)),
    *range(83, 93),
)
"""What Apache Kafka 4.3 advertises to clients."""

DATA_SCHEMAS = ("consumer_protocol_assignment", "consumer_protocol_subscription")
"""Messages that are neither request nor response."""

NULL_BY_DEFAULT = {
    ("ConsumerGroupHeartbeatRequest", "topic_partitions"),
    ("ListPartitionReassignmentsRequest", "topics"),
    *(
        ("StreamsGroupHeartbeatRequest", name)
        for name in (
            "active_tasks",
            "client_tags",
            "standby_tasks",
            "task_end_offsets",
            "task_offsets",
            "warmup_tasks",
        )
    ),
    *(
        ("StreamsGroupHeartbeatResponse", name)
        for name in (
            "active_tasks",
            "partitions_by_user_endpoint",
            "standby_tasks",
            "status",
            "warmup_tasks",
        )
    ),
}
"""Where kio misses that Kafka's schema has null as the default of an array of parts."""

MESSAGES = Path(__file__).parent.parent / "src" / "ottla" / "wire" / "messages"
LINE = 100

WIRE_TYPES = {
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
    "error_code": "int16",
}
TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")
PYTHON_TYPES = {
    "bool": ("bool", "False"),
    "bytes": ("bytes", 'b""'),
    "float64": ("float", "0.0"),
    "int8": ("int", "0"),
    "int16": ("int", "0"),
    "int32": ("int", "0"),
    "int64": ("int", "0"),
    "records": ("bytes", "None"),
    "string": ("str", '""'),
    "uint16": ("int", "0"),
    "uuid": ("UUID", "NO_UUID"),
}


@dataclasses.dataclass
class FieldModel:
    """A field with everything known about it from all versions."""

    name: str
    type: str
    is_part: bool
    is_array: bool
    tag: int | None
    default: str
    versions: list[int] = dataclasses.field(default_factory=list)
    nullable: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class PartModel:
    """A class to write: its fields in the order of the wire."""

    name: str
    last_version: int
    fields: list[FieldModel]


@dataclasses.dataclass
class MessageModel(PartModel):
    """A whole message with the parts inside it, inner ones first."""

    api_key: int | None
    first_version: int
    flexible_from: int | None
    parts: list[PartModel]


def read_message(schema: str, kind: EntityType, api_key: int | None) -> MessageModel:
    """Join all versions of a message."""
    paths = {
        version: path
        for version, kinds in sorted(schema_name_map[schema].items())
        for entity_type, path in kinds.items()
        if entity_type is kind
    }
    classes: dict[int, type] = {version: resolve_name(path) for version, path in paths.items()}
    parts: dict[str, PartModel] = {}
    last = max(classes)
    flexible = [version for version in classes if vars(classes[version])["__flexible__"]]
    return MessageModel(
        name=classes[last].__name__,
        last_version=last,
        fields=read_fields(classes, last, parts),
        api_key=api_key,
        first_version=min(classes),
        flexible_from=min(flexible, default=None),
        parts=list(parts.values()),
    )


def read_fields(
    classes: dict[int, type], last: int, parts: dict[str, PartModel]
) -> list[FieldModel]:
    """Join the fields of all versions of one class, and add the parts inside it to `parts`."""
    fields: dict[str, FieldModel] = {}
    inner: dict[str, dict[int, type]] = {}
    orders: list[list[str]] = []
    for version, cls in classes.items():
        orders.append([])
        for kio_field in dataclasses.fields(cls):
            found, part, is_nullable = read_field(kio_field)
            field = fields.setdefault(found.name, found)
            for attribute in ("type", "is_array", "tag"):
                same = getattr(field, attribute) == getattr(found, attribute)
                assert same, f"{cls}.{field.name}: versions disagree on its {attribute}"
            field.default = found.default
            if (cls.__name__, field.name) in NULL_BY_DEFAULT:
                field.default = "None"
            field.versions.append(version)
            if is_nullable:
                field.nullable.append(version)
            if part is not None:
                inner.setdefault(field.name, {})[version] = part
            orders[-1].append(field.name)
    merged = merged_order(orders)
    for name in merged:
        if name in inner:
            add_part(
                PartModel(fields[name].type, last, read_fields(inner[name], last, parts)), parts
            )
    return [fields[name] for name in merged]


def add_part(part: PartModel, parts: dict[str, PartModel]) -> None:
    """Add a part; where another field has the same type, join the versions of both uses."""
    known = parts.setdefault(part.name, part)
    for field, other in zip(known.fields, part.fields, strict=True):
        assert field.name == other.name
        field.versions = sorted({*field.versions, *other.versions})
        field.nullable = sorted({*field.nullable, *other.nullable})


def merged_order(orders: list[list[str]]) -> list[str]:
    """Return one order of all fields that agrees with the order in every version."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for order in orders:
        for index, name in enumerate(order):
            sorter.add(name, *order[:index])
    return list(sorter.static_order())


def read_field(kio_field: "dataclasses.Field[object]") -> tuple[FieldModel, type | None, bool]:
    """Return a field (without versions), the class of its part if any, and if it may be null."""
    value_type, is_nullable = without_none(kio_field.type)
    is_array = get_origin(value_type) is tuple
    if is_array:
        value_type, _ = without_none(get_args(value_type)[0])
    assert isinstance(value_type, type)
    part = value_type if dataclasses.is_dataclass(value_type) else None
    kio_type = "" if part else str(kio_field.metadata["kafka_type"])
    # kio reads a zero UUID and a time of -1 as None; the wire has no null for either.
    if not is_array and (kio_type == "uuid" or kio_type in TIMES):
        is_nullable = False
    field = FieldModel(
        name=kio_field.name + ("_ms" if kio_type in TIMES else ""),
        type=part.__name__ if part else WIRE_TYPES.get(kio_type, kio_type),
        is_part=part is not None,
        is_array=is_array,
        tag=kio_field.metadata.get("tag"),
        default="",
    )
    field.default = default_of(kio_field.default, field, kio_type)
    return field, part, is_nullable


def without_none(annotation: object) -> tuple[object, bool]:
    """Split `T | None` to T and True."""
    if get_origin(annotation) is not UnionType:
        return annotation, False
    (kept,) = (arg for arg in get_args(annotation) if arg is not NoneType)
    return kept, True


def default_of(default: object, field: FieldModel, kio_type: str) -> str:
    """Return the source of a field's default: the schema's, else the type's."""
    if default is None and kio_type == "datetime_i64":
        return "-1"
    if default is None and kio_type != "uuid":
        return "None"
    if field.is_array:
        return "field(default_factory=list)"
    if field.is_part:
        return f"field(default_factory={field.type})"
    if default is dataclasses.MISSING or isinstance(default, UUID | NoneType):
        return PYTHON_TYPES[field.type][1]
    if isinstance(default, timedelta):
        return str(default // timedelta(milliseconds=1))
    if isinstance(default, Enum):
        return repr(default.value)
    return '""' if default == "" else repr(default)


def give_unique_names(models: Sequence[MessageModel]) -> None:
    """Rename parts that have the same name and are not the same."""
    uses: dict[str, list[tuple[MessageModel, PartModel]]] = {}
    for model in models:
        for part in model.parts:
            uses.setdefault(part.name, []).append((model, part))
    for name, found in uses.items():
        if all(part == found[0][1] for _, part in found):
            continue
        for model, part in found:
            rename_part(model, part, model.name + name)
        # Parts that hold the renamed ones now differ too.
        give_unique_names(models)
        return


def rename_part(model: MessageModel, part: PartModel, name: str) -> None:
    """Rename a part, also where fields have it as their type."""
    for field in (field for owner in (model, *model.parts) for field in owner.fields):
        if field.is_part and field.type == part.name:
            field.type = name
            field.default = field.default.replace(f"={part.name})", f"={name})")
    part.name = name


def render_module(title: str, models: Sequence[MessageModel]) -> str:
    """Return the source of a module."""
    give_unique_names(models)
    classes: dict[str, list[str]] = {}
    for model in models:
        for part in (*model.parts, model):
            owners = [owner.name for owner in models if part in owner.parts]
            classes.setdefault(part.name, list(render_class(part, " and ".join(owners))))
    body = "\n\n\n".join("\n".join(lines) for lines in classes.values())
    used = [name for name in ("NO_UUID", "Field", "Message", "Part") if has_word(name, body)]
    lines = [
        f'"""{title}',
        "",
        "Written by tools/generate_messages.py: change that, not this.",
        '"""',
    ]
    lines += ["", "from typing import ClassVar"]
    lines += ["from uuid import UUID"] if has_word("UUID", body) else []
    lines += ["", "from msgspec import field"] if has_word("field", body) else []
    lines += ["", f"from ottla.wire.message import {', '.join(used)}", "", "", body]
    return "\n".join(lines) + "\n"


def has_word(word: str, text: str) -> bool:
    """True if a name occurs in a source."""
    return re.search(rf"\b{word}\b", text) is not None


def render_class(part: PartModel, owners: str) -> Iterator[str]:
    """Return the lines of a class; owners are the messages that a part is in."""
    if isinstance(part, MessageModel):
        several = part.last_version > part.first_version
        versions = (
            f"s {part.first_version} to {part.last_version}" if several else f" {part.last_version}"
        )
        yield f"class {part.name}(Message, kw_only=True):"
        yield f'    """Version{versions}."""'
        yield ""
        if part.api_key is not None:
            yield f"    API_KEY: ClassVar[int] = {part.api_key}"
        yield (
            f"    VERSIONS: ClassVar[tuple[int, int]] = ({part.first_version}, {part.last_version})"
        )
        if part.flexible_from is not None:
            yield f"    FLEXIBLE_FROM: ClassVar[int] = {part.flexible_from}"
    else:
        yield f"class {part.name}(Part, kw_only=True):"
        yield f'    """Part of {owners}."""'
    if part.fields:
        yield ""
        for field in part.fields:
            yield from render_attribute(field)
        yield ""
        specs = [render_spec(field, part.last_version) for field in part.fields]
        line = f"    FIELDS: ClassVar[tuple[Field, ...]] = ({specs[0]},)"
        if len(specs) == 1 and len(line) <= LINE:
            yield line
            return
        yield "    FIELDS: ClassVar[tuple[Field, ...]] = ("
        for spec in specs:
            yield f"        {spec},"
            assert len(spec) + 9 <= LINE, spec
        yield "    )"


def render_attribute(field: FieldModel) -> Iterator[str]:
    """Return the attribute's line, broken as ruff would break it."""
    annotation = field.type if field.is_part else PYTHON_TYPES[field.type][0]
    if field.is_array:
        annotation = f"list[{annotation}]"
    if field.nullable or field.default == "None":
        annotation += " | None"
    line = f"    {field.name}: {annotation} = {field.default}"
    if len(line) <= LINE:
        yield line
        return
    before, factory = line.removesuffix(")").split("field(")
    yield from (f"{before}field(", f"        {factory}", "    )")


def render_spec(field: FieldModel, last: int) -> str:
    """Return the source of a field's spec."""
    spec = [f'"{field.name}"', field.type if field.is_part else f'"{field.type}"']
    spec.append(f'"{version_range(field.versions, last)}"')
    spec += ["array=True"] if field.is_array else []
    spec += [f'nullable="{version_range(field.nullable, last)}"'] if field.nullable else []
    spec += [f"tag={field.tag}"] if field.tag is not None else []
    return f"Field({', '.join(spec)})"


def version_range(versions: list[int], last: int) -> str:
    """Return versions as a range in Kafka's notation."""
    first = versions[0]
    assert versions == list(range(first, versions[-1] + 1)), versions
    if versions[-1] == last:
        return f"{first}+"
    return str(first) if first == versions[-1] else f"{first}-{versions[-1]}"


def generate() -> dict[str, str]:
    """Return the source of each module, by file name."""
    title = "One module for each Kafka API, written by tools/generate_messages.py."
    files = {"__init__.py": f'"""{title}"""\n'}
    for key in API_KEYS:
        schema = api_key_map[key]
        kinds = (EntityType.request, EntityType.response)
        models = [read_message(schema, kind, key) for kind in kinds]
        api = models[0].name.removesuffix("Request")
        files[f"{schema}.py"] = render_module(f"{api} (API key {key}).", models)
    for schema in DATA_SCHEMAS:
        model = read_message(schema, EntityType.data, None)
        files[f"{schema}.py"] = render_module(f"{model.name}.", [model])
    return files


def main() -> None:
    """Write the modules, and remove those that are no longer made."""
    files = generate()
    for path in MESSAGES.glob("*.py"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (MESSAGES / name).write_text(text)


if __name__ == "__main__":
    main()
