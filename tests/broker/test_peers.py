"""Questions to other brokers: none waits for another one, nor for a broker that has gone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from compat.waiting import until_on_loop as until
from ottla.broker.node import Node
from ottla.broker.replication.link import LinkError
from ottla.cluster import documents
from ottla.cluster.store import Create, Delete
from ottla.wire import codec
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.broker.nodes import running
from tests.broker.test_link import answer, asked

OTHER = 99
VERSION = 3
SECONDS = 10.0


class Silent:
    """A broker that answers when it is told to, and counts its connections."""

    def __init__(self) -> None:
        self.asked = 0
        self.connections = 0
        self._answers = asyncio.Event()

    def answer(self) -> None:
        self._answers.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                number = await asked(reader)
                self.asked += 1
                await self._answers.wait()
                writer.write(answer(number, codec.encode(EndTxnResponse(), VERSION)))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def beside_another(folder: Path) -> AsyncIterator[tuple[Node, Silent]]:
    silent = Silent()
    server = await asyncio.start_server(silent.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    endpoint = documents.Endpoint("PLAINTEXT", host, port, "PLAINTEXT")
    value = documents.encode(documents.Broker(OTHER, [endpoint], None, False))
    async with running(folder) as node:
        await node.store.commit([Create(documents.broker_key(OTHER), value)])
        await node.caught_up()
        try:
            yield node, silent
        finally:
            server.close()


def ask(node: Node) -> asyncio.Task[EndTxnResponse]:
    question = EndTxnRequest(transactional_id="t")
    asking = node.peers.ask(OTHER, question, EndTxnResponse, VERSION)
    return asyncio.get_running_loop().create_task(asking)


def test_a_question_does_not_wait_for_one_that_is_not_answered(tmp_path: Path) -> None:
    async def live() -> None:
        async with beside_another(tmp_path) as (node, silent):
            questions = [ask(node), ask(node), ask(node)]
            await until(lambda: silent.asked == 3)
            silent.answer()
            for question in questions:
                assert (await question).error_code == 0
            assert (await ask(node)).error_code == 0
            assert silent.connections == 3

    asyncio.run(live())


def test_questions_of_one_kind_leave_room_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.broker.replication.peers.LINKS", 1)

    async def live() -> None:
        async with beside_another(tmp_path) as (node, silent):
            first, second = ask(node), ask(node)
            other = asyncio.get_running_loop().create_task(
                node.peers.ask(OTHER, ListGroupsRequest(), ListGroupsResponse, VERSION)
            )
            await until(lambda: silent.asked == 2)
            silent.answer()
            assert (await first).error_code == (await second).error_code == 0
            other.cancel()
            assert silent.asked == 3

    asyncio.run(live())


def test_nobody_waits_for_an_answer_of_a_broker_that_has_gone(tmp_path: Path) -> None:
    async def live() -> None:
        async with beside_another(tmp_path) as (node, silent):
            question = ask(node)
            await until(lambda: silent.asked == 1)
            await node.store.commit([Delete(documents.broker_key(OTHER))])
            async with asyncio.timeout(SECONDS):
                with pytest.raises(LinkError):
                    await question

    asyncio.run(live())
