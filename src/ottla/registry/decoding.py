"""Values that carry a schema id, as JSON: for tools that show records.

Rules kept here:
1. The framing is that of Confluent's serializers: a zero, four bytes of the id, the value; for
   Protobuf the path of the message's type comes first.
2. A schema is asked for once. A registry that cannot be reached is an error. An id that it does not
   know, or a value that does not fit its schema, is a DecodeError: the value can be shown as it is.
3. Records are a stranger's: whatever they hold, decoding ends with JSON or a DecodeError.
"""

import base64
import importlib
import io
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import msgspec

MAGIC: Final = 0
HEADER: Final = 5
SECONDS: Final = 10.0

Decode = Callable[[bytes], bytes]


class ValueDecodeError(Exception):
    """A value that cannot be decoded; the text says why."""


class RegistryUnreachable(Exception):  # noqa: N818 (it names what happened)
    """The registry does not answer, or refuses."""


class Decoder:
    """Decodes values by the schemas of one registry."""

    def __init__(self, url: str) -> None:
        """`url` may hold a user and a password."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RegistryUnreachable(f"{url!r} is not the URL of a registry")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        host = parts.netloc.rpartition("@")[2]
        self._url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._decoders: dict[int, Decode | ValueDecodeError] = {}

    def decode(self, value: bytes) -> bytes:
        """The JSON of a value; one without a schema id is returned as it is."""
        if len(value) < HEADER or value[0] != MAGIC:
            return value
        schema_id = int.from_bytes(value[1:HEADER])
        found = self._decoders.get(schema_id)
        if found is None:
            try:
                found = self._decoder(schema_id)
            except ValueDecodeError as problem:
                found = problem
            self._decoders[schema_id] = found
        if isinstance(found, ValueDecodeError):
            raise found
        try:
            return found(value[HEADER:])
        except ValueDecodeError:
            raise
        except Exception as problem:  # noqa: BLE001 the libraries raise many kinds
            raise ValueDecodeError(
                f"the value does not fit schema {schema_id}: {type(problem).__name__} {problem}"
            ) from None

    def _decoder(self, schema_id: int) -> Decode:
        schema = self._get(f"/schemas/ids/{schema_id}?format=serialized")
        try:
            match schema.get("schemaType", "AVRO"):
                case "AVRO":
                    return self._avro(schema)
                case "JSON":
                    return bytes
                case "PROTOBUF":
                    return self._protobuf(schema)
                case other:
                    raise ValueDecodeError(f"schema {schema_id} is of the unknown type {other}")
        except ModuleNotFoundError as missing:
            from ottla.extras import install_command

            raise RegistryUnreachable(
                f"decoding needs {missing.name}; install it with: {install_command('registry')}"
            ) from None
        except (ValueError, TypeError, KeyError) as problem:
            raise ValueDecodeError(f"schema {schema_id} cannot be used: {problem}") from None

    def _avro(self, schema: dict[str, Any]) -> Decode:
        import fastavro.schema

        named: dict[str, Any] = {}
        for _, text in self._references(schema):
            fastavro.schema.parse_schema(json.loads(text), named_schemas=named)
        parsed = fastavro.schema.parse_schema(json.loads(schema["schema"]), named_schemas=named)

        def decode(data: bytes) -> bytes:
            return msgspec.json.encode(fastavro.schemaless_reader(io.BytesIO(data), parsed, None))

        return decode

    def _protobuf(self, schema: dict[str, Any]) -> Decode:
        from google.protobuf import json_format, message_factory
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

        for name, text in self._references(schema, "?format=serialized&deleted=true"):
            add(name, text)
        add("__schema__.proto", schema["schema"])
        file = pool.FindFileByName("__schema__.proto")
        top = list(file.message_types_by_name.values())

        def decode(data: bytes) -> bytes:
            path, at = _message_path(data)
            found = top[path[0]]
            for step in path[1:]:
                found = found.nested_types[step]
            message = message_factory.GetMessageClass(found)()
            message.ParseFromString(data[at:])
            shown = json_format.MessageToDict(message, descriptor_pool=pool)
            return msgspec.json.encode(shown)

        return decode

    def _references(
        self, schema: dict[str, Any], query: str = "?deleted=true"
    ) -> list[tuple[str, str]]:
        """The names and texts of all that a schema refers to, each after what it needs itself."""
        found: dict[str, str] = {}

        def visit(item: dict[str, Any], depth: int) -> None:
            if depth > 100:
                raise ValueDecodeError("references refer to each other")
            for reference in item.get("references", ()):
                if reference["name"] not in found:
                    subject = quote(reference["subject"], safe="")
                    path = f"/subjects/{subject}/versions/{int(reference['version'])}"
                    target = self._get(path + query)
                    visit(target, depth + 1)
                    found[reference["name"]] = target["schema"]

        visit(schema, 0)
        return list(found.items())

    def _get(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self._url + path, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as reply:
                found = json.loads(reply.read())
        except urllib.error.HTTPError as problem:
            with problem:
                said = _message_of(problem.read()) or problem.reason
            if problem.code == 404:
                raise ValueDecodeError(f"{said} in the registry at {self._url}") from None
            raise RegistryUnreachable(f"the registry at {self._url} refuses: {said}") from None
        except OSError as problem:
            reason = getattr(problem, "reason", problem)
            raise RegistryUnreachable(
                f"cannot reach the registry at {self._url}: {reason}"
            ) from None
        except ValueError:
            raise RegistryUnreachable(f"{self._url} is not a schema registry") from None
        if not isinstance(found, dict) or "schema" not in found:
            raise RegistryUnreachable(f"{self._url} is not a schema registry")
        return found


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


def _message_of(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, TypeError, KeyError):
        return ""
