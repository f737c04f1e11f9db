"""What is particular to the ZooKeeper store: lost connections, sessions that end, and its sizes."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from kazoo.client import KazooClient  # type: ignore[import-untyped]  # it has no types

from ottla.metadata.clock import boottime
from ottla.metadata.store import (
    Create,
    Delete,
    HistoryLost,
    Op,
    Put,
    SessionEnded,
    StoreError,
    UnknownOutcome,
    Update,
)
from ottla.metadata.stores import zookeeper_session
from ottla.metadata.stores.zookeeper_address import ZooKeeperAddress, parse_address
from ottla.metadata.stores.zookeeper_client import drop_connection
from ottla.metadata.stores.zookeeper_mirror import Write
from ottla.metadata.stores.zookeeper_session import ConnectionLost, ZooKeeperSession
from ottla.metadata.stores.zookeeper_store import ZooKeeperStore
from testkit.waiting import until_on_loop as until
from testkit.zookeeper_servers import MAX_SESSION_TIMEOUT, Ensemble

from .proxy import Proxy
from .stores import SHORT_SESSION_TIMEOUT, Watcher, ZooKeeperBacking, on_a_loop

_numbers = count()
CONNECT_SECONDS = 120.0
"""Busy machines take long to connect; no test here waits for the end of it."""


@pytest.fixture
def chroot() -> str:
    return f"/particular/{next(_numbers)}"


@pytest.fixture
def backing(zookeeper: Ensemble, chroot: str) -> ZooKeeperBacking:
    return ZooKeeperBacking(zookeeper.address(chroot))


@pytest.fixture
def raw(zookeeper: Ensemble) -> Iterator[KazooClient]:
    """A client that writes past the store."""
    client = KazooClient(f"127.0.0.1:{zookeeper.servers[0].port}")
    client.start()
    yield client
    client.stop()
    client.close()


async def _open_through(
    chroot: str, *proxies: Proxy, session_timeout: float = 6.0, entries_kept: int = 1000
) -> ZooKeeperStore:
    hosts = tuple(("127.0.0.1", proxy.port) for proxy in proxies)
    return await ZooKeeperStore.open(
        ZooKeeperAddress(hosts, chroot),
        "proxied",
        session_timeout=session_timeout,
        connect_timeout=CONNECT_SECONDS,
        entries_kept=entries_kept,
    )


async def _complaint(address: str) -> str:
    with pytest.raises(StoreError) as raised:
        await ZooKeeperStore.open(parse_address(address), "one", connect_timeout=0.5)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@on_a_loop
async def test_an_unreachable_zookeeper_is_one_clear_line() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        text = await _complaint(f"zookeeper://127.0.0.1:{port}/x")
    assert f"127.0.0.1:{port} cannot be reached within 0.5 seconds" in text
    assert "refused" in text


@on_a_loop
async def test_a_zookeeper_that_says_nothing_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        text = await _complaint(f"zookeeper://127.0.0.1:{port}/x")
    assert f"127.0.0.1:{port} cannot be reached within 0.5 seconds" in text


@on_a_loop
async def test_servers_that_answer_slowly_are_reached(zookeeper: Ensemble, chroot: str) -> None:
    port = zookeeper.servers[0].port
    async with Proxy(port) as one, Proxy(port) as two, Proxy(port) as three:
        for each in (one, two, three):
            # An attempt of the first round has a third of the session's timeout for it.
            each.first_answer_after = 1.5
        store = await _open_through(chroot, one, two, three, session_timeout=3.0)
        await store.commit([Put("a", b"")])
        await store.close()


@on_a_loop
async def test_a_store_of_a_newer_version_is_refused(
    backing: ZooKeeperBacking, chroot: str, raw: KazooClient
) -> None:
    raw.ensure_path(f"{chroot}/ottla/v2")
    with pytest.raises(StoreError, match="newer version of Ottla"):
        await backing.open("one")


@on_a_loop
async def test_a_damaged_node_is_named(
    backing: ZooKeeperBacking, chroot: str, raw: KazooClient
) -> None:
    store = await backing.open("one")
    await store.commit([Create("a", b"")])
    await store.close()
    raw.set(f"{chroot}/ottla/v1/documents/0000000000", b"\x00junk")
    with pytest.raises(StoreError, match="documents/0000000000 is corrupt"):
        await backing.open("one")


@on_a_loop
async def test_nodes_that_were_written_by_hand_are_used(
    backing: ZooKeeperBacking, chroot: str, raw: KazooClient
) -> None:
    store = await backing.open("one")
    await store.commit([Create("a", b"")])
    raw.delete(f"{chroot}/ottla/v1/documents/0000000000")
    with pytest.raises(StoreError, match="a was changed concurrently"):
        await store.commit([Update("a", b"", 0)])
    await store.commit([Create("a", b"again")])
    await store.close()


@on_a_loop
async def test_a_commit_that_is_too_large_is_refused_and_others_are_not(
    backing: ZooKeeperBacking,
) -> None:
    store = await backing.open("one")
    incompressible = os.urandom(400_000)
    sizes: list[list[Op]] = [
        [Put("small", b"")],
        [Put("large", incompressible)],
        [Put("too large", incompressible * 3)],
        [Put("another", b"")],
    ]
    outcomes = await asyncio.gather(*map(store.commit, sizes), return_exceptions=True)
    assert isinstance(outcomes.pop(2), StoreError)
    assert outcomes == [[0], [0], [0]]
    assert [one.key for one in await store.scan("")] == ["another", "large", "small"]
    await store.close()


@on_a_loop
async def test_commits_that_wait_share_a_round_trip(backing: ZooKeeperBacking) -> None:
    store = await backing.open("one")
    ops: list[list[Op]] = [[Put(f"key/{number}", b"")] for number in range(500)]
    assert isinstance(store, ZooKeeperStore)
    await asyncio.gather(*map(store.commit, ops))
    assert store._follower.mirror.number < 10
    await store.close()


@on_a_loop
async def test_many_documents_share_nodes_and_large_ones_do_not(
    backing: ZooKeeperBacking, chroot: str, raw: KazooClient
) -> None:
    store = await backing.open("one")
    for topic in range(10):
        names = [f"topics/{topic}", *(f"partitions/{topic}/{index}" for index in range(63))]
        await store.commit([Create(name, b"x") for name in names])
    documents = f"{chroot}/ottla/v1/documents"
    assert len(raw.get_children(documents)) == 10
    await store.commit([Put("topics/3", os.urandom(20_000))])
    assert len(raw.get_children(documents)) == 11
    again = await backing.open("two")
    assert await again.scan("") == await store.scan("")
    await store.commit([Delete(one.key) for one in await store.scan("")])
    assert raw.get_children(documents) == []
    await store.close()
    await again.close()


@on_a_loop
async def test_old_entries_are_trimmed(zookeeper: Ensemble, chroot: str, raw: KazooClient) -> None:
    store = await ZooKeeperStore.open(
        parse_address(zookeeper.address(chroot)), "one", entries_kept=30
    )
    for number in range(200):
        await store.commit([Put("a", b"%d" % number)])
    await until(lambda: len(raw.get_children(f"{chroot}/ottla/v1/changes")) == 30)
    await store.close()


@on_a_loop
async def test_a_store_that_was_disconnected_for_long_announces_the_difference(
    zookeeper: Ensemble, backing: ZooKeeperBacking, chroot: str
) -> None:
    async with Proxy(zookeeper.servers[0].port) as proxy:
        away = await _open_through(chroot, proxy, session_timeout=20.0, entries_kept=10)
        other = await backing.open("other")
        await other.commit([Create(key, b"") for key in ("kept", "changed", "gone", "again")])
        watcher = Watcher()
        await watcher.watch(away)
        await proxy.refuse()
        for number in range(20):
            await other.commit([Put("changed", b"%d" % number)])
        await other.commit([Delete("gone"), Delete("again")])
        await other.commit([Create("again", b"2"), Create("new", b"3")])
        await proxy.accept()
        await watcher.until(lambda: "new" in watcher.documents)
        told = [(one.key, one.value) for one in watcher.changes]
        assert told == [
            ("again", None),
            ("gone", None),
            ("again", b"2"),
            ("changed", b"19"),
            ("new", b"3"),
        ]
        assert sorted(watcher.documents.values()) == await other.scan("")
        await away.close()
        await other.close()


@on_a_loop
async def test_a_commit_whose_answer_is_lost_happens_once_and_is_acknowledged(
    zookeeper: Ensemble, backing: ZooKeeperBacking, chroot: str
) -> None:
    async with Proxy(zookeeper.servers[0].port) as proxy:
        store, other = await _open_through(chroot, proxy), await backing.open("other")
        here, there = Watcher(), Watcher()
        await here.watch(store)
        await there.watch(other)
        proxy.hold_answers()
        commits = [
            asyncio.create_task(store.commit([Put("counter", b"x")])),
            asyncio.create_task(store.commit([Put("counter", b"y")])),
        ]
        await there.until(lambda: "counter" in there.documents)
        proxy.cut()
        proxy.let_answers_through()
        assert await asyncio.gather(*commits) == [[0], [1]]
        assert [one.version for one in here.changes] == [0, 1]
        assert here.changes == there.changes
        await store.close()
        await other.close()


@on_a_loop
async def test_a_commit_whose_answer_is_lost_and_whose_entry_is_trimmed_is_no_conflict(
    zookeeper: Ensemble, backing: ZooKeeperBacking, chroot: str
) -> None:
    """It was made, and nothing is left that says so: its outcome is unknown."""
    async with Proxy(zookeeper.servers[0].port) as proxy:
        store = await _open_through(chroot, proxy, session_timeout=20.0, entries_kept=10)
        other = await backing.open("other")
        there = Watcher()
        await there.watch(other)
        proxy.hold_answers()
        commit = asyncio.create_task(store.commit([Create("made", b"")]))
        await there.until(lambda: "made" in there.documents)
        await proxy.refuse()
        for number in range(20):
            await other.commit([Put("changed", b"%d" % number)])
        await proxy.accept()
        with pytest.raises(UnknownOutcome):
            await commit
        assert await store.read("made") is not None
        assert await store.commit([Put("made", b"2")]) == [1], "the next one is made"
        await store.close()
        await other.close()


@on_a_loop
async def test_a_short_outage_costs_neither_commit_nor_registration(
    zookeeper: Ensemble, backing: ZooKeeperBacking, chroot: str
) -> None:
    async with Proxy(zookeeper.servers[0].port) as proxy:
        store, other = (
            await _open_through(chroot, proxy, session_timeout=20.0),
            await backing.open("other"),
        )
        registration = await store.register("brokers/1", b"")
        watcher = Watcher()
        await watcher.watch(store)
        await proxy.refuse()
        commit = asyncio.create_task(store.commit([Put("during", b"")]))
        await other.commit([Put("meanwhile", b"")])
        await proxy.accept()
        assert await commit == [0]
        assert [one.key for one in watcher.changes] == ["meanwhile", "during"]
        # The watch works on the new connection.
        await other.commit([Put("after", b"")])
        await watcher.until(lambda: "after" in watcher.documents)
        found = await other.read("brokers/1")
        assert found is not None
        assert found.epoch == registration.epoch
        await store.close()
        await other.close()


@on_a_loop
async def test_an_answer_to_another_request_costs_neither_commit_nor_session(
    backing: ZooKeeperBacking,
) -> None:
    store, other = await backing.open("one"), await backing.open("other")
    registration = await store.register("brokers/1", b"")
    assert isinstance(store, ZooKeeperStore)
    client = store._session._client
    client._pending.append((None, client.handler.async_result(), -99))
    assert await store.commit([Put("during", b"")]) == [0]
    found = await other.read("brokers/1")
    assert found is not None
    assert found.epoch == registration.epoch
    await store.close()
    await other.close()


@on_a_loop
async def test_a_request_without_a_connection_is_never_carried_out_later(
    zookeeper: Ensemble, chroot: str
) -> None:
    async with Proxy(zookeeper.servers[0].port) as proxy:
        store = await _open_through(chroot, proxy, session_timeout=20.0)
        session = store._session
        await proxy.refuse()
        await until(lambda: not session.connected.is_set())
        with pytest.raises(ConnectionLost):
            await session._request("create", f"{chroot}/late", b"")
        await proxy.accept()
        await until(session.connected.is_set)
        assert await session.get_all([f"{chroot}/late"]) == [None]
        await store.close()


@pytest.mark.parametrize("commits", [0, 2, 5, 30])
@on_a_loop
async def test_a_tree_that_was_replaced_is_not_followed(
    backing: ZooKeeperBacking, chroot: str, raw: KazooClient, commits: int
) -> None:
    """However many commits the new one has, also as many as the old one."""
    store = await backing.open("one")
    ended: list[str] = []
    store.on_session_end(ended.append)
    watcher = Watcher()
    await watcher.watch(store)
    for number in range(5):
        await store.commit([Put(f"key-{number}", b"")])
    known = store.position()
    client = store._session._client  # type: ignore[attr-defined]
    await asyncio.to_thread(drop_connection, client)
    raw.delete(f"{chroot}/ottla", recursive=True)
    other = await backing.open("other")
    for number in range(commits):
        await other.commit([Put("another", b"%d" % number)])
    await until(lambda: bool(ended))
    with pytest.raises(SessionEnded):
        await store.commit([Put("late", b"")])
    assert set(watcher.documents) == {f"key-{number}" for number in range(5)}
    again = await backing.open("one")
    with pytest.raises(HistoryLost):
        await again.check_history(known)
    for one in (store, other, again):
        await one.close()


@pytest.mark.parametrize("folder", ["registered", "documents"])
@on_a_loop
async def test_a_tree_with_a_folder_removed_ends_the_session(
    backing: ZooKeeperBacking, chroot: str, raw: KazooClient, folder: str
) -> None:
    """A tree is removed node by node: the head may be there when its neighbors are gone."""
    store = await backing.open("one")
    ended: list[str] = []
    store.on_session_end(ended.append)
    await Watcher().watch(store)
    await store.commit([Put("key", b"")])
    raw.delete(f"{chroot}/ottla/v1/{folder}", recursive=True)
    with pytest.raises(StoreError):
        await store._follower.read_everything()  # type: ignore[attr-defined]
    await until(lambda: bool(ended))
    assert "holds different metadata from what this broker had" in ended[0]
    await store.close()


@pytest.mark.parametrize("node", ["ottla", "ottla/v1", "ottla/v1/head"])
@on_a_loop
async def test_a_tree_that_is_removed_while_it_is_created_is_created_again(
    backing: ZooKeeperBacking,
    chroot: str,
    raw: KazooClient,
    node: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker begins its next session while an operator is still removing the nodes."""
    make = ZooKeeperSession._make
    removed: list[str] = []

    async def remove_once(session: ZooKeeperSession, path: str) -> None:
        await make(session, path)
        if path == f"{chroot}/{node}" and not removed:
            removed.append(path)
            raw.delete(chroot, recursive=True)

    monkeypatch.setattr(ZooKeeperSession, "_make", remove_once)
    store = await backing.open("one")
    await store.commit([Put("key", b"value")])
    assert removed
    assert await store.read("key") is not None
    await store.close()


