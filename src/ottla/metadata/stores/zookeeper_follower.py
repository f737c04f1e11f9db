"""Keeps the mirror of a ZooKeeper store up to date, and calls the listener.

1. The watch on the head says that there are commits; their entries are read and taken in, in order,
   each once. An own commit is applied by its sender, without reading it.
2. Where an entry was trimmed before it was read, every node is read. Commits continue meanwhile, so
   the nodes are of different moments: applying the entries since the start of reading makes them
   one. What the trimmed entries did is not known then (`on_gap`).
3. Registered documents vanish without a commit: the watch on their folder reports it. What is
   missing there is looked at once more, after all commits that were there before: it may only be
   new.
4. kazoo drops watches with the connection; every catching up sets them again, and a new connection
   begins with one.
5. With the entries that are new the one that is known best is read again, the mirror's own. Where
   it is another one now, or the head has gone back, ZooKeeper has an older copy of its data, or
   another cluster's; where the head or a folder is missing, the tree was removed. Nothing more is
   applied then, and the session ends.
6. The listener is called on the loop in the order of commits, before anything that waited for them
   continues.
"""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import quote

import structlog

from ottla.metadata.store import (
    Change,
    Document,
    HistoryLost,
    Listener,
    SessionEnded,
    StoreError,
    StorePosition,
)
from ottla.metadata.stores.zookeeper_mirror import Mirror
from ottla.metadata.stores.zookeeper_nodes import Entry, Layout, decode_documents, decode_entry
from ottla.metadata.stores.zookeeper_session import ConnectionLost, ZooKeeperSession

log = structlog.get_logger()


class _TrimmedError(Exception):
    """An entry that is needed is no longer kept."""


