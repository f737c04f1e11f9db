"""The store of a cluster: documents in ZooKeeper, mirrored here, changed by one multi at a time.

1. The store holds a mirror of all documents. A commit is judged against it and sent as one multi
   that raises the head's version, which must be the mirror's number: a concurrent commit makes it
   fail, and it is judged again on what they changed. In the same multi are the commit's entry in
   `changes/` and the nodes' new contents (ottla.metadata.stores.zookeeper_nodes has the tree).
2. Commits that come while one is under way are sent together in the next multi, so a broker with
   hundreds of changes needs a few round trips.
3. Other stores learn of a commit by their watch on the head, and read the entries that they lack,
   in order. Where one was trimmed they read everything again, and announce the difference.
4. Registered documents vanish without a commit: a watch on their folder reports it.
5. After a lost connection the entries tell whether the multi in flight was carried out: it has an
   id. So UnknownOutcome is left for a ZooKeeper that stays unreachable, a session that ends, and a
   multi whose entry may have been trimmed before it was looked for.
6. Reads first ask for the state of the quorum (sync), so that they see all commits that returned
   before, and are as of one moment.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from itertools import count
from typing import NamedTuple
from uuid import uuid4

import structlog

from ottla.metadata.store import (
    Conflict,
    Create,
    Document,
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
from ottla.metadata.stores.zookeeper_address import ZooKeeperAddress
from ottla.metadata.stores.zookeeper_follower import TreeFollower
from ottla.metadata.stores.zookeeper_mirror import Do, Draft, Write
from ottla.metadata.stores.zookeeper_nodes import Entry, Layout, encode_entry, with_epochs
from ottla.metadata.stores.zookeeper_session import ConnectionLost, Refused, ZooKeeperSession

log = structlog.get_logger()

DEFAULT_SESSION_TIMEOUT = 18.0
ENTRIES_KEPT = 1000
# ZooKeeper's default jute.maxbuffer is 1,048,575 bytes; the rest is for what it adds.
LARGEST_MULTI = 1_000_000
_BYTES_AROUND_A_WRITE = 64
_TRIMMED_EVERY = 100
_PAUSE_AFTER_A_LOSS = 0.02

_Outcome = list[int] | Conflict


class _TooLargeError(Exception):
    """The multi would be larger than ZooKeeper takes."""


class _Waiting(NamedTuple):
    """A commit that was asked for; `registers`: its one operation creates a registered document."""

    ops: Sequence[Op]
    registers: bool
    done: "asyncio.Future[list[int]]"


class ZooKeeperStore(Store):
    """A store in ZooKeeper. Made by `open`; `close` it, or its session stays until its timeout."""

    def __init__(self, address: ZooKeeperAddress, session_timeout: float, kept: int) -> None:
        self._layout = Layout(address.chroot)
        self._entries_kept = kept
        self._session = ZooKeeperSession(
            address,
            session_timeout,
            on_wake=lambda: self._follower.wake(),
            on_end=self._session_ended,
        )
        self._follower = TreeFollower(
            self._session, self._layout, kept, self._entry_was_read, self._entries_were_trimmed
        )
        self._end_callbacks: list[SessionEndCallback] = []
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._waiting: list[_Waiting] = []
        self._committer: asyncio.Task[None] | None = None
        self._entry_numbers = count()
        # A session's name comes again where ZooKeeper gets an older copy of its data.
        self._writer = uuid4().hex
        # Multis without an answer, by the writer in their entry: what each would answer.
        self._unanswered: dict[str, list[_Outcome]] = {}
        self._found: list[_Outcome] | None = None
        self._found_nothing = False

    @classmethod
    async def open(
        cls,
        address: ZooKeeperAddress,
        owner: str,
        *,
        session_timeout: float = DEFAULT_SESSION_TIMEOUT,
        connect_timeout: float = DEFAULT_SESSION_TIMEOUT,
        entries_kept: int = ENTRIES_KEPT,
    ) -> "ZooKeeperStore":
        """Connect, begin a session and read everything."""
        store = cls(address, session_timeout, entries_kept)
        await store._session.start(store._layout, owner, connect_timeout)
        try:
            await store._patiently(store._follower.read_everything)
        except BaseException:
            await store.close()
            raise
        store._spawn(store._follower.follow())
        return store

    async def read(self, key: str) -> Document | None:
        await self._patiently(self._follower.catch_up)
        return self._follower.mirror.documents.get(key)

    async def scan(self, prefix: str) -> list[Document]:
        await self._patiently(self._follower.catch_up)
        return self._follower.mirror.scan(prefix)

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        return await self._ask(ops, registers=False)

    async def register(self, key: str, value: bytes) -> Registration:
        await self._ask([Create(key, value)], registers=True)
        document = self._follower.mirror.documents.get(key)
        if document is None:
            raise UnknownOutcome(f"{key} was registered and has been removed since")
        return Registration(key, document.epoch)

    async def watch(self, listener: Listener) -> list[Document]:
        assert self._follower.listener is None, "a store has one watcher"
        await self._patiently(self._follower.catch_up)
        self._follower.listener = listener
        return self._follower.mirror.scan("")

    async def catch_up(self) -> None:
        await self._patiently(self._follower.catch_up)
        await asyncio.sleep(0)  # the listener is called in a turn of the loop of its own

    def position(self) -> StorePosition:
        mirror = self._follower.mirror
        return StorePosition(mirror.number, mirror.token)

    async def check_history(self, known: StorePosition) -> None:
        await self._patiently(lambda: self._follower.check_history(known))

    def session_facts(self) -> SessionFacts:
        return SessionFacts(self._session.timeout, self._session.answered)

    def on_session_end(self, callback: SessionEndCallback) -> None:
        self._end_callbacks.append(callback)

    async def close(self) -> None:
        self._follower.listener = None
        self._end_callbacks.clear()
        for task in self._tasks:
            task.cancel()
        await self._session.close()
        self._refuse_what_waits()

    async def _ask(self, ops: Sequence[Op], *, registers: bool) -> list[int]:
        self._session.check_alive()
        done: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(ops, registers, done))
        if self._committer is None or self._committer.done():
            self._committer = self._spawn(self._commit_what_waits())
        return await done

    async def _commit_what_waits(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            reason = "the metadata store was closed"
            try:
                await self._commit_batch(batch)
            except Exception as error:  # those that came meanwhile are committed all the same
                log.exception("failed to commit to ZooKeeper")
                reason = f"failed to commit to ZooKeeper: {error!r}"
            finally:
                _fail(batch, UnknownOutcome(reason))

    async def _commit_batch(self, batch: list[_Waiting]) -> None:
        """Bring each of the commits to its end."""
        try:
            await self._commit_together(batch)
        except _TooLargeError as error:
            if len(batch) == 1:
                _fail(batch, StoreError(str(error)))
            else:
                half = len(batch) // 2
                await self._commit_batch(batch[:half])
                await self._commit_batch(batch[half:])
        except StoreError as error:
            _fail(batch, error)

    async def _commit_together(self, batch: list[_Waiting]) -> None:
        self._forget_unanswered()
        fresh = False
        try:
            async with asyncio.timeout(self._session.timeout):
                while True:
                    await self._session.connected.wait()
                    self._session.check_alive()
                    if self._found is not None:
                        _resolve(batch, self._found)
                        return
                    if self._found_nothing:
                        raise UnknownOutcome(
                            "no response to the commit, and too many later changes to tell whether "
                            "it succeeded"
                        )
                    try:
                        if await self._try_to_commit(batch, fresh):
                            return
                        await self._follower.catch_up()
                        fresh = True
                    except ConnectionLost:
                        await asyncio.sleep(_PAUSE_AFTER_A_LOSS)
        except TimeoutError:
            problem: StoreError = self._no_answer()
        except SessionEnded as error:
            problem = error
        raise UnknownOutcome(str(problem)) if self._unanswered else problem

    async def _try_to_commit(self, batch: list[_Waiting], fresh: bool) -> bool:
        """Judge and send; False when the mirror must catch up before the next attempt."""
        if not self._follower.is_certain:
            return False
        mirror = self._follower.mirror
        draft = Draft(mirror)
        outcomes = [_judge(draft, one) for one in batch]
        if not fresh and (not draft.changes or any(isinstance(one, Conflict) for one in outcomes)):
            # What is said without a write must be true of the quorum's state, not of an older one.
            return False
        if not draft.changes:
            _resolve(batch, outcomes)
            return True
        number = mirror.number + 1
        writer = f"{self._session.name}/{self._writer}/{next(self._entry_numbers)}"
        entry, node_writes = draft.finish(writer, self._layout)
        writes = [
            Write(Do.SET, self._layout.head, version=mirror.number),
            Write(Do.CREATE, self._layout.change(number), encode_entry(entry)),
            *node_writes,
        ]
        _check_size(writes)
        self._unanswered[writer] = outcomes
        try:
            zxid = await self._session.multi(writes)
        except Refused as refused:
            del self._unanswered[writer]
            failed = writes[refused.index].path
            if refused.index != 0 and not failed.startswith(f"{self._layout.registered}/"):
                # The nodes do not match the entries: another program wrote them. Use the nodes.
                await self._follower.read_everything()
            return False
        self._follower.take(number, entry._replace(changes=with_epochs(entry.changes, zxid)))
        _resolve(batch, outcomes)
        if number % _TRIMMED_EVERY == 0:
            self._spawn(self._trim(number - self._entries_kept))
        return True

    def _forget_unanswered(self) -> None:
        self._unanswered.clear()
        self._found = None
        self._found_nothing = False

    def _entries_were_trimmed(self) -> None:
        self._found_nothing = bool(self._unanswered)

    def _entry_was_read(self, entry: Entry) -> None:
        self._found = self._unanswered.get(entry.writer, self._found)

    async def _trim(self, last: int) -> None:
        """Remove the entries up to this one."""
        try:
            names = await self._session.children(self._layout.changes) or ()
            old = [name for name in names if int(name) <= last]
            await self._session.delete_all([f"{self._layout.changes}/{name}" for name in old])
        except (ConnectionLost, StoreError):
            # The next hundred are trimmed by their writer.
            pass
        except Exception:
            log.exception("failed to trim the change log in ZooKeeper")

    async def _patiently(self, act: Callable[[], Awaitable[None]]) -> None:
        """Act, again after every lost connection, for as long as the session's timeout."""
        try:
            async with asyncio.timeout(self._session.timeout):
                while True:
                    await self._session.connected.wait()
                    self._session.check_alive()
                    try:
                        return await act()
                    except ConnectionLost:
                        await asyncio.sleep(_PAUSE_AFTER_A_LOSS)
        except TimeoutError:
            raise self._no_answer() from None

    def _no_answer(self) -> StoreError:
        return StoreError(f"ZooKeeper has not answered for {self._session.timeout:g} seconds")

    def _session_ended(self, reason: str) -> None:
        self._follower.listener = None
        self._refuse_what_waits()
        for callback in self._end_callbacks:
            callback(reason)

    def _refuse_what_waits(self) -> None:
        waiting, self._waiting = self._waiting, []
        _fail(waiting, SessionEnded("ZooKeeper session ended"))

    def _spawn(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task


def _judge(draft: Draft, one: _Waiting) -> _Outcome:
    try:
        if one.registers:
            return draft.register(one.ops)
        return draft.commit(one.ops)
    except Conflict as conflict:
        return conflict


def _check_size(writes: Sequence[Write]) -> None:
    size = sum(len(one.path) + len(one.content) + _BYTES_AROUND_A_WRITE for one in writes)
    if size > LARGEST_MULTI:
        raise _TooLargeError(
            f"the change is too large for ZooKeeper: {size} bytes of at most {LARGEST_MULTI}"
        )


def _resolve(batch: Sequence[_Waiting], outcomes: Sequence[_Outcome]) -> None:
    for one, outcome in zip(batch, outcomes, strict=True):
        if one.done.done():
            continue
        if isinstance(outcome, Conflict):
            one.done.set_exception(outcome)
        else:
            one.done.set_result(outcome)


def _fail(batch: Sequence[_Waiting], error: StoreError) -> None:
    for one in batch:
        if not one.done.done():
            # Each gets its own: an exception that is raised twice grows a traceback of both.
            one.done.set_exception(type(error)(str(error)))
