"""A broker's registration and its session: who is registered in no session has no place."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from ottla.broker.metadata.broker_lifecycle import REJOIN_SECONDS
from ottla.broker.metadata.producer_id_manager import ProducerIdManager
from ottla.metadata import documents
from ottla.metadata.clock import boottime
from ottla.metadata.store import Conflict, Op, Registration, SessionFacts, StoreError, Update
from ottla.metadata.stores.sqlite_store import SqliteStore
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running


def test_a_session_that_ends_while_it_is_joined_again_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the registration may come after the news of the session's end."""

    async def live() -> None:
        async with running(tmp_path) as node:
            register = SqliteStore.register
            registered: list[int] = []

            async def end_meanwhile(store: SqliteStore, key: str, value: bytes) -> Registration:
                registration = await register(store, key, value)
                registered.append(registration.epoch)
                if len(registered) == 1:
                    node.lifecycle.session_ended("the loop hung")
                return registration

            monkeypatch.setattr(SqliteStore, "register", end_meanwhile)
            monkeypatch.setattr(
                SqliteStore, "session_facts", lambda _: SessionFacts(60.0, boottime())
            )
            monkeypatch.setattr("ottla.broker.metadata.broker_lifecycle.REJOIN_SECONDS", 0.0)
            node.lifecycle.session_ended("silence")
            await until(lambda: node.state.epoch >= 0)
            assert len(registered) == 2
            assert node.state.epoch == registered[-1]
            await until(lambda: node.image.brokers[node.id].epoch == registered[-1])

    asyncio.run(live())


@pytest.fixture
def conflicts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Registrations that are refused from now on because the id is taken."""
    refused: list[str] = []

    async def refuse(_: SqliteStore, key: str, __: bytes) -> Registration:
        refused.append(key)
        raise Conflict(key)

    monkeypatch.setattr(SqliteStore, "session_facts", lambda _: SessionFacts(0.01, boottime()))
    monkeypatch.setattr("ottla.broker.metadata.broker_lifecycle.JOIN_AGAIN_SECONDS", 0.3)
    monkeypatch.setattr("ottla.broker.metadata.broker_lifecycle.REJOIN_SECONDS", 0.0)
    register = SqliteStore.register

    async def first_as_it_is(store: SqliteStore, key: str, value: bytes) -> Registration:
        monkeypatch.setattr(SqliteStore, "register", refuse)
        return await register(store, key, value)

    monkeypatch.setattr(SqliteStore, "register", first_as_it_is)
    return refused


@pytest.mark.parametrize("is_own", [True, False])
def test_a_broker_whose_id_another_one_has_ends(
    tmp_path: Path, conflicts: list[str], is_own: bool
) -> None:
    """What is left of its own session goes by itself, and is waited for."""

    async def live() -> None:
        async with running(tmp_path) as node:
            ended: list[str] = []
            node.lifecycle.on_end = ended.append
            mine = node.image.brokers[node.id]
            node.lifecycle.session_ended("silence")
            await until(lambda: conflicts)
            life = mine.epoch if is_own else mine.epoch + 1
            node.image.brokers[node.id] = msgspec.structs.replace(mine, epoch=life)
            if is_own:
                await until(lambda: len(conflicts) > 7)
                assert not ended
            else:
                await until(lambda: ended)
                # It does not try for ever.
                await until(lambda: node.lifecycle._rejoining is None)
                assert node.state.fenced
                assert f"another broker is registered with id {node.id}" in ended[0]

    asyncio.run(live())


def test_a_broker_that_fails_to_register_for_an_unknown_reason_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would have no role and never get one again."""

    async def fail(*_: object) -> None:
        raise KeyError("unforeseen")

    async def live() -> None:
        async with running(tmp_path) as node:
            ended: list[str] = []
            node.lifecycle.on_end = ended.append
            monkeypatch.setattr(
                SqliteStore, "session_facts", lambda _: SessionFacts(60.0, boottime())
            )
            monkeypatch.setattr(node.metadata, "renew", fail)
            node.lifecycle.session_ended("silence")
            await until(lambda: ended)
            assert "unforeseen" in ended[0]
            assert node.state.fenced

    asyncio.run(live())