@on_a_loop
async def test_a_long_outage_ends_the_session_and_commits_do_not_wait_for_ever(
    zookeeper: Ensemble, backing: ZooKeeperBacking, chroot: str
) -> None:
    async with Proxy(zookeeper.servers[0].port) as proxy:
        store = await _open_through(chroot, proxy, session_timeout=SHORT_SESSION_TIMEOUT)
        other, watcher, ended = await backing.open("other"), Watcher(), asyncio.Event()
        store.on_session_end(lambda _: ended.set())
        await store.register("brokers/1", b"")
        await watcher.watch(other)
        await proxy.refuse()
        with pytest.raises(StoreError):
            await store.commit([Put("a", b"")])
        with pytest.raises(StoreError):
            await store.read("a")
        await watcher.until(lambda: "brokers/1" not in watcher.documents)
        # Only ZooKeeper knows that it is over.
        assert not ended.is_set()
        await proxy.accept()
        await ended.wait()
        assert await other.scan("") == []
        await store.close()
        await other.close()


@on_a_loop
async def test_a_silent_server_is_left_for_another_in_time(
    zookeeper: Ensemble, backing: ZooKeeperBacking, chroot: str
) -> None:
    port = zookeeper.servers[0].port
    async with Proxy(port) as one, Proxy(port) as two:
        store = await _open_through(chroot, one, two)
        registration = await store.register("brokers/1", b"")
        silent, other = (one, two) if one.has_connections else (two, one)
        silent.hold_answers()
        assert await store.commit([Put("a", b"")]) == [0]
        found = await store.read("brokers/1")
        assert found is not None
        assert found.epoch == registration.epoch
        assert other.has_connections
        silent.let_answers_through()
        await store.close()


