"""Questions to other brokers: none waits for another one, nor for a broker that has gone."""

import asyncio
from pathlib import Path

import pytest

from ottla.broker.broker_server import BrokerServer
from ottla.broker.replication.link import LinkError
from ottla.metadata import documents
from ottla.metadata.store import Delete
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from testkit.waiting import stretched
from testkit.waiting import until_on_loop as until
from tests.broker.others import OTHER, beside_another

VERSION = 3
SECONDS = 10.0


def ask(node: BrokerServer) -> asyncio.Task[EndTxnResponse]:
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


def test_a_connection_that_was_closed_for_idleness_is_made_again(tmp_path: Path) -> None:
    async def live() -> None:
        async with beside_another(tmp_path) as (node, other):
            other.answer()
            assert (await ask(node)).error_code == 0
            (line,) = node.peers._peers[OTHER, EndTxnRequest.API_KEY].idle
            other.hang_up()
            await until(lambda: not line.link.is_open)
            assert (await ask(node)).error_code == 0
            assert other.connections == 2

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
            await node.metadata.store.commit([Delete(documents.broker_key(OTHER))])
            async with asyncio.timeout(stretched(SECONDS)):
                with pytest.raises(LinkError):
                    await question

    asyncio.run(live())