def test_a_lease_ends_with_its_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However recent its last answer is: another session has a lease of its own."""
    monkeypatch.setattr(SqliteStore, "session_facts", lambda _: SessionFacts(60.0, boottime()))

    async def live() -> None:
        async with running(tmp_path) as node:
            first = node.state.lease
            assert first is not None
            assert first.held(boottime())
            changes = node.metadata.version
            node.lifecycle.session_ended("silence")
            assert not first.held(boottime())
            assert node.metadata.version > changes
            await until(lambda: node.state.lease is not first)
            assert node.state.lease is not None
            assert node.state.lease.held(boottime())

    asyncio.run(live())


@pytest.mark.parametrize("is_cut_off", [True, False])
def test_clients_are_sent_away_at_once_where_the_store_is_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_cut_off: bool
) -> None:
    monkeypatch.setattr(SqliteStore, "session_facts", lambda _: SessionFacts(60.0, boottime()))

    async def live() -> None:
        async with running(tmp_path) as node:
            told: list[bool] = []
            monkeypatch.setattr(node.lifecycle, "on_fenced", lambda: told.append(node.state.fenced))
            node.lifecycle.session_ended("silence", is_cut_off=is_cut_off)
            assert told == [True] * is_cut_off
            assert node.state.fenced is is_cut_off
            await until(lambda: node.state.epoch >= 0 and not node.state.fenced)

    asyncio.run(live())


def test_a_broker_in_a_cluster_has_producer_ids_before_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteStore, "session_facts", lambda _: SessionFacts(60.0, boottime()))
    prepared: list[ProducerIdManager] = []
    prepare = ProducerIdManager.prepare

    def note(ids: ProducerIdManager) -> None:
        prepared.append(ids)
        prepare(ids)

    monkeypatch.setattr(ProducerIdManager, "prepare", note)

    async def live() -> None:
        async with running(tmp_path) as node:
            assert prepared == [node.producer_ids]

    asyncio.run(live())


def test_a_broker_that_stops_says_so_and_waits_until_others_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is of the registration as it was made: another one is another broker's."""
    changes: list[Op] = []
    left = [["t-0"], ["t-0"], []]
    lifecycle = "ottla.broker.metadata.broker_lifecycle"
    monkeypatch.setattr(f"{lifecycle}.LOOK_AGAIN_SECONDS", 0.0)

    async def live() -> None:
        async with running(tmp_path) as node:

            async def note(ops: Sequence[Op]) -> None:
                changes.extend(ops)

            monkeypatch.setattr(node.metadata, "commit", note)
            await node.lifecycle.hand_over()
            assert not changes, "alone in its cluster it has nobody to give its leaders to"
            mine = node.image.brokers[node.id]
            node.image.brokers[node.id + 1] = msgspec.structs.replace(mine, id=node.id + 1)
            monkeypatch.setattr(f"{lifecycle}.remaining", lambda *_: left.pop(0))
            await node.lifecycle.hand_over()
            assert not left
            (change,) = changes
            assert isinstance(change, Update)
            assert (change.key, change.version) == (documents.broker_key(node.id), 0)
            document = documents.decode(change.value, documents.BrokerRegistration)
            assert document.shutting_down
            assert document.id == node.id
            del node.image.brokers[node.id + 1]

    asyncio.run(live())


def test_a_broker_registers_without_saying_that_it_stops(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            assert not node.image.brokers[node.id].shutting_down

    asyncio.run(live())


def test_a_broker_rests_between_attempts_to_register_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And gives each attempt more time than the last, up to a limit."""
    patiences: list[float] = []
    rests: list[float] = []
    sleep = asyncio.sleep

    async def rest(seconds: float) -> None:
        if seconds == REJOIN_SECONDS:
            rests.append(seconds)
            seconds = 0.0
        await sleep(seconds)

    async def live() -> None:
        async with running(tmp_path) as node:
            renew = node.metadata.renew

            async def fail_often(patience: float) -> None:
                patiences.append(patience)
                if len(patiences) < 7:
                    raise StoreError("no answer")
                await renew(patience)

            monkeypatch.setattr(
                SqliteStore, "session_facts", lambda _: SessionFacts(60.0, boottime())
            )
            monkeypatch.setattr(node.metadata, "renew", fail_often)
            monkeypatch.setattr(asyncio, "sleep", rest)
            node.lifecycle.session_ended("silence")
            await until(lambda: node.state.epoch >= 0)
            assert patiences == [1.0, 2.0, 4.0, 8.0, 16.0, 16.0, 16.0]
            assert len(rests) == 6

    asyncio.run(live())
