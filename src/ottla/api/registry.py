"""The table of Kafka APIs that this broker serves, filled by one decorator.

Rules kept here:
1. `@api(key, first, last, RequestClass, authorize=...)` on a function is the only registration of
   an API. What it authorizes has no default (`authorization.py`).
2. A handler gets a `Request` and a decoded message and returns the reply message, a Later of
   it, or is a coroutine. Produce, Fetch and Metadata are `raw`: they take and give bytes.
3. A handler reports what a client did wrong in its reply. What it did not foresee is logged
   and answered with UNKNOWN_SERVER_ERROR, or by closing the connection where the reply has
   no place for an error.
4. No request holds the loop: one with many elements is handled in pieces (`pieces.py`), and read
   and its reply written by a thread where it is long.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog
from msgspec import Struct

from ottla.api.authorization import Authorize, Inside, Public
from ottla.api.pieces import Pieces, divide, join, refuses_all
from ottla.broker.replicas.decoding import WaitsFor
from ottla.broker.scheduling.turns import Turns
from ottla.broker.scheduling.waiting import settled
from ottla.coordinator.shard import RequestContext
from ottla.later import Later
from ottla.metadata.store import StoreError
from ottla.security.authorizer import EVERYTHING, Access
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import Message
from ottla.wire.reply import Parts, UnanswerableError

if TYPE_CHECKING:
    from ottla.broker.broker_server import BrokerServer

log = structlog.get_logger()

SHORT_BYTES: Final = 512
"""Requests up to this size have too few elements to be noticed."""
LONG_BYTES: Final = 16 << 10
"""Longer requests are read by a thread."""

_WAITS_FOR: Final[dict[int, WaitsFor]] = {
    ApiKey.CREATE_TOPICS: WaitsFor.STORE,
    ApiKey.DELETE_TOPICS: WaitsFor.STORE,
    ApiKey.CREATE_PARTITIONS: WaitsFor.STORE,
    ApiKey.ALTER_CONFIGS: WaitsFor.STORE,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: WaitsFor.STORE,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: WaitsFor.STORE,
    ApiKey.ELECT_LEADERS: WaitsFor.STORE,
    ApiKey.DELETE_RECORDS: WaitsFor.STORE,
    ApiKey.OFFSET_COMMIT: WaitsFor.REPLICAS,
    ApiKey.OFFSET_DELETE: WaitsFor.REPLICAS,
    ApiKey.DELETE_GROUPS: WaitsFor.REPLICAS,
    ApiKey.LEAVE_GROUP: WaitsFor.REPLICAS,
    ApiKey.ADD_PARTITIONS_TO_TXN: WaitsFor.REPLICAS,
    ApiKey.TXN_OFFSET_COMMIT: WaitsFor.REPLICAS,
    ApiKey.WRITE_TXN_MARKERS: WaitsFor.REPLICAS,
}
"""Of what is handled in pieces while it holds its place."""

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)
T = TypeVar("T")


class Request(Struct, frozen=True, gc=False):
    """Who asks, and in which version."""

    node: BrokerServer
    key: int
    version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    listener: str
    connection_id: int
    access: Access = EVERYTHING

    @property
    def context(self) -> RequestContext:
        """What a coordinator may know of the request."""
        sees_topic = self.access.sees_topic if self.access.is_limited else None
        return RequestContext(
            self.version, self.client_id or "", f"/{self.client_host}", sees_topic
        )


Outcome = Parts | Later[Parts | None] | Coroutine[Any, Any, Parts | None] | None
"""What handling a request gives: a reply, the promise of one, or none at all (acks=0)."""
Handler = Callable[["Request", Q], R | Later[R] | Awaitable[R]]
RawHandler = Callable[[Request, memoryview, int], Outcome]


class Endpoint:
    """One API as the server calls it: bytes in, parts out."""

    __slots__ = ("authorize", "first", "handle", "key", "last", "name")

    def __init__(
        self, key: ApiKey, first: int, last: int, handle: RawHandler, authorize: Authorize
    ) -> None:
        self.key = key
        self.authorize = authorize
        self.name = key.name
        self.first = first
        self.last = last
        self.handle = handle


ENDPOINTS: dict[int, Endpoint] = {}


def raw_api(
    key: ApiKey, first: int, last: int, *, authorize: Public | Inside
) -> Callable[[RawHandler], RawHandler]:
    """Register a handler that reads and writes its own bytes."""

    def register(handler: RawHandler) -> RawHandler:
        _add(Endpoint(key, first, last, handler, authorize))
        return handler

    return register


def api(
    key: ApiKey,
    first: int,
    last: int,
    request_class: type[Q],
    *ways: Pieces,
    authorize: Authorize,
) -> Callable[[Handler[Q, R]], Handler[Q, R]]:
    """Register a handler of decoded messages, and the ways to divide long ones."""

    def register(handler: Handler[Q, R]) -> Handler[Q, R]:
        guarded = _guarded(handler, authorize)

        def handle(request: Request, body: memoryview, at: int) -> Outcome:
            return handled(request, body, at, request_class, guarded, ways)

        _add(Endpoint(key, first, last, handle, authorize))
        return handler

    return register


def _guarded(handler: Handler[Q, R], authorize: Authorize) -> Handler[Q, Any]:
    """The handler behind what is checked before it."""
    if isinstance(authorize, Public | Inside):
        return handler
    before = authorize

    def guarded(request: Request, asked: Q) -> Any:
        refusal = before.refusal(request, asked)
        return handler(request, asked) if refusal is None else refusal

    return guarded


def handled(
    request: Request,
    body: memoryview,
    at: int,
    request_class: type[Q],
    handler: Handler[Q, R],
    ways: tuple[Pieces, ...],
) -> Outcome:
    """Read a request, let it be handled, and write its reply: now or later, whole or in pieces."""
    size = len(body) - at
    if size > LONG_BYTES:
        return _handle_long(request, bytes(body[at:]), request_class, handler, ways)
    message = codec.decode(request_class, request.version, body, at)
    if size > SHORT_BYTES:
        found, way = divide(message, ways)
        if way is not None:
            return _handle_pieces(request, found, way, handler)
    return encoded(request, handler(request, message))


async def _handle_long(
    request: Request,
    body: bytes,
    request_class: type[Q],
    handler: Handler[Q, R],
    ways: tuple[Pieces, ...],
) -> Parts:
    decoding = request.node.decoding
    async with decoding.long_requests[_WAITS_FOR.get(request.key, WaitsFor.NOBODY)]:
        try:
            found, way = await decoding.of_message(
                lambda: divide(codec.decode(request_class, request.version, body), ways)
            )
        except codec.DecodeError as problem:
            raise UnanswerableError(f"malformed request: {problem}") from None
        if way is not None:
            return await _handle_pieces(request, found, way, handler)
    # It may wait for long, as a member's join does, and is not that large.
    answer = await _answered(handler(request, found[0]))
    return (await decoding.of_message(lambda: codec.encode(answer, request.version)),)


async def _handle_pieces(
    request: Request, found: list[Q], way: Pieces, handler: Handler[Q, R]
) -> Parts:
    turns = Turns()
    found.reverse()
    whole = await _answered(handler(request, found.pop()))
    while found and not refuses_all(whole):
        await turns.give_way()
        more = await _answered(handler(request, found.pop()))
        join(whole, more, way.answered)
        if refuses_all(more):
            return (codec.encode(more, request.version),)
    box = [whole]
    del whole  # the thread frees it, too
    return (
        await request.node.decoding.of_message(lambda: codec.encode(box.pop(), request.version)),
    )


async def _answered(answer: R | Later[R] | Awaitable[R]) -> R:
    if isinstance(answer, Message):
        return answer
    return await (settled(answer) if isinstance(answer, Later) else answer)


def encoded(request: Request, answer: Message | Later[Any] | Awaitable[Message]) -> Outcome:
    """The bytes of a reply, now or later."""
    version = request.version
    if isinstance(answer, Message):
        return (codec.encode(answer, version),)
    if isinstance(answer, Later):
        return answer.map(lambda reply: (codec.encode(reply, version),))
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
        log.error("request failed", reason=str(problem))
        return ErrorCode.KAFKA_STORAGE_ERROR, str(problem)
    log.error("unexpected error while handling a request", exc_info=problem)
    return ErrorCode.UNKNOWN_SERVER_ERROR, None
