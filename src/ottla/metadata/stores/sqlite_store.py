"""The store of a single machine: one SQLite file, used from one thread of its own.

The broker's loop hands jobs to the thread and awaits their results; the listener is called on the
loop, before the result of the commit that caused it. Changes of other processes are found by
polling `PRAGMA data_version`, which costs microseconds and touches no table.

A session is named after its owner (a broker). Opening a store ends an older session of the same
owner, so a broker that was killed and comes back finds its old registration gone; a supervisor that
has reaped a dead process ends its session with `declare_dead`. Where several processes share the
file an owner holds a lock beside it (`exclusive`), so that a second process of the same name is
refused while the first one runs. The lock is the kernel's (flock): a killed process leaves none.
"""

import asyncio
import fcntl
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

from ottla.metadata.store import (
    Change,
    Document,
    HistoryLost,
    Listener,
    Op,
    Registration,
    SessionEndCallback,
    SessionEnded,
    SessionFacts,
    Store,
    StoreError,
    StorePosition,
    UnknownOutcome,
)
from ottla.metadata.stores.sqlite_database import JOURNAL_KEPT, Database

T = TypeVar("T")
_Job = Callable[[], None]


class OwnerInUse(StoreError):  # noqa: N818 -- it names what happened
    """Another running process has a session of this name."""


