"""Keeps the mirror of a ZooKeeper store up to date, and tells the listener.

1. The watch on the head says that there are commits; their entries are read and taken in, in order,
   each once. An own commit is taken in by whoever sent it, without reading it.
2. Who lacks an entry that was trimmed reads every node. Commits go on meanwhile, so the nodes are
   of different moments: the entries from before the reading on make them one.
3. Registered documents vanish without a commit: the watch on their folder says so. What is missing
   there is looked at once more, after all commits that were there before: it may only be new.
4. kazoo drops watches with the connection; every catching up sets them again, and a new connection
   begins with one.
5. The listener is called on the loop in the order of commits, before anything that waited for them
   goes on.
"""

import asyncio
from collections.abc import Callable
from urllib.parse import quote

from ottla.cluster.store import Change, Document, Listener, SessionEnded, StoreError
from ottla.cluster.zookeeper_mirror import Mirror
from ottla.cluster.zookeeper_nodes import Entry, Layout, decode_documents, decode_entry
from ottla.cluster.zookeeper_session import ConnectionLost, ZooKeeperSession


class _TrimmedError(Exception):
    """An entry that is needed is not kept any more."""


class Follower:
    """A mirror that follows the commits; `on_entry` is called with each one that was read."""

    def __init__(
        self,
        session: ZooKeeperSession,
        layout: Layout,
        entries_kept: int,
        on_entry: Callable[[Entry], None],
    ) -> None:
        self.mirror = Mirror()
        self.listener: Listener | None = None
        self._session = session
        self._layout = layout
        self._entries_kept = entries_kept
        self._on_entry = on_entry
        self._loop = asyncio.get_running_loop()
        self._reading = asyncio.Lock()
        self._woken = asyncio.Event()

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
                self._session.end(f"the metadata cannot be followed any more: {error}")
                return

    def take(self, number: int, entry: Entry) -> None:
        """Take in a commit, if it is the next one."""
        if number == self.mirror.number + 1:
            self._tell(self.mirror.apply(number, entry))

    async def catch_up(self) -> None:
        """Take in everything that was committed before this was called."""
        async with self._reading:
            await self._session.sync(self._layout.head)
            await self._take_what_is_new()

    async def read_everything(self) -> None:
        """Begin with what is stored, or begin again; the listener is told the difference."""
        async with self._reading:
            await self._read_everything()

    async def _take_what_is_new(self) -> None:
        present, number = await asyncio.gather(
            self._session.children(self._layout.registered, watch=True), self._head()
        )
        try:
            for at, entry in await self._entries(self.mirror.number, number):
                self._on_entry(entry)
                self.take(at, entry)
        except _TrimmedError:
            await self._read_everything()
        await self._take_vanished(set(present))

    async def _read_everything(self) -> None:
        session, layout = self._session, self._layout
        while True:
            await session.sync(layout.head)
            newer = Mirror(await self._head())
            nodes = await self._documents_in(layout.documents)
            registered = await self._documents_in(layout.registered)
            newer.load(
                {int(name): documents for name, documents in nodes.items()},
                [document for documents in registered.values() for document in documents],
            )
            try:
                # Own commits may be taken in by the mirror of now while this one is read.
                while newer.number < (number := max(await self._head(), self.mirror.number)):
                    for at, entry in await self._entries(newer.number, number):
                        self._on_entry(entry)
                        newer.apply(at, entry)
            except _TrimmedError:
                continue
            break
        told = self.mirror.difference(newer)
        self.mirror = newer
        self._tell(told)

    async def _documents_in(self, folder: str) -> dict[str, list[Document]]:
        """The documents in each node of a folder."""
        names = await self._session.children(folder)
        paths = [f"{folder}/{name}" for name in names]
        return {
            name: decode_documents(path, node.content, node.modified)
            for name, path, node in zip(
                names, paths, await self._session.get_all(paths), strict=True
            )
            if node is not None
        }

    async def _head(self) -> int:
        head = await self._session.node_version(self._layout.head, watch=True)
        if head is None or head.version < self.mirror.number:
            raise StoreError(f"ZooKeeper's {self._layout.root} was removed")
        return head.version

    async def _entries(self, after: int, last: int) -> list[tuple[int, Entry]]:
        if last - after > self._entries_kept:
            raise _TrimmedError
        numbers = range(after + 1, last + 1)
        paths = [self._layout.change(number) for number in numbers]
        entries = []
        for number, path, node in zip(
            numbers, paths, await self._session.get_all(paths), strict=True
        ):
            if node is None:
                raise _TrimmedError
            entries.append((number, decode_entry(path, node.content, node.created)))
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
        self._tell(gone)

    def _tell(self, changes: list[Change]) -> None:
        if changes and self.listener is not None:
            self._loop.call_soon(self._deliver, changes)

    def _deliver(self, changes: list[Change]) -> None:
        if self.listener is not None:
            self.listener(changes)
