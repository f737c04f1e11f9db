"""From a frame to the handler of its API, for one connection.

Rules kept here:
1. An API that is not served, or not in this version, closes the connection, as in Kafka; only
   ApiVersions answers every version, so that a newer client can find out what is spoken here.
2. A large request that carries no records is not decoded: decoding makes objects, which take far
   more memory than the bytes they come from.
3. A coroutine becomes a task of the server, which ends it when the broker stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from ottla.api.registry import ENDPOINTS, Endpoint, Request
from ottla.broker.scheduling.waiting import settled
from ottla.later import Later
from ottla.security.principal import ANONYMOUS, Principal
from ottla.server.protocol import LARGEST_WITHOUT_RECORDS, Answer
from ottla.server.throttling import Throttle
from ottla.wire.apis import ApiKey
from ottla.wire.fields import DecodeError
from ottla.wire.headers import RequestHeader
from ottla.wire.reply import Parts, UnanswerableError

if TYPE_CHECKING:
    from ottla.server.server import Server

_PRODUCE: Final = int(ApiKey.PRODUCE)
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_NOT_A_TASK: Final = (tuple, list, Later)


class Dispatcher:
    """Calls the handlers for the requests of one connection."""

    __slots__ = (
        "_access",
        "_client_host",
        "_config",
        "_connection_id",
        "_count",
        "_listener",
        "_quotas",
        "_server",
        "_throttle",
    )

    def __init__(self, server: Server, client_host: str, listener: str, number: int) -> None:
        self._server = server
        self._client_host = client_host
        self._listener = listener
        self._connection_id = number
        self._count = server.metrics.answered
        self._access = server.node.authorization.access(ANONYMOUS, client_host)
        self._quotas = server.node.quotas
        self._throttle: Throttle | None = None
        self._config = server.node.dynamic_config

    @property
    def principal(self) -> Principal:
        """Who the client is."""
        return self._access.principal

    def authenticated(self, principal: Principal, *, via_token: bool = False) -> None:
        """The client is known now; `via_token`: it logged in with a delegation token."""
        authorization = self._server.node.authorization
        self._access = authorization.access(principal, self._client_host, via_token=via_token)

    @property
    def largest_request(self) -> int:
        """`socket.request.max.bytes`."""
        return self._config.current.socket_request_max_bytes

    now = staticmethod(perf_counter)

    def handle(self, header: RequestHeader, frame: memoryview) -> Answer:
        """Call the handler of the API."""
        key, version = header.api_key, header.api_version
        endpoint = ENDPOINTS.get(key)
        if endpoint is None or not endpoint.first <= version <= endpoint.last:
            if key != _API_VERSIONS:
                raise UnanswerableError(f"api key {key} version {version} is not supported")
            endpoint = ENDPOINTS[_API_VERSIONS]
        if len(frame) > LARGEST_WITHOUT_RECORDS and key != _PRODUCE:
            raise UnanswerableError(f"{endpoint.name} request of {len(frame)} bytes is too large")
        request = Request(
            self._server.node,
            key,
            version,
            header.correlation_id,
            header.client_id,
            self._client_host,
            self._listener,
            self._connection_id,
            self._access,
        )
        if not self._quotas.is_empty or self._throttle is not None:
            return self._within_quotas(endpoint, request, frame, header.body_at)
        try:  # as _call: the usual request is spared a call
            outcome = endpoint.handle(request, frame, header.body_at)
        except DecodeError as problem:
            raise UnanswerableError(f"malformed {endpoint.name} v{version}: {problem}") from None
        if outcome is None or type(outcome) is tuple or isinstance(outcome, _NOT_A_TASK):
            return outcome
        return self._start_task(outcome)

    def _call(self, endpoint: Endpoint, request: Request, frame: memoryview, at: int) -> Answer:
        try:
            outcome = endpoint.handle(request, frame, at)
        except DecodeError as problem:
            raise UnanswerableError(
                f"malformed {endpoint.name} v{request.version}: {problem}"
            ) from None
        if outcome is None or type(outcome) is tuple or isinstance(outcome, _NOT_A_TASK):
            return outcome
        return self._start_task(outcome)

    def _within_quotas(
        self, endpoint: Endpoint, request: Request, frame: memoryview, at: int
    ) -> Answer:
        """Handle a request when its client may go on, and charge it."""
        throttle = self._throttle
        if throttle is None:
            throttle = self._throttle = Throttle(self._quotas)
        wait = throttle.until - perf_counter()
        if wait > 0:
            held = memoryview(bytearray(frame))  # the receive buffer does not wait for anybody
            return self._start_task(self._handle_later(wait, endpoint, request, held, at))
        if self._quotas.is_empty:
            self._throttle = None
            return self._call(endpoint, request, frame, at)
        return self._charged(throttle, endpoint, request, frame, at)

    def _charged(
        self, throttle: Throttle, endpoint: Endpoint, request: Request, frame: memoryview, at: int
    ) -> Answer:
        refused = throttle.refused_fetch(request, frame, at)
        if refused is not None:
            return refused
        size, started = len(frame), perf_counter()
        answer = self._call(endpoint, request, frame, at)
        took = perf_counter() - started
        if isinstance(answer, Later):
            return throttle.charge_later(request, size, took, answer)
        return throttle.charge(request, size, took, answer)

    async def _handle_later(
        self, wait: float, endpoint: Endpoint, request: Request, frame: memoryview, at: int
    ) -> Parts | None:
        """A muted connection: its next request is handled when the throttle time is over."""
        await asyncio.sleep(wait)
        answer = self._within_quotas(endpoint, request, frame, at)
        return await settled(answer) if isinstance(answer, Later) else answer

    def answered(self, api_key: int, started: float, size: int) -> None:
        """Count a request that is answered, and how long it took."""
        self._count(api_key, perf_counter() - started, size)

    def _start_task(self, work: Coroutine[Any, Any, Parts | None]) -> Later[Parts | None]:
        later: Later[Parts | None] = Later(by_task=True)

        def finish(done: asyncio.Task[Parts | None]) -> None:
            problem = asyncio.CancelledError() if done.cancelled() else done.exception()
            if problem is None:
                later.complete(done.result())
            else:
                later.fail(problem)  # whatever it is: a native library may raise BaseException

        self._server.start_task(work).add_done_callback(finish)
        return later
