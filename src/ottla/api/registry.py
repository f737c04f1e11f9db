"""The table of Kafka APIs that this broker serves, filled by one decorator.

Rules kept here:
1. `@api(key, first, last, RequestClass)` on a function is the only registration of an API.
2. A handler gets a `Request` and a decoded message and returns the reply message, a Promise of
   it, or is a coroutine. Produce, Fetch and Metadata are `raw`: they take and give bytes.
3. A handler reports what a client did wrong in its reply. What it did not foresee is logged
   and answered with UNKNOWN_SERVER_ERROR, or by closing the connection where the reply has
   no place for an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
from msgspec import Struct

from ottla.broker.promise import Promise
from ottla.cluster.store import StoreError
from ottla.coordinator.shard import RequestContext
from ottla.wire import codec
from ottla.wire.apis import FIRST_FLEXIBLE, ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch import FileSlice
from ottla.wire.message import Message

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = structlog.get_logger()

Parts = tuple[bytes | FileSlice, ...] | list[bytes | FileSlice]
"""A reply without its header: bytes, and stretches of files that the server sends."""

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)
T = TypeVar("T")


class Request(Struct, frozen=True, gc=False):
    """Who asks, and in which version."""

    node: Node
    key: int
    version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    listener: str
    connection_id: int

    @property
    def context(self) -> RequestContext:
        """What a coordinator may know of the request."""
        return RequestContext(self.version, self.client_id or "", f"/{self.client_host}")


class Pending:
    """A reply that is not ready yet. Whoever parked it calls `complete` or `make`, once."""

    __slots__ = ("abandoned", "failed", "notify", "parts")

    def __init__(self) -> None:
        self.parts: Parts | None = None
        self.failed = False
        """True where there will be no reply: the connection is to be closed."""
        self.notify: Callable[[], None] | None = None
        """Set by the connection: called when the reply is ready."""
        self.abandoned: Callable[[], None] | None = None
        """Set by who parked it: called when the client has gone."""

    def complete(self, parts: Parts) -> None:
        """The reply is ready: hand it to the connection."""
        self.parts = parts
        if self.notify is not None:
            self.notify()

    def make(self, reply: Callable[[], Parts]) -> None:
        """The reply can be made now. Where that fails its client must not wait for ever."""
        try:
            parts = reply()
        except Exception:
            log.exception("a reply could not be made and its connection is closed")
            self.fail()
        else:
            self.complete(parts)

    def fail(self) -> None:
        """There will be no reply: let the connection be closed."""
        self.failed = True
        self.complete(())


class UnanswerableError(Exception):
    """No answer is possible: the protocol leaves only a closed connection."""


Outcome = Parts | Pending | Coroutine[Any, Any, Parts] | None
"""What handling a request gives: a reply, the promise of one, or none at all (acks=0)."""
Handler = Callable[["Request", Q], R | Promise[R] | Awaitable[R]]
RawHandler = Callable[[Request, memoryview, int], Outcome]


class Endpoint:
    """One API as the server calls it: bytes in, parts out."""

    __slots__ = ("first", "flexible_from", "handle", "key", "last", "name")

    def __init__(self, key: ApiKey, first: int, last: int, handle: RawHandler) -> None:
        self.key = key
        self.name = key.name
        self.first = first
        self.last = last
        self.handle = handle
        self.flexible_from = FIRST_FLEXIBLE[key]


ENDPOINTS: dict[int, Endpoint] = {}


def raw_api(key: ApiKey, first: int, last: int) -> Callable[[RawHandler], RawHandler]:
    """Register a handler that reads and writes its own bytes."""

    def register(handler: RawHandler) -> RawHandler:
        _add(Endpoint(key, first, last, handler))
        return handler

    return register


def api(
    key: ApiKey, first: int, last: int, request_class: type[Q]
) -> Callable[[Handler[Q, R]], Handler[Q, R]]:
    """Register a handler of decoded messages."""

    def register(handler: Handler[Q, R]) -> Handler[Q, R]:
        def handle(request: Request, body: memoryview, at: int) -> Outcome:
            message = codec.decode(request_class, request.version, body, at)
            return encoded(request, handler(request, message))

        _add(Endpoint(key, first, last, handle))
        return handler

    return register


async def settled(reply: T | asyncio.Future[T]) -> T:
    """A coordinator's reply, once it may be told."""
    return await reply if isinstance(reply, asyncio.Future) else reply


def encoded(request: Request, answer: Message | Promise[Any] | Awaitable[Message]) -> Outcome:
    """The bytes of a reply, now or later."""
    version = request.version
    if isinstance(answer, Message):
        return (codec.encode(answer, version),)
    if isinstance(answer, Promise):
        pending = Pending()
        answer.then(lambda reply: pending.make(lambda: (codec.encode(reply(), version),)))
        return pending
    return _encode_later(request, answer)


async def _encode_later(request: Request, answer: Awaitable[Message]) -> Parts:
    return (codec.encode(await answer, request.version),)


def _add(endpoint: Endpoint) -> None:
    if endpoint.key in ENDPOINTS:
        raise ValueError(f"{endpoint.name} is registered twice")
    ENDPOINTS[endpoint.key] = endpoint


def error_of(problem: BaseException) -> tuple[ErrorCode, str | None]:
    """The one mapping from exceptions to what a reply says."""
    if isinstance(problem, KafkaError):
        return problem.code, problem.message
    if isinstance(problem, StoreError | OSError):
        log.error("a request failed", reason=str(problem))
        return ErrorCode.KAFKA_STORAGE_ERROR, str(problem)
    log.error("unexpected failure in a request", exc_info=problem)
    return ErrorCode.UNKNOWN_SERVER_ERROR, None
