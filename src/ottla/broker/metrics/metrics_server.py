"""A small HTTP server for /metrics and /healthz: one request a connection.

Rules kept here:
1. A client has a few seconds for all it does, also for taking the answer; then it is cut off. What
   it can make us hold ends with it.
2. However many ask at once, the metrics are written out once, for all of them.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.broker.metrics.counters import NetworkMetrics
from ottla.broker.metrics.exposition import CONTENT_TYPE, exposition
from ottla.broker.metrics.sources import MetricsSource

SECONDS_FOR_A_REQUEST: Final = 5.0
LONGEST_REQUEST: Final = 8 << 10
MOST_CLIENTS: Final = 20
SENT_IN_ONE_TURN: Final = 64 << 10


class MetricsServer:
    """Serves one node's metrics and health."""

    def __init__(self, node: MetricsSource, network: NetworkMetrics) -> None:
        self._node = node
        self._network = network
        self._server: asyncio.Server | None = None
        self._clients = 0
        self._writing_out: asyncio.Task[bytes] | None = None
        self.port = -1

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one. Raises OSError."""
        self._server = await asyncio.start_server(
            self._on_client, host, port, limit=LONGEST_REQUEST
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._clients >= MOST_CLIENTS:
            writer.transport.abort()
            return
        self._clients += 1
        # Draining then means that the answer has left, so that closing waits for nobody.
        writer.transport.set_write_buffer_limits(0)
        try:
            async with asyncio.timeout(SECONDS_FOR_A_REQUEST):
                head = await reader.readuntil(b"\r\n\r\n")
                status, kind, body = await self._answer(head.split(b"\r\n", 1)[0])
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                )
                if not head.startswith(b"HEAD "):
                    view = memoryview(body)
                    for start in range(0, len(view), SENT_IN_ONE_TURN):
                        writer.write(view[start : start + SENT_IN_ONE_TURN])
                        await writer.drain()
                        await asyncio.sleep(0)  # draining gives way only where the socket is full
                await writer.drain()
            writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._clients -= 1
            if not writer.is_closing():
                writer.transport.abort()

    async def _answer(self, request_line: bytes) -> tuple[str, str, bytes]:
        words = request_line.split()
        if len(words) < 2 or words[0] not in (b"GET", b"HEAD"):
            return "405 Method Not Allowed", "text/plain", b"only GET\n"
        path = words[1].split(b"?", 1)[0]
        if path == b"/metrics":
            return "200 OK", CONTENT_TYPE, await self._metrics()
        if path == b"/healthz":
            if self._node.ready:
                return "200 OK", "text/plain", b"ok\n"
            return "503 Service Unavailable", "text/plain", b"starting or stopping\n"
        return "404 Not Found", "text/plain", b"try /metrics or /healthz\n"

    async def _metrics(self) -> bytes:
        if self._writing_out is None or self._writing_out.done():
            work = exposition(self._node, self._network)
            self._writing_out = asyncio.get_running_loop().create_task(work)
        return await asyncio.shield(self._writing_out)
