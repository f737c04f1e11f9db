"""The stores that must keep the contract, and processes that use one beside the test's own."""

import asyncio
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import ClassVar, ParamSpec

import structlog
from kazoo.client import KazooClient  # type: ignore[import-untyped]  # it has no types

from ottla.metadata.store import Change, Conflict, Document, Put, Store, StoreError, Update
from ottla.metadata.stores.sqlite_store import SqliteStore
from ottla.metadata.stores.zookeeper_address import parse_address
from ottla.metadata.stores.zookeeper_store import ZooKeeperStore
from testkit.waiting import stretched

P = ParamSpec("P")
OTHERS_ARE_SEEN_WITHIN = 30.0
# Long enough for a busy machine, except where the end of a session is what is waited for.
SESSION_TIMEOUT = 15.0
SHORT_SESSION_TIMEOUT = 1.5


class Backing(ABC):
    """One set of documents, opened by several stores."""

    kind: ClassVar[str]

    def __init__(self, address: str) -> None:
        self.address = address

    @abstractmethod
    async def open(self, owner: str, *, short_session: bool = False) -> Store:
        """A new store, and session, over the documents."""

    @abstractmethod
    async def declare_dead(self, owner: str) -> None:
        """Do what this backing's authority on life does about a process that is gone."""

    @contextmanager
    def process(self, role: str, owner: str) -> Iterator["subprocess.Popen[str]"]:
        """Another process with a store of its own; killed at the end if it still runs."""
        command = [
            sys.executable,
            "-m",
            "tests.metadata.stores",
            self.kind,
            self.address,
            role,
            owner,
        ]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with process:
            try:
                yield process
            finally:
                process.kill()


class SqliteBacking(Backing):
    """A file; a supervisor says who is dead."""

    kind = "sqlite"

    async def open(self, owner: str, *, short_session: bool = False) -> Store:
        return await SqliteStore.open(Path(self.address), owner, poll_interval=0.005)

    async def declare_dead(self, owner: str) -> None:
        supervisor = await SqliteStore.open(Path(self.address), "supervisor")
        await supervisor.declare_dead(owner)
        await supervisor.close()


class ZooKeeperBacking(Backing):
    """A chroot in ZooKeeper, which ends the sessions of silent processes."""

    kind = "zookeeper"

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._opened: dict[str, ZooKeeperStore] = {}

    async def open(self, owner: str, *, short_session: bool = False) -> Store:
        store = await ZooKeeperStore.open(
            parse_address(self.address),
            owner,
            session_timeout=SHORT_SESSION_TIMEOUT if short_session else SESSION_TIMEOUT,
        )
        self._opened[owner] = store
        return store

    async def declare_dead(self, owner: str) -> None:
        if owner in self._opened:
            await asyncio.to_thread(end_session, self._opened[owner])


def end_session(store: ZooKeeperStore) -> None:
    """End a session behind its owner's back: as if its time were over."""
    client = store._session._client
    hosts = ",".join(store._session._address.host_texts())
    thief = KazooClient(hosts, client_id=client.client_id)
    thief.start()
    thief.stop()
    thief.close()


BACKINGS: dict[str, type[Backing]] = {one.kind: one for one in (SqliteBacking, ZooKeeperBacking)}


def on_a_loop(
    test: Callable[P, Coroutine[object, object, None]],
) -> Callable[P, None]:
    """Run an asynchronous test to its end."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Watcher:
    """Keeps the changes that a listener got."""

    def __init__(self) -> None:
        self.calls: list[list[Change]] = []
        self.documents: dict[str, Document] = {}
        self._told = asyncio.Event()

    async def watch(self, store: Store) -> None:
        """Begin with the snapshot, and follow."""
        snapshot = await store.watch(self)
        self.documents = {document.key: document for document in snapshot}

    def __call__(self, changes: list[Change]) -> None:
        self.calls.append(changes)
        for change in changes:
            if change.value is None:
                del self.documents[change.key]
            else:
                self.documents[change.key] = Document(
                    change.key, change.value, change.version, change.epoch
                )
        self._told.set()

    @property
    def changes(self) -> list[Change]:
        """All changes, in order."""
        return [change for call in self.calls for change in call]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the changes make the condition true."""
        async with asyncio.timeout(stretched(OTHERS_ARE_SEEN_WITHIN)):
            while not condition():
                self._told.clear()
                await self._told.wait()


async def _write_pairs(store: Store) -> None:
    """Commit two equal documents forever; print each number once it is acknowledged."""
    number = 0
    while True:
        number += 1
        value = str(number).encode()
        await store.commit([Put("pair/left", value), Put("pair/right", value)])
        print(number, flush=True)


async def _count(store: Store) -> None:
    """Raise a counter a hundred times, against concurrent writers."""
    for _ in range(100):
        while True:
            found = await store.read("counter")
            assert found is not None
            try:
                await store.commit(
                    [Update("counter", str(int(found.value) + 1).encode(), found.version)]
                )
                break
            except Conflict:
                continue


async def _register(store: Store) -> None:
    """Register, say so, and live until stdin ends."""
    registration = await store.register("brokers/9", b"registered")
    print(registration.epoch, flush=True)
    await asyncio.to_thread(sys.stdin.read)


async def _hang(store: Store) -> None:
    """Register, say so, and let the loop hang."""
    registration = await store.register("brokers/9", b"registered")
    print(registration.epoch, flush=True)
    signal.pause()


async def _commit_when_told(store: Store) -> None:
    """Register, say so; commit once stdin ends, and say what came of it."""
    registration = await store.register("brokers/9", b"registered")
    print(registration.epoch, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    try:
        await store.commit([Put("late", b"")])
        print("committed", flush=True)
    except StoreError as error:
        print(type(error).__name__, flush=True)


async def _nothing(store: Store) -> None:
    """Only open and close."""


ROLES: dict[str, Callable[[Store], Awaitable[None]]] = {
    "write-pairs": _write_pairs,
    "count": _count,
    "register": _register,
    "hang": _hang,
    "commit-when-told": _commit_when_told,
    "nothing": _nothing,
}


SHORT_LIVED = ("register", "hang", "commit-when-told")


async def _main(kind: str, address: str, role: str, owner: str) -> None:
    store = await BACKINGS[kind](address).open(owner, short_session=role in SHORT_LIVED)
    await ROLES[role](store)
    await store.close()


if __name__ == "__main__":
    # What is said on stdout is for the test.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(_main(*sys.argv[1:]))