class TreeFollower:
    """A mirror that follows the commits.

    `on_entry` is called with each one that was read, `on_gap` where some were trimmed before that.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        layout: Layout,
        entries_kept: int,
        on_entry: Callable[[Entry], None],
        on_gap: Callable[[], None],
    ) -> None:
        self.mirror = Mirror()
        self.listener: Listener | None = None
        self._session = session
        self._layout = layout
        self._entries_kept = entries_kept
        self._on_entry = on_entry
        self._on_gap = on_gap
        self._loop = asyncio.get_running_loop()
        self._reading = asyncio.Lock()
        self._woken = asyncio.Event()
        self._connection = 0

    @property
    def is_certain(self) -> bool:
        """Whether what this connection leads to was seen to be what the mirror is of."""
        return self._connection == self._session.connections

    def wake(self) -> None:
        """Something has changed, or there is a new connection."""
        self._woken.set()

    async def follow(self) -> None:
        """Take in what others commit, until the session ends."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._session.connected.wait()
                async with self._reading:
                    await self._take_what_is_new()
            except ConnectionLost:
                # The next connection wakes again.
                continue
            except SessionEnded:
                return
            except StoreError as error:
                self._session.end(f"can no longer read metadata changes: {error}")
                return
            except Exception as error:
                # Going on without it would be a broker that no longer learns of changes.
                log.exception("failed to read metadata changes; ending the session")
                self._session.end(f"can no longer read metadata changes: {error!r}")
                return

    def take(self, number: int, entry: Entry) -> None:
        """Take in a commit, if it is the next one."""
        if number == self.mirror.number + 1:
            self._announce(self.mirror.apply(number, entry))

    async def catch_up(self) -> None:
        """Take in everything that was committed before this was called."""
        async with self._reading:
            await self._session.sync(self._layout.head)
            await self._or_end(self._take_what_is_new())

    async def check_history(self, known: StorePosition) -> None:
        """Raise HistoryLost if what is stored does not continue from there."""
        await self._session.sync(self._layout.head)
        await self._head(known.number)
        await self._entries(known, known.number)

    async def read_everything(self) -> None:
        """Begin with what is stored, or begin again; the listener gets the difference."""
        async with self._reading:
            await self._or_end(self._read_everything())

    async def _or_end(self, work: Awaitable[None]) -> None:
        try:
            await work
        except HistoryLost as error:
            self._session.end(str(error))
            self._session.check_alive()

    async def _take_what_is_new(self) -> None:
        known, connection = self._known(), self._session.connections
        present, number = await asyncio.gather(
            self._names(self._layout.registered, watch=True), self._head(known.number)
        )
        try:
            for at, entry in await self._entries(known, number):
                self._on_entry(entry)
                self.take(at, entry)
        except _TrimmedError:
            self._on_gap()
            await self._read_everything()
        self._connection = connection
        await self._take_vanished(set(present))

    async def _read_everything(self) -> None:
        session, layout = self._session, self._layout
        while True:
            await session.sync(layout.head)
            known, connection = self._known(), session.connections
            newer = await self._empty_mirror(await self._head(known.number))
            if newer is None:
                continue
            await self._entries(known, known.number)
            nodes = await self._documents_in(layout.documents)
            registered = await self._documents_in(layout.registered)
            newer.load(
                {int(name): documents for name, documents in nodes.items()},
                [document for documents in registered.values() for document in documents],
            )
            try:
                # Own commits may be taken in by the mirror of now while this one is read.
                while newer.number < (number := max(await self._head(0), self.mirror.number)):
                    at_newer = StorePosition(newer.number, newer.token)
                    for at, entry in await self._entries(at_newer, number):
                        self._on_entry(entry)
                        newer.apply(at, entry)
            except _TrimmedError:
                continue
            break
        changes = self.mirror.difference(newer)
        self.mirror = newer
        self._connection = connection
        self._announce(changes)

    async def _documents_in(self, folder: str) -> dict[str, list[Document]]:
        """The documents in each node of a folder."""
        names = await self._names(folder)
        paths = [f"{folder}/{name}" for name in names]
        return {
            name: decode_documents(path, node.content, node.modified)
            for name, path, node in zip(
                names, paths, await self._session.get_all(paths), strict=True
            )
            if node is not None
        }

    def _known(self) -> StorePosition:
        return StorePosition(self.mirror.number, self.mirror.token)

    async def _empty_mirror(self, number: int) -> Mirror | None:
        """A mirror to be filled with what is read after that commit; None: it was trimmed."""
        if number == 0:
            return Mirror()
        (node,) = await self._session.get_all([self._layout.change(number)])
        if node is None:
            return None
        entry = decode_entry(self._layout.change(number), node.content, node.created)
        return Mirror(number, entry.writer)

    async def _head(self, at_least: int) -> int:
        head = await self._session.node_version(self._layout.head, watch=True)
        if head is None or head.version < at_least:
            raise self._history_lost()
        return head.version

    async def _names(self, folder: str, *, watch: bool = False) -> list[str]:
        names = await self._session.children(folder, watch=watch)
        if names is None:
            raise self._history_lost()
        return names

    def _history_lost(self) -> HistoryLost:
        return HistoryLost(f"ZooKeeper's {self._layout.root}")

    async def _entries(self, known: StorePosition, last: int) -> list[tuple[int, Entry]]:
        """The entries behind a known one, which is read, too."""
        if last - known.number > self._entries_kept:
            raise _TrimmedError
        numbers = range(known.number, last + 1)
        paths = [self._layout.change(number) for number in numbers]
        entries = []
        for number, path, node in zip(
            numbers, paths, await self._session.get_all(paths), strict=True
        ):
            if node is None and number == known.number:
                continue  # the first commit has none before it; others are trimmed first
            if node is None:
                raise _TrimmedError
            entry = decode_entry(path, node.content, node.created)
            if number > known.number:
                entries.append((number, entry))
            elif entry.writer != known.token:
                raise self._history_lost()
        return entries

    async def _take_vanished(self, present: set[str]) -> None:
        gone: list[Change] = []
        missing = [key for key in self.mirror.registered if quote(key, safe="") not in present]
        for key in sorted(missing):
            node = await self._session.node_version(self._layout.registration(key))
            document = self.mirror.documents.get(key)
            if document is None or key not in self.mirror.registered:
                continue
            if node is None or node.created != document.epoch:
                gone.append(self.mirror.remove(key))
        self._announce(gone)

    def _announce(self, changes: list[Change]) -> None:
        if changes and self.listener is not None:
            self._loop.call_soon(self._deliver, changes)

    def _deliver(self, changes: list[Change]) -> None:
        if self.listener is not None:
            self.listener(changes)
