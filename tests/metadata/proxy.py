"""A TCP proxy whose connections can be cut, stalled, and kept from bringing answers back."""

import asyncio
from typing import Self


class Proxy:
    """Forwards a local port to another; `async with` it."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._answers = asyncio.Event()
        self._answers.set()
        self.port = 0
        self.first_answer_after = 0.0
        """Seconds that the first answer of each connection takes."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port or None)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.refuse()

    async def refuse(self) -> None:
        """Cut all connections and take no new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    async def accept(self) -> None:
        """Take connections again, at the same port."""
        self._answers.set()
        await self.__aenter__()

    def cut(self) -> None:
        """Cut all connections; what was not delivered is lost."""
        for writer in self._writers:
            writer.transport.abort()

    @property
    def has_connections(self) -> bool:
        """Whether a client is connected."""
        return bool(self._writers)

    def hold_answers(self) -> None:
        """Let requests through, but no answers."""
        self._answers.clear()

    def let_answers_through(self) -> None:
        """End `hold_answers`; what was held comes now."""
        self._answers.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, back}
        try:
            await asyncio.gather(
                self._pump(reader, back, None), self._pump(there, writer, self._answers)
            )
        finally:
            self._writers -= {writer, back}

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        gate: asyncio.Event | None,
    ) -> None:
        try:
            slow = self.first_answer_after if gate is not None else 0.0
            while chunk := await reader.read(65_536):
                if slow:
                    await asyncio.sleep(slow)
                    slow = 0.0
                if gate is not None:
                    await gate.wait()
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
