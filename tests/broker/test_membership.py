"""A broker's registration and its session: who is registered in no session has no place."""

import asyncio
from pathlib import Path

import pytest

from compat.waiting import until_on_loop as until
from ottla.cluster.clock import boottime
from ottla.cluster.sqlite_store import SqliteStore
from ottla.cluster.store import Registration, SessionFacts
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
                    node.membership.session_ended("the loop hung")
                return registration

            monkeypatch.setattr(SqliteStore, "register", end_meanwhile)
            monkeypatch.setattr(
                SqliteStore, "session_facts", lambda _: SessionFacts(60.0, boottime())
            )
            monkeypatch.setattr("ottla.broker.membership.REJOIN_SECONDS", 0.0)
            node.membership.session_ended("silence")
            await until(lambda: node.membership.epoch >= 0)
            assert len(registered) == 2
            assert node.membership.epoch == registered[-1]
            await until(lambda: node.image.brokers[node.id].epoch == registered[-1])

    asyncio.run(live())
