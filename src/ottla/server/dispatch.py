"""From a frame to the handler of its API, for one connection.

Rules kept here:
1. An API that is not served, or not in this version, closes the connection, as in Kafka; only
   ApiVersions answers every version, so that a newer client can find out what is spoken here.
2. A large request that carries no records is not decoded: decoding makes objects, which take far
   more memory than the bytes they come from.
3. A coroutine becomes a task of the server, which ends it when the broker stops.
4. Who is over a quota is muted once its reply is queued. Clients that are not authenticated yet
   are not charged: they would use up what others need to log in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from ottla.api.registry import ENDPOINTS, Endpoint, Request
from ottla.later import Later
from ottla.security.hosts import host_text
from ottla.security.principal import ANONYMOUS, Principal
from ottla.server.interfaces import Answer
from ottla.server.large_frames import LARGEST_WITHOUT_RECORDS
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
        "_knows_client",
        "_listener",
        "_mute",
        "_quotas",
        "_server",
        "_throttle",
    )

    def __init__(
        self,
        server: Server,
        client_host: str,
        listener: str,
        number: int,
        mute: Callable[[], Later[Parts | None]],
        *,
        knows_client: bool = True,
    ) -> None:
        """`mute` lets nothing more be handled until what it returns is completed."""
        self._server = server
        self._mute = mute
        self._knows_client = knows_client
        self._client_host = host_text(client_host)
        self._listener = listener
        self._connection_id = number
        self._count: Callable[[int, float, int], None] = server.metrics.answered
        self._access = server.node.authorization.access(ANONYMOUS, self._client_host)
        self._quotas = server.node.quotas
        self._throttle: Throttle | None = None
        self._config = server.node.dynamic_config

    @property
    def principal(self) -> Principal:
        """Who the client is."""
        return self._access.principal

    def authenticated(self, principal: Principal, *, via_token: bool = False) -> None:
        """The client is known now; `via_token`: it logged in with a delegation token."""
        self._knows_client = True
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
        """Handle a request, and charge it."""
        if self._quotas.is_empty or not self._knows_client:
            self._throttle = None
            self._count = self._server.metrics.answered
            return self._call(endpoint, request, frame, at)
        throttle = self._throttle
        if throttle is None:
            throttle = self._throttle = Throttle(self._quotas)
            self._count = self._count_and_mute
        refused = throttle.refused_fetch(request, frame, at)
        if refused is not None:
            return refused
        size, started = len(frame), perf_counter()
        answer = self._call(endpoint, request, frame, at)
        took = perf_counter() - started
        if isinstance(answer, Later):
            return throttle.charge_later(request, size, took, answer)
        return throttle.charge(request, size, took, answer)

    def _count_and_mute(self, api_key: int, seconds: float, size: int) -> None:
        self._server.metrics.answered(api_key, seconds, size)
        throttle = self._throttle
        if throttle is not None and throttle.until > perf_counter() and not throttle.mutes:
            throttle.mutes = True
            self._unmute_later(throttle, self._mute())

    def _unmute_later(self, throttle: Throttle, muted: Later[Parts | None]) -> None:
        """Let the client go on when its time is over, which may have become longer meanwhile."""
        wait = throttle.until - perf_counter()
        if wait > 0:
            timer = self._server.loop.call_later(wait, self._unmute_later, throttle, muted)
            muted.when_abandoned(timer.cancel)
        else:
            throttle.mutes = False
            muted.complete(None)

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
