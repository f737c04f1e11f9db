"""One ZooKeeper session, held through kazoo's threads and used from one event loop.

1. kazoo works in threads of its own: results, watches and changes of state come to the loop with
   call_soon_threadsafe, and everything else here runs on the loop.
2. A heartbeat is a write, sent by the loop every sixth of the timeout: only a write is answered by
   the quorum, while a server that is partitioned from it still answers reads and pings. `answered`
   is when the last answered write was sent.
3. A write that is not answered within a quarter of the timeout ends the connection, and the next
   server is tried: kazoo itself notices a silent server only when nothing is sent to it.
4. kazoo keeps the session alive from its own thread, even while the loop hangs. A watchdog thread
   closes the session when the loop has been silent for the whole timeout, as if the process were
   dead: for others it is. At half of the timeout it logs where the loop hangs.
5. kazoo follows an ended session with a new one. This object does not: it is for one session, and
   every multi checks that session's own ephemeral node, so that nothing late is written in another.
6. While no server answers the session may still be alive (without a quorum no session expires), so
   that does not end it. One line is logged when the connection is lost, and one when it is back.
"""

import asyncio
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Lock, Thread, Timer, get_ident
from typing import Any, NamedTuple

import structlog

# kazoo has no types.
from kazoo.exceptions import (  # type: ignore[import-untyped]
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
    WriterNotClosedException,
)
from kazoo.handlers.threading import KazooTimeoutError  # type: ignore[import-untyped]
from kazoo.protocol.states import KazooState  # type: ignore[import-untyped]

from ottla.metadata.clock import boottime
from ottla.metadata.store import SessionEnded, StoreError
from ottla.metadata.stores.zookeeper_address import ZooKeeperAddress
from ottla.metadata.stores.zookeeper_client import LastWarning, drop_connection, make_client
from ottla.metadata.stores.zookeeper_mirror import Do, Write
from ottla.metadata.stores.zookeeper_nodes import FORMAT, Layout

_log = structlog.get_logger()

# kazoo's threads are woken through a socket that holds somewhat more unread bytes than this.
_REQUESTS_IN_FLIGHT = 128
_GRACE_OF_A_CLOSE = 2.0
_PAUSE_AFTER_A_LOSS = 0.05
_CALLS_SHOWN = 8
_NO_ANSWER = (
    ConnectionLoss,
    ConnectionClosedError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    KazooTimeoutError,
    RuntimeError,  # the answer was to another request
)


class ConnectionLost(Exception):  # noqa: N818 -- it names what happened
    """There was no answer; the request may have been carried out or not."""