@on_a_loop
async def test_heartbeats_need_answers_but_no_commits(zookeeper: Ensemble, chroot: str) -> None:
    async with Proxy(zookeeper.servers[0].port) as proxy:
        store = await _open_through(chroot, proxy, session_timeout=SHORT_SESSION_TIMEOUT)
        assert store.session_facts().timeout == pytest.approx(SHORT_SESSION_TIMEOUT)
        first = store.session_facts().answered
        await until(lambda: store.session_facts().answered > first)
        proxy.hold_answers()
        held = boottime()
        await until(lambda: boottime() > held + SHORT_SESSION_TIMEOUT)
        assert store.session_facts().answered <= held
        await store.close()


class _CountingClock:
    """A clock that continues with every answer; what a session believed, and when it had asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.sent: dict[str, float] = {}
        self.begun: list[tuple[float, float]] = []
        self.written: list[tuple[float, float]] = []
        answer, request = ZooKeeperSession._answer, ZooKeeperSession._request
        beat, multi = ZooKeeperSession._beat, ZooKeeperSession.multi

        def noted(session: ZooKeeperSession, method: str, *args: Any) -> Any:
            self.sent[method] = self.now
            return request(session, method, *args)

        def counted(session: ZooKeeperSession, result: Any) -> Any:
            future = answer(session, result)
            future.add_done_callback(self._tick)
            return future

        async def begun(session: ZooKeeperSession) -> None:
            self.begun.append((session.answered, self.sent["create"]))
            await beat(session)

        async def written(session: ZooKeeperSession, writes: Sequence[Write]) -> int:
            sent = self.now
            zxid = await multi(session, writes)
            self.written.append((session.answered, sent))
            return zxid

        for name, function in (("_request", noted), ("_answer", counted), ("multi", written)):
            monkeypatch.setattr(ZooKeeperSession, name, function)
        monkeypatch.setattr(ZooKeeperSession, "_beat", begun)
        monkeypatch.setattr(zookeeper_session, "boottime", lambda: self.now)

    def _tick(self, _: object) -> None:
        self.now += 0.001


@on_a_loop
async def test_a_session_counts_as_alive_from_when_a_request_was_sent(
    zookeeper: Ensemble, chroot: str
) -> None:
    """Its answer may come late, and the server counts from the request."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        clock = _CountingClock(monkeypatch)
        address = parse_address(zookeeper.address(chroot))
        store = await ZooKeeperStore.open(address, "one", session_timeout=6.0)
        await until(lambda: store.session_facts().answered == clock.sent.get("set"))
        await store.commit([Put("a", b"")])
        await store.close()
    for believed, sent in clock.begun + clock.written:
        assert believed == sent
    assert (len(clock.begun), len(clock.written)) == (1, 1)


