"""/metrics and /healthz over HTTP: Starlette and uvicorn inside the broker's event loop.

Imported only where a metrics port is set: the libraries cost start-up time.

Rules kept here:
1. A connection carries one request and has `SECONDS_FOR_A_CLIENT` for all of it, also for taking
   the response. Then it is aborted, and what it made us hold is freed.
2. Each path has its own allowance of requests; past it a client gets 503. Clients that have sent
   no request count for neither: where connections run out, the oldest silent one is closed.
   So /healthz answers whatever the clients of /metrics do.
3. However many scrape at once, the metrics are written out once, for all of them.
4. No access log, and no log line that a client can cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ottla.broker.metrics.counters import NetworkMetrics
from ottla.broker.metrics.exposition import CONTENT_TYPE, Memory, exposition
from ottla.broker.metrics.sources import MetricsSource

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

log = structlog.get_logger()

SECONDS_FOR_A_CLIENT: Final = 10.0
"""As long as Prometheus waits for a scrape unless configured otherwise."""
LONGEST_REQUEST: Final = 8 << 10
MOST_CONNECTIONS: Final = 100
MOST_SCRAPES: Final = 20
MOST_HEALTH_CHECKS: Final = 20
SENT_IN_ONE_TURN: Final = 64 << 10


class MetricsServer:
    """Serves one broker's metrics and health."""

    def __init__(self, node: MetricsSource, network: NetworkMetrics) -> None:
        self._node = node
        self._network = network
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._memory = Memory(network)
        self._writing_out: asyncio.Task[bytes] | None = None
        self.port = -1

    @property
    def connections(self) -> int:
        """Open connections of clients."""
        return len(self._state.connections)

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one. Raises OSError."""
        config = Config(
            self._application(),
            interface="asgi3",
            lifespan="off",
            ws="none",
            access_log=False,
            log_config=None,
            log_level="critical",  # bad requests are the client's business, errors are logged below
            proxy_headers=False,
            headers=[("connection", "close")],
            h11_max_incomplete_event_size=LONGEST_REQUEST,
        )
        config.load()
        self._state.default_headers = config.encoded_headers
        self._server = await asyncio.get_running_loop().create_server(
            partial(_Connection, config, self._state, {}), host, port
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self._memory.loop.start()

    async def stop(self) -> None:
        """Stop listening, and close the connections."""
        self._memory.loop.stop()
        if self._server is not None:
            self._server.close()
        for connection in list(self._state.connections):
            connection.transport.abort()

    def _application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/metrics", self._get_metrics, middleware=_allowance(MOST_SCRAPES)),
                Route("/healthz", self._get_health, middleware=_allowance(MOST_HEALTH_CHECKS)),
            ],
            exception_handlers={404: _not_found, 500: _failed},
        )

    async def _get_health(self, _: Request) -> Response:
        if self._node.ready:
            return PlainTextResponse("ok\n")
        return PlainTextResponse("starting or stopping\n", 503)

    async def _get_metrics(self, _: Request) -> Response:
        if self._writing_out is None or self._writing_out.done():
            work = exposition(self._node, self._network, self._memory)
            self._writing_out = asyncio.get_running_loop().create_task(work)
        body = await asyncio.shield(self._writing_out)
        return StreamingResponse(
            _pieces(body),
            headers={"content-length": str(len(body)), "content-type": CONTENT_TYPE},
        )


class _Connection(H11Protocol):
    """One client's connection: a deadline for all it does, and room made for the next one."""

    _deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(SECONDS_FOR_A_CLIENT, transport.abort)
        if len(self.connections) > MOST_CONNECTIONS:
            others = (each for each in self.connections if isinstance(each, _Connection))
            silent = [each for each in others if each.cycle is None]
            min(silent, key=lambda each: each._deadline.when()).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)


class _Allowance:
    """Limits the number of concurrent requests; the rest get 503."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._free = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._free == 0:
            await PlainTextResponse("too many clients\n", 503)(scope, receive, send)
            return
        self._free -= 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._free += 1


def _allowance(most: int) -> list[Middleware]:
    return [Middleware(_Allowance, most=most)]


async def _pieces(body: bytes) -> AsyncIterator[memoryview]:
    """The next piece is taken when the client has taken most of the one before."""
    view = memoryview(body)
    for start in range(0, len(view), SENT_IN_ONE_TURN):
        yield view[start : start + SENT_IN_ONE_TURN]
        await asyncio.sleep(0)  # sending gives way only where the socket is full


async def _not_found(_: Request, __: Exception) -> Response:
    return PlainTextResponse("try /metrics or /healthz\n", 404)


async def _failed(_: Request, problem: Exception) -> Response:
    log.error("metrics endpoint failed", error=repr(problem))
    return PlainTextResponse("internal error\n", 500)
