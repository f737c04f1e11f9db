"""Values that carry a schema id, as JSON: for tools that show records.

Rules kept here:
1. The framing is that of Confluent's serializers: a zero, four bytes of the id, the value; for
   Protobuf the path of the message's type comes first.
2. A schema is asked for once. A registry that cannot be reached is an error. An id that it does not
   know, or a value that does not fit its schema, is a DecodeError: the value can be shown as it is.
   Neither is tried again for a moment: a page of values does not wait for each of them.
3. Records are a stranger's: whatever they hold, decoding ends with JSON or a DecodeError, in memory
   that their size bounds.
"""

import base64
import importlib
import io
import json
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Any, Final, TypeVar

import msgspec

from ottla.registry.client import FoundSchema, RegistryClient, RegistryUnreachable, SchemaRefused

__all__ = ["Decoder", "RegistryUnreachable", "ValueDecodeError"]

T = TypeVar("T")

MAGIC: Final = 0
HEADER: Final = 5
REMEMBERED: Final = 10_000
FAILED_SECONDS: Final = 30.0
UNREACHABLE_SECONDS: Final = 2.0

Decode = Callable[[bytes], bytes]


class ValueDecodeError(Exception):
    """A value that cannot be decoded; the text says why."""


class Decoder:
    """Decodes values by the schemas of one registry."""

    def __init__(self, url: str, now: Callable[[], float] = monotonic) -> None:
        """`url` may hold a user and a password."""
        self._client = RegistryClient(url)
        self._now = now
        self._decoders: OrderedDict[int, Decode] = OrderedDict()
        self._failed: OrderedDict[int, tuple[float, ValueDecodeError]] = OrderedDict()
        self._unreachable: tuple[float, RegistryUnreachable] | None = None

    def decode(self, value: bytes) -> bytes:
        """The JSON of a value; one without a schema id is returned as it is."""
        if len(value) < HEADER or value[0] != MAGIC:
            return value
        decode = self._found(int.from_bytes(value[1:HEADER]))
        try:
            return decode(value[HEADER:])
        except ValueDecodeError:
            raise
        except Exception as problem:  # noqa: BLE001 the libraries raise many kinds
            raise ValueDecodeError(
                f"the value does not fit schema {int.from_bytes(value[1:HEADER])}: "
                f"{type(problem).__name__} {problem}"
            ) from None

    def _found(self, schema_id: int) -> Decode:
        """The decoder of an id; what failed a moment ago is not tried again."""
        found = self._decoders.get(schema_id)
        if found is not None:
            return found
        failed = self._failed.get(schema_id)
        if failed is not None and self._now() - failed[0] < FAILED_SECONDS:
            raise failed[1]
        away = self._unreachable
        if away is not None and self._now() - away[0] < UNREACHABLE_SECONDS:
            raise away[1]
        try:
            found = self._decoder(schema_id)
        except ValueDecodeError as problem:
            _keep(self._failed, schema_id, (self._now(), problem))
            raise
        except RegistryUnreachable as problem:
            self._unreachable = self._now(), problem
            raise
        _keep(self._decoders, schema_id, found)
        return found

    def _decoder(self, schema_id: int) -> Decode:
        try:
            schema = self._client.by_id(schema_id, serialized=True)
            match schema.type:
                case "AVRO":
                    return avro_decoder(schema)
                case "JSON":
                    return bytes
                case "PROTOBUF":
                    return protobuf_decoder(schema)
                case other:
                    raise ValueDecodeError(f"schema {schema_id} is of the unknown type {other}")
        except ModuleNotFoundError as missing:
            from ottla.extras import install_command

            raise RegistryUnreachable(
                f"decoding needs {missing.name}; install it with: {install_command('registry')}"
            ) from None
        except (RegistryUnreachable, ValueDecodeError):
            raise
        except SchemaRefused as problem:
            raise ValueDecodeError(str(problem)) from None
        except Exception as problem:  # noqa: BLE001 the libraries raise many kinds
            raise ValueDecodeError(f"schema {schema_id} cannot be used: {problem}") from None


def _keep(kept: OrderedDict[int, T], schema_id: int, item: T) -> None:
    kept[schema_id] = item
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)


def avro_decoder(schema: FoundSchema) -> Decode:
    """Decodes what a schema has written."""
    import fastavro.schema

    parsed = avro_schema(schema)

    def decode(data: bytes) -> bytes:
        return msgspec.json.encode(fastavro.schemaless_reader(io.BytesIO(data), parsed, None))

    return decode