@on_a_loop
async def test_the_servers_limits_decide_the_timeout(zookeeper: Ensemble, chroot: str) -> None:
    store = await ZooKeeperStore.open(
        parse_address(zookeeper.address(chroot)), "one", session_timeout=3600.0
    )
    assert store.session_facts().timeout == pytest.approx(MAX_SESSION_TIMEOUT)
    await store.close()


@on_a_loop
async def test_a_paused_process_is_declared_dead_and_finds_out_when_it_wakes(
    backing: ZooKeeperBacking,
) -> None:
    store, watcher = await backing.open("watching"), Watcher()
    await watcher.watch(store)
    with backing.process("commit-when-told", "paused") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        epoch = int(await asyncio.to_thread(process.stdout.readline))
        await watcher.until(lambda: "brokers/9" in watcher.documents)
        assert watcher.documents["brokers/9"].epoch == epoch
        process.send_signal(signal.SIGSTOP)
        await watcher.until(lambda: "brokers/9" not in watcher.documents)
        process.stdin.close()
        process.send_signal(signal.SIGCONT)
        outcome = await asyncio.to_thread(process.stdout.readline)
    assert outcome.strip() in ("SessionEnded", "UnknownOutcome")
    assert await store.read("late") is None
    await store.close()


@on_a_loop
async def test_a_process_whose_loop_hangs_loses_its_session_and_logs_where_it_hangs(
    backing: ZooKeeperBacking, capfd: pytest.CaptureFixture[str]
) -> None:
    store, watcher = await backing.open("watching"), Watcher()
    await watcher.watch(store)
    with backing.process("hang", "hanging") as process:
        assert process.stdout is not None
        await asyncio.to_thread(process.stdout.readline)
        await watcher.until(lambda: "brokers/9" in watcher.documents)
        await watcher.until(lambda: "brokers/9" not in watcher.documents)
        assert process.poll() is None
    said = capfd.readouterr().err
    assert "event loop is blocked" in said
    assert "_hang" in said
    await store.close()
