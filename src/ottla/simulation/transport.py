"""asyncio's transports over the simulated network, for the connections that brokers and clients
open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final

from ottla.simulation.network import BytesChunk, Endpoint, Network

LARGEST_WRITE: Final = 64 << 10


class SimulatedTransport(asyncio.Transport):
    """One end of a connection, as a protocol sees it."""

    def __init__(self, endpoint: Endpoint, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._end = endpoint
        self._protocol = protocol
        self._unsent = bytearray()
        self._closing = False
        self._lost = False
        endpoint.context = copy_context()
        endpoint.on_arrival = self._arrival

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        end = self._end
        # Like a kernel with room for all of it: its own senders wait for answers anyhow.
        for start in range(0, len(data), LARGEST_WRITE):
            end.send_chunk(BytesChunk(bytes(data[start : start + LARGEST_WRITE])))

    def _arrival(self) -> None:
        end = self._end
        if self._lost:
            return
        if end.broken:
            self._lose(ConnectionResetError("Connection reset by peer"))
            return
        if self._closing:
            return
        while end.arrived and not self._closing:
            self._deliver(end)
        if end.ended and not end.arrived and not self._closing:
            self._lose(None)

    def _deliver(self, end: Endpoint) -> None:
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer = memoryview(protocol.get_buffer(-1))
            count = min(len(buffer), len(end.arrived))
            buffer[:count] = end.arrived[:count]
            del end.arrived[:count]
            end.was_read(count)
            protocol.buffer_updated(count)
        else:
            assert isinstance(protocol, asyncio.Protocol)
            data = bytes(end.arrived)
            end.arrived.clear()
            end.was_read(len(data))
            protocol.data_received(data)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._end.close()
            self._end.network.loop.call_soon(self._lose, None)

    def abort(self) -> None:
        self.close()

    def _lose(self, problem: Exception | None) -> None:
        if not self._lost:
            self._lost = self._closing = True
            self._end.close()
            self._protocol.connection_lost(problem)


async def create_connection(
    network: Network, factory: Callable[[], asyncio.BaseProtocol], port: int
) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
    """Connect the running process to a port."""
    endpoint = await network.connect(port)
    protocol = factory()
    transport = SimulatedTransport(endpoint, protocol)
    protocol.connection_made(transport)
    return transport, protocol
