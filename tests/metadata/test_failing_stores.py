"""What nobody expected happens inside a store: it ends its session, or continues. It never
hangs."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest
from structlog.testing import capture_logs

from ottla.metadata.store import Put, UnknownOutcome
from ottla.metadata.stores.sqlite_store import SqliteStore
from ottla.metadata.stores.zookeeper_store import ZooKeeperStore
from testkit.zookeeper_servers import Ensemble

from .stores import ZooKeeperBacking, on_a_loop

_names = count()


class UnexpectedError(Exception):
    """What nobody expects there."""


@pytest.fixture
def backing(zookeeper: Ensemble) -> ZooKeeperBacking:
    return ZooKeeperBacking(zookeeper.address(f"/failing/{next(_names)}"))


class Call(Protocol):
    async def __call__(self, *args: Any) -> Any: ...


def failing_once(real: Call) -> Call:
    left = [UnexpectedError("injected")]

    async def call(*args: Any) -> Any:
        if left:
            raise left.pop()
        return await real(*args)

    return call


async def ended(store: ZooKeeperStore) -> str:
    """Why the session has ended, once it has."""
    reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    store.on_session_end(reason.set_result)
    return await reason


@on_a_loop
async def test_changes_that_can_no_longer_be_followed_end_the_session(
    backing: ZooKeeperBacking, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = await backing.open("one"), await backing.open("other")
    assert isinstance(store, ZooKeeperStore)
    follower = store._follower
    monkeypatch.setattr(follower, "_take_what_is_new", failing_once(follower._take_what_is_new))
    with capture_logs() as logged:
        why = asyncio.ensure_future(ended(store))
        await other.commit([Put("a", b"")])
        assert "can no longer read metadata changes: UnexpectedError" in await why
    assert any(line.get("exc_info") for line in logged)
    await store.close()
    await other.close()


@on_a_loop
async def test_heartbeats_that_can_no_longer_be_sent_end_the_session(
    backing: ZooKeeperBacking, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await backing.open("one", short_session=True)
    assert isinstance(store, ZooKeeperStore)

    request = store._session._request

    def fail(method: str, *args: object) -> Any:
        if method == "set":
            raise UnexpectedError("injected")
        return request(method, *args)

    monkeypatch.setattr(store._session, "_request", fail)
    with capture_logs() as logged:
        assert "heartbeats failed: UnexpectedError" in await ended(store)
    assert any(line.get("exc_info") for line in logged)
    monkeypatch.undo()
    await store.close()


@on_a_loop
async def test_a_commit_that_fails_unexpectedly_does_not_stop_the_next(
    backing: ZooKeeperBacking, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await backing.open("one")
    assert isinstance(store, ZooKeeperStore)
    monkeypatch.setattr(store, "_commit_together", failing_once(store._commit_together))
    with capture_logs():
        first = asyncio.ensure_future(store.commit([Put("a", b"")]))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(store.commit([Put("b", b"")]))
        with pytest.raises(UnknownOutcome, match="injected"):
            await first
        await second
    assert await store.read("a") is None
    assert await store.read("b") is not None
    await store.close()


@on_a_loop
async def test_a_poll_that_fails_unexpectedly_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of the store continues: every later call waits for it."""
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: told.append(report))
    store = await SqliteStore.open(tmp_path / "store", "one", poll_interval=0.005)
    other = await SqliteStore.open(tmp_path / "store", "other")
    seen = asyncio.Event()
    await store.watch(lambda _: seen.set())
    left = [UnexpectedError("injected")]
    changed_elsewhere = store._database.changed_elsewhere

    def fail_once() -> bool:
        changed = changed_elsewhere()
        if changed and left:
            raise left.pop()
        return changed

    monkeypatch.setattr(store._database, "changed_elsewhere", fail_once)
    await other.commit([Put("a", b"")])
    await seen.wait()
    assert not left
    assert [type(report["exception"]) for report in told] == [UnexpectedError]
    assert await store.read("a") is not None
    await store.close()
    await other.close()