class SqliteStore(Store):
    """A store in one file. Made by `open`; `close` it, or its session stays until the next open."""

    def __init__(self, loop: asyncio.AbstractEventLoop, poll_interval: float | None) -> None:
        self._loop = loop
        self._poll_interval = poll_interval
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="ottla-store", daemon=True)
        self._closed = False
        self._end_callbacks: list[SessionEndCallback] = []
        # What was announced before `watch` returned, and so before the watcher is ready.
        self._early: list[list[Change]] | None = []
        # The rest belongs to the thread.
        self._database: Database
        self._lock = -1
        self._listener: Listener | None = None
        self._seen = StorePosition(0, "")
        self._known: dict[str, tuple[int, int]] = {}
        self._poll_failed = False
        self._session_lives = False

    @classmethod
    async def open(
        cls,
        path: Path,
        owner: str,
        *,
        poll_interval: float | None = None,
        lock_timeout: float = 5.0,
        journal_kept: int = JOURNAL_KEPT,
        exclusive: bool = False,
    ) -> "SqliteStore":
        """Open or make the file and begin a session; `poll_interval` None: no other process writes.

        With `exclusive` a running process with a session of this name is OwnerInUse.
        """
        store = cls(asyncio.get_running_loop(), poll_interval)

        def connect() -> None:
            if exclusive:
                store._lock = _lock(path, owner)
            try:
                store._database = Database(path, owner, lock_timeout, journal_kept)
            except BaseException:
                store._unlock()
                raise
            store._session_lives = True

        store._thread.start()
        try:
            await store._call(connect)
        except BaseException:
            store._closed = True
            store._jobs.put(None)
            raise
        return store

    async def read(self, key: str) -> Document | None:
        return await self._call(lambda: self._database.read(key))

    async def scan(self, prefix: str) -> list[Document]:
        return await self._call(lambda: self._database.scan(prefix))

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        def commit() -> list[int]:
            self._check_alive()
            versions = self._database.commit(ops)
            self._announce_own()
            return versions

        return await self._call(commit)

    async def register(self, key: str, value: bytes) -> Registration:
        def register() -> Registration:
            self._check_alive()
            registration = self._database.register(key, value)
            self._announce_own()
            return registration

        return await self._call(register)

    async def declare_dead(self, owner: str) -> None:
        """End another session; its process must be known to be gone."""

        def declare_dead() -> None:
            self._database.declare_dead(owner)
            self._announce_own()

        await self._call(declare_dead)

    async def watch(self, listener: Listener) -> list[Document]:
        def watch() -> list[Document]:
            assert self._listener is None, "a store has one watcher"
            documents, self._seen = self._database.snapshot()
            self._known = {key: (version, epoch) for key, _, version, epoch in documents}
            self._listener = listener
            return documents

        documents = await self._call(watch)
        self._loop.call_soon(self._deliver_early, listener)
        return documents

    async def catch_up(self) -> None:
        if self._poll_interval is not None:
            await self._call(self._poll)

    def position(self) -> StorePosition:
        return self._seen

    async def check_history(self, known: StorePosition) -> None:
        await self._call(lambda: self._database.check_history(known))

    def session_facts(self) -> SessionFacts:
        # A session is declared dead after its process was reaped, or by its successor.
        return SessionFacts(timeout=math.inf, answered=0.0)

    def on_session_end(self, callback: SessionEndCallback) -> None:
        self._end_callbacks.append(callback)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True

        def close() -> None:
            self._listener = None
            self._session_lives = False  # nothing is polled from here on
            try:
                self._database.close()
            finally:
                self._unlock()

        try:
            await self._submit(close)
        finally:
            self._jobs.put(None)
            self._thread.join()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def _call(self, function: Callable[[], T]) -> T:
        if self._closed:
            raise SessionEnded("the metadata store is closed")
        return await self._submit(function)

    def _submit(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        result: Future[T] = Future()

        def job() -> None:
            if not result.set_running_or_notify_cancel():
                return
            try:
                value = function()
            except BaseException as error:  # noqa: BLE001 -- the caller gets it
                result.set_exception(error)
            else:
                result.set_result(value)

        self._jobs.put(job)
        return asyncio.wrap_future(result, loop=self._loop)

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._poll_interval)
            except Empty:
                self._poll()
                continue
            if job is None:
                return
            job()

    def _poll(self) -> None:
        if not self._session_lives:
            return
        try:
            if self._database.was_replaced():
                raise HistoryLost(str(self._database.path))
            # What could not be read the last time is still to be read.
            if self._database.changed_elsewhere() or self._poll_failed:
                self._announce()
            self._poll_failed = False
        except HistoryLost as error:
            self._end(str(error))
        except Exception as error:  # noqa: BLE001 the loop gets it
            # Whatever it was: the thread continues, or every later call would wait for ever. Tried
            # again at the next poll; logged once.
            if not self._poll_failed:
                self._poll_failed = True
                report = {"message": "the metadata store cannot be polled", "exception": error}
                self._on_loop(lambda: self._loop.call_exception_handler(report))

    def _check_alive(self) -> None:
        if not self._session_lives:
            raise SessionEnded(f"{self._database.path}: this broker's session has ended")

    def _end(self, reason: str) -> None:
        self._session_lives = False
        self._listener = None
        self._on_loop(lambda: self._tell_of_the_end(reason))

    def _tell_of_the_end(self, reason: str) -> None:
        if not self._closed:
            for callback in self._end_callbacks:
                callback(reason)

    def _announce_own(self) -> None:
        try:
            self._announce()
        except HistoryLost as error:
            self._end(str(error))
            raise UnknownOutcome(str(error)) from error
        except StoreError as error:
            # It is stored, but the caller's image does not have it: as good as unknown.
            raise UnknownOutcome(str(error)) from error
        if not self._session_lives:
            raise UnknownOutcome(f"{self._database.path}: the session ended after the commit")

    def _announce(self) -> None:
        """Hand the changes since the last time to the listener, if the session is alive.

        The session is looked for after the changes were read: the changes that ended it, and those
        after them, are not for this store.
        """
        listener, seen, changes = self._listener, self._seen, list[Change]()
        if listener is not None:
            changes, seen = self._database.changes_after(self._seen, self._known)
        if not self._database.session_lives():
            self._end("the session was ended by another process")
            return
        self._seen = seen
        if listener is None or not changes:
            return
        for change in changes:
            if change.value is None:
                self._known.pop(change.key, None)
            else:
                self._known[change.key] = (change.version, change.epoch)
        self._on_loop(lambda: self._deliver(listener, changes))

    def _deliver(self, listener: Listener, changes: list[Change]) -> None:
        if self._early is not None:
            self._early.append(changes)
        elif not self._closed:
            listener(changes)

    def _deliver_early(self, listener: Listener) -> None:
        early, self._early = self._early or [], None
        for changes in early:
            self._deliver(listener, changes)

    def _on_loop(self, function: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            # The loop is closed: there is no listener left.
            pass


def _lock(path: Path, owner: str) -> int:
    """Lock the file that stands for an owner, until it is closed or the process ends."""
    try:
        fd = os.open(f"{path}-{owner}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise StoreError(f"{path}: {problem.strerror}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise OwnerInUse(f"{path}: {owner} is in use by another process") from None
    except OSError as problem:
        os.close(fd)
        raise StoreError(f"{path}: {problem.strerror}") from None
    return fd