def avro_schema(schema: FoundSchema) -> Any:
    """The schema as fastavro takes it; ValueDecodeError for one whose values cannot be bounded."""
    import fastavro.schema

    named: dict[str, Any] = {}
    for _, text in schema.references:
        fastavro.schema.parse_schema(json.loads(text), named_schemas=named)
    parsed = fastavro.schema.parse_schema(json.loads(schema.text), named_schemas=named)
    if _has_empty_items(parsed, named, set()):
        # A value of ten bytes could say that it has 2**60 of them.
        raise ValueDecodeError(f"schema {schema.id} has an array of items without any bytes")
    return parsed


def _has_empty_items(node: Any, named: dict[str, Any], seen: set[str]) -> bool:
    if isinstance(node, str):
        if node not in named or node in seen:
            return False
        seen.add(node)
        return _has_empty_items(named[node], named, seen)
    if isinstance(node, list):
        return any(_has_empty_items(each, named, seen) for each in node)
    match node.get("type"):
        case "array":
            items = node["items"]
            return _is_empty(items, named, set()) or _has_empty_items(items, named, seen)
        case "map":
            return _has_empty_items(node["values"], named, seen)
        case "record" | "error":
            seen.add(node["name"])
            return any(_has_empty_items(each["type"], named, seen) for each in node["fields"])
        case inner if isinstance(inner, dict | list):
            return _has_empty_items(inner, named, seen)
    return False


def _is_empty(node: Any, named: dict[str, Any], inside: set[str]) -> bool:
    """Whether a value of a type has no bytes."""
    if isinstance(node, str):
        if node in inside or node not in named:
            return node == "null"
        return _is_empty(named[node], named, inside)
    if isinstance(node, list):
        return False  # the branch is told by a byte
    match node.get("type"):
        case "null":
            return True
        case "fixed":
            return bool(node["size"] == 0)
        case "record" | "error":
            within = inside | {node["name"]}
            return all(_is_empty(each["type"], named, within) for each in node["fields"])
        case inner if isinstance(inner, dict | list):
            return _is_empty(inner, named, inside)
    return False


def protobuf_decoder(schema: FoundSchema) -> Decode:
    """Decodes the messages of a file; the schema is its descriptor in base64."""
    from google.protobuf import json_format, message_factory

    pool, file = protobuf_file(schema)

    def decode(data: bytes) -> bytes:
        found, at = message_of(file, data)
        message = message_factory.GetMessageClass(found)()
        message.ParseFromString(data[at:])
        return msgspec.json.encode(json_format.MessageToDict(message, descriptor_pool=pool))

    return decode


def protobuf_file(schema: FoundSchema) -> tuple[Any, Any]:
    """The pool and the file of a schema that came as descriptors."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    known: set[str] = set()

    def add(name: str, text: str) -> None:
        file = FileDescriptorProto.FromString(base64.b64decode(text))
        file.name = name
        for needed in file.dependency:
            _add_known(pool, needed, known)
        pool.Add(file)
        known.add(name)

    for name, text in schema.references:
        add(name, text)
    add("__schema__.proto", schema.text)
    return pool, pool.FindFileByName("__schema__.proto")


def message_of(file: Any, data: bytes) -> tuple[Any, int]:
    """Which message of a file a value is, and where it begins."""
    path, at = _message_path(data)
    try:
        found = list(file.message_types_by_name.values())[path[0]]
        for step in path[1:]:
            found = found.nested_types[step]
    except IndexError:
        raise ValueDecodeError("the path of the message's type leads nowhere") from None
    return found, at


def _add_known(pool: Any, name: str, known: set[str]) -> None:
    """Add a file of Google's that protoc knows without a reference."""
    if name in known or not name.startswith("google/"):
        return
    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    known.add(name)
    for needed in module.DESCRIPTOR.dependencies:
        _add_known(pool, needed.name, known)
    pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)


def _message_path(data: bytes) -> tuple[list[int], int]:
    """Which message of the file it is: the indexes, and where the value begins."""
    count, at = _varint(data, 0)
    if count == 0:
        return [0], at
    if not 0 < count <= 64:
        raise ValueDecodeError("the path of the message's type makes no sense")
    path = []
    for _ in range(count):
        index, at = _varint(data, at)
        if index < 0:
            raise ValueDecodeError("the path of the message's type makes no sense")
        path.append(index)
    return path, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise ValueDecodeError("the value ends within the path of the message's type")
