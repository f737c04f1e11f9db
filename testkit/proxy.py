"""TCP ports in front of others, whose network can be cut: `Gates` run in a thread of their own.

Rules kept here:
1. An open gate passes bytes as they come. A refusing one has reset all its connections, and resets
   new ones. A silent one passes nothing and says nothing, as a cable that was pulled.
2. What a silent gate holds is delivered when it opens, as TCP would; unless the side that sent it
   has given up meanwhile: then the connection ends, and nothing of it arrives late.
"""

import asyncio
import socket
import threading
from concurrent.futures import Future
from enum import Enum
from struct import pack
from typing import Self

CHUNK = 65_536
MOST_HELD = 4 << 20
LOOK_AGAIN_SECONDS = 0.05
PATIENCE_SECONDS = 10.0
NO_LINGER = pack("ii", 1, 0)


class Mode(Enum):
    """What a gate does with bytes."""

    OPEN = "open"
    SILENT = "silent"
    REFUSING = "refusing"


class Gate:
    """A port of this machine that leads to another."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.port = 0
        self.target = 0
        self._loop = loop
        self._mode = Mode.OPEN
        self._opened = asyncio.Event()
        self._opened.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        """Take connections, at a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=CHUNK)
        self.port = self._server.sockets[0].getsockname()[1]

    def set(self, mode: Mode) -> None:
        """Change what happens to bytes; done when this returns. For other threads."""
        done: Future[None] = Future()

        def change() -> None:
            self._change(mode)
            done.set_result(None)

        self._loop.call_soon_threadsafe(change)
        done.result(PATIENCE_SECONDS)

    def _change(self, mode: Mode) -> None:
        self._mode = mode
        if mode is Mode.REFUSING:
            for writer in self._writers:
                _reset(writer)
        if mode is Mode.SILENT:
            self._opened.clear()
        else:
            self._opened.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        back: asyncio.StreamWriter | None = None
        try:
            await self._opened.wait()
            if self._mode is Mode.REFUSING or writer.is_closing():
                _reset(writer)
                return
            there, back = await asyncio.open_connection("127.0.0.1", self.target, limit=CHUNK)
            self._writers.add(back)
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        except (OSError, asyncio.CancelledError):  # cancelled only when all gates close
            pass
        finally:
            for one in (writer, back):
                if one is not None:
                    self._writers.discard(one)
                    one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            writer.write(chunk if self._opened.is_set() else await self._held(chunk, reader))
            await writer.drain()
        await self._opened.wait()
        if writer.can_write_eof():
            writer.write_eof()

    async def _held(self, first: bytes, reader: asyncio.StreamReader) -> bytes:
        """What has come when the gate opens; raises ConnectionResetError if the sender gave up."""
        held = bytearray(first)
        while not self._opened.is_set():
            if len(held) >= MOST_HELD:
                await self._opened.wait()
                break
            try:
                async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                    chunk = await reader.read(CHUNK)
            except TimeoutError:
                continue
            if not chunk:
                raise ConnectionResetError
            held += chunk
        return bytes(held)

    def close(self) -> None:
        """Take no more connections, and end those there are."""
        if self._server is not None:
            self._server.close()
        self._change(Mode.REFUSING)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as a firewall would: the other side sees an error, not an end."""
    if not writer.is_closing():
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        writer.transport.abort()


class Gates:
    """All gates of a cluster; `with` it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gates", daemon=True)
        self._gates: list[Gate] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(PATIENCE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()

    async def _close(self) -> None:
        for gate in self._gates:
            gate.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def gate(self, target: int = 0) -> Gate:
        """A new gate to a port, which may be set later."""
        gate = Gate(self._loop)
        gate.target = target
        asyncio.run_coroutine_threadsafe(gate.listen(), self._loop).result(PATIENCE_SECONDS)
        self._gates.append(gate)
        return gate
