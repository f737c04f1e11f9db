"""A node beside another broker, which is only a socket that does not say much."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from ottla.broker.broker_server import BrokerServer
from ottla.metadata import documents
from ottla.metadata.store import Create
from ottla.wire import codec
from ottla.wire.messages.end_txn import EndTxnResponse
from tests.broker.nodes import running
from tests.broker.test_link import answer, asked

OTHER = 99
VERSION = 3


class Silent:
    """A broker that answers on demand, and counts its connections."""

    def __init__(self) -> None:
        self.asked = 0
        self.connections = 0
        self._answers = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    def answer(self) -> None:
        self._answers.set()

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while True:
                number = await asked(reader)
                self.asked += 1
                await self._answers.wait()
                writer.write(answer(number, codec.encode(EndTxnResponse(), VERSION)))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def beside_another(
    folder: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[BrokerServer, Silent]]:
    silent = Silent()
    server = await asyncio.start_server(silent.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    endpoint = documents.BrokerEndpoint("PLAINTEXT", host, port, "PLAINTEXT")
    value = documents.encode(documents.BrokerRegistration(OTHER, [endpoint], None, False))
    async with running(folder, settings) as node:
        await node.metadata.store.commit([Create(documents.broker_key(OTHER), value)])
        await node.metadata.caught_up()
        try:
            yield node, silent
        finally:
            server.close()
