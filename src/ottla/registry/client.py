"""A small client of a schema registry: for tools that decode values, and for Spark.

Rules kept here:
1. A registry that cannot be reached, or refuses, is RegistryUnreachable; what it does not know or
   does not accept is SchemaRefused. Both have a text that stands alone.
2. Replies are a stranger's: they are bounded, and their shape is checked.
"""

import base64
import json
import urllib.error
import urllib.request
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit, urlunsplit

SECONDS: Final = 10.0
LARGEST_REPLY: Final = 64 << 20
DEEPEST: Final = 100
_JSON: Final = "application/vnd.schemaregistry.v1+json"


class RegistryUnreachable(Exception):  # noqa: N818 (it names what happened)
    """The registry does not answer, or refuses."""


class SchemaRefused(Exception):  # noqa: N818 (it names what happened)
    """The registry does not know a schema, or does not accept one."""


class FoundSchema(NamedTuple):
    """A schema with the texts of all that it refers to, each after what it needs itself."""

    id: int
    type: str
    text: str
    references: tuple[tuple[str, str], ...]


class RegistryClient:
    """Asks one registry."""

    def __init__(self, url: str, user_info: str | None = None) -> None:
        """`url` may hold a user and a password; `user_info` is `user:password`."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            shown = url.rpartition("@")[2]
            raise RegistryUnreachable(f"{shown!r} is not the URL of a registry")
        self._headers = {"Accept": _JSON, "Content-Type": _JSON}
        if user_info is None and parts.username is not None:
            user_info = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        if user_info is not None:
            encoded = base64.b64encode(user_info.encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"
        host = parts.netloc.rpartition("@")[2]
        self.url: Final = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))

    def by_id(self, schema_id: int, *, serialized: bool = False) -> FoundSchema:
        """The schema of an id; `serialized`: Protobuf as descriptors."""
        query = "?format=serialized" if serialized else ""
        found = self._schema(f"/schemas/ids/{schema_id}{query}")
        return self._with_references(schema_id, found, serialized)

    def version(self, subject: str, version: str, *, serialized: bool = False) -> FoundSchema:
        """A version of a subject, by its number or `latest`."""
        query = "?format=serialized" if serialized else ""
        path = f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}{query}"
        found = self._schema(path)
        if not isinstance(found.get("id"), int):
            raise self._no_registry()
        return self._with_references(found["id"], found, serialized)

    def register(self, subject: str, kind: str, text: str) -> int:
        """Register a schema, unless it is there; returns its id."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        reply = self._ask(path, {"schema": text, "schemaType": kind})
        if not isinstance(reply, dict) or not isinstance(reply.get("id"), int):
            raise self._no_registry()
        return int(reply["id"])

    def _with_references(
        self, schema_id: int, schema: dict[str, Any], serialized: bool
    ) -> FoundSchema:
        query = "?format=serialized&deleted=true" if serialized else "?deleted=true"
        found: dict[str, str] = {}

        def visit(item: dict[str, Any], depth: int) -> None:
            if depth > DEEPEST:
                raise SchemaRefused("references refer to each other")
            for reference in item.get("references", ()):
                if reference["name"] not in found:
                    subject = quote(reference["subject"], safe="")
                    path = f"/subjects/{subject}/versions/{int(reference['version'])}"
                    target = self._schema(path + query)
                    visit(target, depth + 1)
                    found[reference["name"]] = target["schema"]

        try:
            visit(schema, 0)
        except (TypeError, KeyError, ValueError):
            raise self._no_registry() from None
        kind = str(schema.get("schemaType", "AVRO"))
        return FoundSchema(schema_id, kind, schema["schema"], tuple(found.items()))

    def _schema(self, path: str) -> dict[str, Any]:
        found = self._ask(path)
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise self._no_registry()
        return found

    def _ask(self, path: str, body: object = None) -> object:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as reply:
                read = reply.read(LARGEST_REPLY + 1)
        except urllib.error.HTTPError as problem:
            with problem:
                said = _message_of(problem.read(LARGEST_REPLY)) or problem.reason
            if problem.code in (404, 409, 422):
                raise SchemaRefused(f"{said} in the registry at {self.url}") from None
            raise RegistryUnreachable(f"the registry at {self.url} refuses: {said}") from None
        except OSError as problem:
            text = f"cannot reach the registry at {self.url}: {getattr(problem, 'reason', problem)}"
            raise RegistryUnreachable(text) from None
        try:
            if len(read) <= LARGEST_REPLY:
                return json.loads(read)
        except (ValueError, RecursionError):
            pass
        raise self._no_registry()

    def _no_registry(self) -> RegistryUnreachable:
        return RegistryUnreachable(f"{self.url} is not a schema registry")


def _message_of(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, TypeError, KeyError):
        return ""
