"""HTTP around the registry's handlers: routing, bodies, users, errors, forwarding.

Rules kept here:
1. A path is split before it is decoded: a subject may contain `%2F`, and nothing in it leads
   anywhere else. `/contexts/NAME/...` is the same path in that context.
2. A body is read up to a limit. Every refusal is JSON with Confluent's code; what was not foreseen
   is a 500 without details, and is logged.
3. A web page of another site changes nothing, though its browser would send the request.
4. A changing request to a registry that does not write is sent on to the one that does. What was
   refused because the writer changes, before anything was written, is tried again for a while.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from time import monotonic
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
import structlog

from ottla.registry.election import Identity
from ottla.registry.errors import UNKNOWN_LEADER, RegistryError, unknown_leader
from ottla.registry.forwarding import FORWARDED, OFFSET, Forwarded, Forwarder
from ottla.registry.names import qualify
from ottla.registry.security import ANYBODY, User, Users
from ottla.registry.service import ELECTION_SECONDS, Service

log = structlog.get_logger()

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

V1_JSON: Final = "application/vnd.schemaregistry.v1+json"
MEDIA_TYPES: Final = (
    V1_JSON,
    "application/vnd.schemaregistry+json",
    "application/json",
    "application/octet-stream",
)
LARGEST_BODY: Final = 8 << 20
LONGEST_TARGET: Final = 16 << 10
PAUSE_SECONDS: Final = 0.2


class RegistryCall:
    """One request."""

    def __init__(self, service: Service, scope: Message) -> None:
        self.service = service
        self.method: str = scope["method"]
        raw = bytes(scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
        query = bytes(scope["query_string"])
        self.target = raw.decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")
        self.segments = [_decoded(item) for item in raw.split(b"/")[1:]]
        while self.segments and not self.segments[-1]:
            self.segments.pop()
        self.context: str | None = None
        if self.segments[:1] == ["contexts"] and len(self.segments) > 2:
            self.context = self.segments[1]
            self.segments = self.segments[2:]
        self.query = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
        self.headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        self.parameters: dict[str, str] = {}
        self.body = b""
        self.user: User = ANYBODY
        self.address = str((scope.get("client") or ("",))[0])

    def flag(self, name: str) -> bool:
        """A parameter of the query that is true or false."""
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """A parameter of the query that is a number."""
        try:
            return int(self.query.get(name, default))
        except ValueError:
            return default

    @property
    def scope(self) -> str:
        """The subject or context that the path names; "" is everything."""
        if "subject" not in self.parameters and self.context is None:
            return ""
        return qualify(self.parameters.get("subject", ""), self.context)

    def readable(self, subject: str) -> str:
        """The subject, if its user may read it; 403."""
        if not self.user.may_read(subject):
            raise RegistryError(40301, f"User is denied operation Read on Subject: {subject}")
        return subject

    def writable(self, subject: str) -> str:
        """The subject, if its user may write it; 403."""
        if not self.user.may_write(subject):
            target = f"Subject: {subject}" if subject else "the whole registry"
            raise RegistryError(40301, f"User is denied operation Write on {target}")
        return subject


Handler = Callable[[RegistryCall], Awaitable[object]]


class Route:
    """A handler, and whether it changes anything; `known` may answer without a change."""

    def __init__(
        self, pattern: str, handler: Handler, *, changes: bool, known: Handler | None
    ) -> None:
        self.steps = pattern.strip("/").split("/") if pattern != "/" else []
        self.handler = handler
        self.changes = changes
        self.known = known

    def match(self, segments: list[str]) -> dict[str, str] | None:
        """The parameters of a path that fits."""
        found = {}
        for step, segment in zip(self.steps, segments, strict=True):
            if step.startswith("{"):
                found[step[1:-1]] = segment
            elif step != segment:
                return None
        return found


class RegistryApplication:
    """The ASGI application."""

    def __init__(self, service: Service, forwarder: Forwarder, users: Users | None) -> None:
        self._service = service
        self._forwarder = forwarder
        self._users = users
        self._routes: dict[int, list[tuple[str, Route]]] = {}

    def add(
        self, method: str, pattern: str, handler: Handler, known: Handler | None = None
    ) -> None:
        """Register a handler; one with `known` changes things, as PUT and DELETE do."""
        changes = method in ("PUT", "DELETE") or known is not None
        route = Route(pattern, handler, changes=changes, known=known)
        self._routes.setdefault(len(route.steps), []).append((method, route))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers: list[tuple[bytes, bytes]] = []
        try:
            status, body = await self._answered(scope, receive, headers)
        except RegistryError as problem:
            status = problem.status
            body = msgspec.json.encode({"error_code": problem.code, "message": problem.message})
            if status == 401:
                headers.append((b"www-authenticate", b'Basic realm="schema registry"'))
        except Exception:
            log.exception("request failed", method=scope["method"], path=scope["path"])
            status = 500
            body = b'{"error_code":500,"message":"Internal Server Error"}'
        kind = _reply_type(scope)
        headers += [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answered(
        self, scope: Message, receive: Receive, headers: list[tuple[bytes, bytes]]
    ) -> tuple[int, bytes]:
        call = RegistryCall(self._service, scope)
        if len(call.target) > LONGEST_TARGET:
            raise RegistryError(414, "HTTP 414 URI Too Long")
        if call.method not in ("GET", "HEAD") and not _is_own_origin(call.headers):
            raise RegistryError(403, "Requests of web pages of other sites are refused")
        call.user = await self._user(call)
        route = self._route(call)
        call.body = await _body(call, receive)
        if not route.changes:
            return 200, _encoded(await route.handler(call))
        if route.known is not None and (reply := await route.known(call)) is not None:
            return 200, _encoded(reply)
        return await self._changed(call, route, headers)

    async def _changed(
        self, call: RegistryCall, route: Route, headers: list[tuple[bytes, bytes]]
    ) -> tuple[int, bytes]:
        """Make a change here or at the writer; while the writer changes, try again."""
        give_up = monotonic() + ELECTION_SECONDS
        while True:
            try:
                writer = await self._service.writer()
                if writer is None:
                    reply = await route.handler(call)
                    headers.append((OFFSET.encode(), b"%d" % self._service.last_written))
                    return 200, _encoded(reply)
                if FORWARDED in call.headers:
                    raise unknown_leader()
                status, body = await self._forwarded(call, writer)
                if status != 500 or not _is_unknown_leader(body) or monotonic() > give_up:
                    return status, body
            except RegistryError as problem:
                # It was refused before anything was written.
                is_refused = problem.code == UNKNOWN_LEADER and FORWARDED not in call.headers
                if not is_refused or monotonic() > give_up:
                    raise
            await asyncio.sleep(PAUSE_SECONDS)

    async def _forwarded(self, call: RegistryCall, writer: Identity) -> tuple[int, bytes]:
        headers = {
            name: value
            for name, value in call.headers.items()
            if name in ("accept", "authorization", "content-type")
        }
        reply: Forwarded = await self._forwarder.send(
            writer, call.method, call.target, headers, call.body
        )
        if reply.offset is not None:
            await self._service.caught_up(reply.offset)
        return reply.status, reply.body

    async def _user(self, call: RegistryCall) -> User:
        if self._users is None:
            return ANYBODY
        authorization = call.headers.get("authorization")
        known = self._users.remembered(authorization)
        if known is not None:
            return known
        return await asyncio.to_thread(self._users.verify, authorization, call.address)

    def _route(self, call: RegistryCall) -> Route:
        allowed = False
        for method, route in self._routes.get(len(call.segments), ()):
            found = route.match(call.segments)
            if found is not None:
                if method == call.method:
                    call.parameters = found
                    return route
                allowed = True
        if allowed:
            raise RegistryError(405, "HTTP 405 Method Not Allowed")
        raise RegistryError(404, "HTTP 404 Not Found")


def _is_own_origin(headers: dict[str, str]) -> bool:
    """Whether a change does not come from a web page, or from one of this registry's own address.
    Browsers send what has no type of content, as a page of any site may, without asking.
    """
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")


def _decoded(segment: bytes) -> str:
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise RegistryError(400, "The path is not valid UTF-8") from None


def _is_unknown_leader(body: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(body)["error_code"] == UNKNOWN_LEADER)
    except (msgspec.DecodeError, TypeError, KeyError):
        return False


def _encoded(reply: object) -> bytes:
    return reply if isinstance(reply, bytes) else msgspec.json.encode(reply)


async def _body(call: RegistryCall, receive: Receive) -> bytes:
    parts = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RegistryError(400, "The client closed the connection")
        part = message.get("body", b"")
        size += len(part)
        if size > LARGEST_BODY:
            raise RegistryError(413, f"The body is larger than {LARGEST_BODY} bytes")
        parts.append(part)
        if not message.get("more_body"):
            break
    if size:
        kind = call.headers.get("content-type", V1_JSON).partition(";")[0].strip().lower()
        if kind not in MEDIA_TYPES:
            raise RegistryError(415, "HTTP 415 Unsupported Media Type")
    return b"".join(parts)


def _reply_type(scope: Message) -> bytes:
    for name, value in scope["headers"]:
        if name == b"accept":
            wanted = value.decode("latin-1")
            if V1_JSON not in wanted and "*/*" not in wanted:
                for kind in MEDIA_TYPES[1:3]:
                    if kind in wanted:
                        return kind.encode()
    return V1_JSON.encode()