class Refused(Exception):  # noqa: N818 -- it names what happened
    """A multi was not carried out because of the operation at `index`; nothing has changed."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index


class ZNode(NamedTuple):
    """A node as it was read: `created` and `modified` are the zxids of the commits that did it."""

    content: bytes
    created: int
    modified: int


class NodeVersion(NamedTuple):
    """Which node it is, and how often it was changed."""

    version: int
    created: int


class ZooKeeperSession:
    """A session from `start` until `close`, or until it is ended by others.

    `on_wake` is called when something watched has changed, and after every (re)connection; `on_end`
    once, with the reason, when the session has been ended by others.
    """

    def __init__(
        self,
        address: ZooKeeperAddress,
        timeout: float,
        on_wake: Callable[[], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._address = address
        self._on_wake = on_wake
        self._on_end = on_end
        self.timeout = timeout
        self.answered = 0.0
        self.connected = asyncio.Event()
        self.connections = 0
        """How often it was connected: behind a new connection may be an older copy of the data."""
        self._node = ""
        self._disconnected_since: float | None = None
        self._end_reason: str | None = None
        self._heart: asyncio.Task[None] | None = None
        self._pulse: asyncio.TimerHandle | None = None
        # Shared with threads.
        self._loop_seen = boottime()
        self._loop_thread = get_ident()
        self._stopping = Event()
        self._stop_lock = Lock()
        self._stopper: Thread | None = None
        self._complaint = LastWarning()
        self._client = make_client(address, timeout, self._complaint, self._negotiated)
        self._client.add_listener(self._state_changed)

    def _negotiated(self, timeout: float) -> None:
        # In kazoo's connection thread.
        self.timeout = timeout

    async def start(self, layout: Layout, owner: str, wait: float) -> None:
        """Connect, make the tree where it is missing, and begin to send heartbeats."""
        late = self._loop.call_later(self.timeout, self._connects_late)
        try:
            async with asyncio.timeout(wait):
                self._client.start_async()
                while not self._node:
                    await self.connected.wait()
                    try:
                        await self._prepare(layout, owner)
                    except (ConnectionLost, NoNodeError):
                        # Without a node: someone removes the tree while it is being created.
                        await asyncio.sleep(_PAUSE_AFTER_A_LOSS)
        except TimeoutError:
            complaint = self._complaint.text
            await self.close()
            raise StoreError(
                f"ZooKeeper at {','.join(self._address.host_texts())} cannot be reached within "
                f"{wait:g} seconds: {complaint}"
            ) from None
        except BaseException:
            await self.close()
            raise
        finally:
            late.cancel()
        self._heart = self._loop.create_task(self._beat())
        self._be_seen()
        Thread(target=self._watch_the_loop, name="ottla-store-watchdog", daemon=True).start()

    def _connects_late(self) -> None:
        hosts = ",".join(self._address.host_texts())
        _log.warning("ZooKeeper unreachable; retrying", hosts=hosts, reason=self._complaint.text)

    async def _prepare(self, layout: Layout, owner: str) -> None:
        path = ""
        for segment in layout.folder.strip("/").split("/"):
            path += f"/{segment}"
            await self._make(path)
        for name in await self.children(layout.folder) or ():
            if name.startswith("v") and name[1:].isdigit() and int(name[1:]) > FORMAT:
                raise StoreError(
                    f"ZooKeeper's {layout.folder}: the metadata store was written by a newer "
                    "version of Ottla"
                )
        for path in (layout.root, layout.changes, layout.documents, layout.registered):
            await self._make(path)
        await self._make(layout.sessions)
        await self._make(layout.head)
        node, sent = f"{layout.sessions}/{owner}-", boottime()
        made = await self._request("create", node, owner.encode(), None, True, True)
        self.answered = sent
        self._node = str(made)

    async def _make(self, path: str) -> None:
        try:
            await self._request("create", path, b"")
        except NodeExistsError:
            pass

    async def sync(self, path: str) -> None:
        """Wait until this session's server knows everything that is committed."""
        await self._request("sync", path)

    async def node_version(self, path: str, *, watch: bool = False) -> NodeVersion | None:
        """Whether there is such a node, and which one."""
        stat = await self._request("exists", path, self._watched if watch else None)
        return None if stat is None else NodeVersion(stat.version, stat.czxid)

    async def children(self, path: str, *, watch: bool = False) -> list[str] | None:
        """The names in a folder; None if there is no such folder."""
        try:
            names: list[str] = await self._request(
                "get_children", path, self._watched if watch else None
            )
        except NoNodeError:
            return None
        return names

    async def get_all(self, paths: Sequence[str]) -> list[ZNode | None]:
        """Nodes in the order of the paths; None if there is none."""
        nodes: list[ZNode | None] = []
        for found in await self._all("get", paths):
            if isinstance(found, NoNodeError):
                nodes.append(None)
            elif isinstance(found, BaseException):
                raise found
            else:
                content, stat = found
                nodes.append(ZNode(content, stat.czxid, stat.mzxid))
        return nodes

    async def delete_all(self, paths: Sequence[str]) -> None:
        """Remove nodes that may be gone already."""
        for done in await self._all("delete", paths):
            if isinstance(done, BaseException) and not isinstance(done, NoNodeError):
                raise done

    async def _all(self, method: str, paths: Sequence[str]) -> list[Any]:
        results: list[Any] = []
        for start in range(0, len(paths), _REQUESTS_IN_FLIGHT):
            some = paths[start : start + _REQUESTS_IN_FLIGHT]
            requests = [self._request(method, path) for path in some]
            results += await asyncio.gather(*requests, return_exceptions=True)
        return results

    async def multi(self, writes: Sequence[Write]) -> int:
        """Do all or raise Refused; the zxid. The first write must be a SET."""
        transaction = self._client.transaction()
        transaction.check(self._node, -1)
        for do, path, content, version in writes:
            match do:
                case Do.CREATE | Do.REGISTER:
                    transaction.create(path, content, ephemeral=do is Do.REGISTER)
                case Do.SET:
                    transaction.set_data(path, content, version)
                case Do.DELETE:
                    transaction.delete(path, version)
                case Do.CHECK:
                    transaction.check(path, version)
        sent = boottime()
        results = await self._answer(transaction.commit_async())
        for index, result in enumerate(results):
            if isinstance(result, RolledBackError | RuntimeInconsistency):
                continue
            if isinstance(result, KazooException):
                if index == 0:
                    self.end("its node in ZooKeeper was removed")
                    self.check_alive()
                raise Refused(index - 1, type(result).__name__)
        self.answered = max(self.answered, sent)
        zxid: int = results[1].mzxid
        return zxid

    def check_alive(self) -> None:
        """Raise SessionEnded when it is over."""
        if self._end_reason is not None:
            raise SessionEnded(f"ZooKeeper session ended: {self._end_reason}")

    @property
    def name(self) -> str:
        """A name that no other session has."""
        return self._node.rpartition("/")[2]

    async def close(self) -> None:
        """End the session, if it has not ended, and all threads."""
        if self._end_reason is None:
            self._end_reason = "it was closed"
        self._stop_heart()
        self.connected.set()
        await asyncio.to_thread(self._stop().join)

    def _request(self, method: str, *args: Any) -> "asyncio.Future[Any]":
        self.check_alive()
        return self._answer(getattr(self._client, f"{method}_async")(*args))

    def _answer(self, result: Any) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = self._loop.create_future()
        result.rawlink(lambda result: self._post(_settle, answer, result))
        return answer

    def _watched(self, event: object) -> None:
        self._post(self._on_wake)

    def _state_changed(self, state: object) -> None:
        # In kazoo's connection thread.
        if state == KazooState.LOST:
            self._stop()
            self._post(self.end, "it expired")
        else:
            self._post(self._connection_changed, state == KazooState.CONNECTED)

    def _post(self, function: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            # The loop is closed: there is no listener left.
            pass

    def _connection_changed(self, connected: bool) -> None:
        if self._end_reason is not None:
            return
        if connected:
            if self._disconnected_since is not None:
                seconds = round(boottime() - self._disconnected_since, 1)
                _log.warning("ZooKeeper connection restored", seconds=seconds)
                self._disconnected_since = None
            self.connections += 1
            self.connected.set()
            self._on_wake()
        else:
            if self._disconnected_since is None:
                self._disconnected_since = boottime()
                _log.warning("ZooKeeper connection lost; reconnecting", reason=self._complaint.text)
            self.connected.clear()

    def end(self, reason: str) -> None:
        """Give the session up, for a reason of one line."""
        if self._end_reason is not None:
            return
        self._end_reason = reason
        _log.error("ZooKeeper session ended", reason=reason)
        self._stop_heart()
        self._stop()
        # Waiters for the connection find out that there will be none.
        self.connected.set()
        self._on_end(reason)

    async def _beat(self) -> None:
        try:
            await self._beat_until_the_end()
        except SessionEnded:
            pass
        except Exception as error:  # noqa: BLE001 it is logged
            # Without heartbeats the lease would end and never come back.
            _log.exception("heartbeats failed; ending the session")
            self.end(f"heartbeats failed: {error!r}")

    async def _beat_until_the_end(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self.timeout / 4):
                    await self.connected.wait()
            except TimeoutError:
                continue
            sent = boottime()
            answer = self._request("set", self._node, b"")
            # Not asyncio.timeout: after a turn of the loop that took long, the answer is there too.
            await asyncio.wait([answer], timeout=self.timeout / 4)
            if not answer.done():
                answer.cancel()
                drop_connection(self._client)
                continue
            error = answer.exception()
            if error is None:
                self.answered = max(self.answered, sent)
                await asyncio.sleep(self.timeout / 6)
            elif isinstance(error, NoNodeError):
                self.end("its node in ZooKeeper was removed")
                return
            else:
                await asyncio.sleep(_PAUSE_AFTER_A_LOSS)

    def _be_seen(self) -> None:
        self._loop_seen = boottime()
        self._pulse = self._loop.call_later(self.timeout / 6, self._be_seen)

    def _stop_heart(self) -> None:
        if self._heart is not None and self._pulse is not None:
            self._heart.cancel()
            self._pulse.cancel()

    def _watch_the_loop(self) -> None:
        described = 0.0
        woke = boottime()
        while not self._stopping.wait(self.timeout / 6):
            seen, slept_since, woke = self._loop_seen, woke, boottime()
            silent = woke - seen
            stood_still = woke - slept_since > self.timeout / 2
            if silent > self.timeout / 2 and seen != described:
                described = seen
                if stood_still:
                    # Paused, or the machine was: this thread has not run either.
                    _log.warning("process was paused", seconds=round(silent, 1))
                else:
                    where = _where(self._loop_thread)
                    _log.warning("event loop is blocked", seconds=round(silent, 1), where=where)
            if silent > self.timeout:
                what = "process was paused" if stood_still else "event loop was blocked"
                self._post(self.end, f"the {what} for {silent:.1f} seconds")
                self._stop()
                return

    def _stop(self) -> Thread:
        """Let kazoo end in a thread, for that waits for an answer, and joins kazoo's threads."""
        with self._stop_lock:
            if self._stopper is None:
                self._stopping.set()
                self._stopper = Thread(target=self._stop_kazoo, name="ottla-store-stop")
                self._stopper.daemon = True
                self._stopper.start()
            return self._stopper

    def _stop_kazoo(self) -> None:
        # When the server is silent, the session will end by its timeout.
        give_up = Timer(_GRACE_OF_A_CLOSE, drop_connection, [self._client])
        give_up.start()
        try:
            self._client.stop()
            self._client.close()
        except WriterNotClosedException as error:
            _log.warning("ZooKeeper client did not stop", reason=str(error))
        finally:
            give_up.cancel()


def _where(thread: int) -> str:
    """The innermost calls of a thread, in one line."""
    frame = sys._current_frames().get(thread)
    calls = traceback.extract_stack(frame)[-_CALLS_SHOWN:]
    return " > ".join(f"{Path(one.filename).stem}:{one.lineno} {one.name}" for one in calls)


def _settle(answer: "asyncio.Future[Any]", result: Any) -> None:
    if answer.done():
        return
    error = result.exception
    if error is None:
        answer.set_result(result.value)
    elif isinstance(error, _NO_ANSWER):
        answer.set_exception(ConnectionLost(type(error).__name__))
    elif isinstance(error, NoNodeError | NodeExistsError):
        answer.set_exception(error)
    elif isinstance(error, NoAuthError):
        answer.set_exception(
            StoreError("ZooKeeper denies access to the cluster's nodes; check ottla.zookeeper.auth")
        )
    else:
        answer.set_exception(StoreError(f"ZooKeeper error: {type(error).__name__} {error}"))
