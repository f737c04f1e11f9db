"""What stands for kazoo's client: the calls that the ZooKeeper session makes, over simulated links.

Rules kept here:
1. The connection's thread belongs to the process: it pings while the process runs, not while it is
   paused, and notices a silent server after two thirds of the timeout.
2. Requests without a connection are refused at once. Those under way when it breaks get no answer,
   whether they were carried out or not.
3. A session that the server has forgotten is reported as lost, once. Watches go with the
   connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kazoo.exceptions import (  # type: ignore[import-untyped]  # kazoo has no types
    ConnectionLoss,
    KazooException,
)
from kazoo.protocol.states import KazooState  # type: ignore[import-untyped]  # as above

from ottla.simulation.network import Network
from ottla.simulation.process import current_process
from ottla.simulation.zookeeper_server import ZOOKEEPER_HOST, Operation, ZooKeeperServer

RECONNECT_SECONDS: Final = 0.1


class Result:
    """kazoo's result of a request that is under way."""

    def __init__(self) -> None:
        self.value: Any = None
        self.exception: BaseException | None = None
        self._done = False
        self._links: list[Callable[[Result], None]] = []

    def rawlink(self, callback: Callable[[Result], None]) -> None:
        """Call it when there is a result."""
        if self._done:
            callback(self)
        else:
            self._links.append(callback)

    def finish(self, value: Any = None, exception: BaseException | None = None) -> None:
        """The first outcome counts."""
        if self._done:
            return
        self._done = True
        self.value, self.exception = value, exception
        for link in self._links:
            link(self)


class Transaction:
    """A multi that is being put together."""

    def __init__(self, client: SimulatedKazoo) -> None:
        self._client = client
        self._operations: list[Operation] = []

    def check(self, path: str, version: int) -> None:
        self._operations.append(Operation("check", path, version=version))

    def create(self, path: str, content: bytes, ephemeral: bool = False) -> None:
        self._operations.append(Operation("create", path, content, ephemeral=ephemeral))

    def set_data(self, path: str, content: bytes, version: int = -1) -> None:
        self._operations.append(Operation("set", path, content, version))

    def delete(self, path: str, version: int = -1) -> None:
        self._operations.append(Operation("delete", path, version=version))

    def commit_async(self) -> Result:
        operations = list(self._operations)
        client = self._client
        return client.ask(lambda: client.server.multi(client.number, operations))


class SimulatedKazoo:
    """A client of one process."""

    def __init__(
        self,
        server: ZooKeeperServer,
        network: Network,
        timeout: float,
        on_negotiated: Callable[[float], None],
    ) -> None:
        self.server = server
        self.number = 0
        self._network = network
        self._timeout = timeout
        self._on_negotiated = on_negotiated
        self._loop = asyncio.get_running_loop()
        self._process = current_process()
        self._listeners: list[Callable[[object], None]] = []
        self._connected = False
        self._stopped = False
        self._connection = 0
        """Counts connections: what belongs to an earlier one is dropped."""
        self._answered = 0.0
        self._pending: dict[Result, None] = {}
        self._watchers: dict[tuple[str, str], dict[Callable[[object], None], None]] = {}
        self._sent_until = 0.0
        self._received_until = 0.0
        self._notify: Callable[[str, str], None] | None = None

    # What the session calls ---------------------------------------------------------------

    def add_listener(self, listener: Callable[[object], None]) -> None:
        self._listeners.append(listener)

    def start_async(self) -> None:
        self._try_to_connect()
        self._ping()

    def transaction(self) -> Transaction:
        return Transaction(self)

    def create_async(
        self,
        path: str,
        content: bytes,
        acl: object = None,
        ephemeral: bool = False,
        sequence: bool = False,
    ) -> Result:
        return self._ask(Operation("create", path, content, ephemeral=ephemeral, sequence=sequence))

    def set_async(self, path: str, content: bytes) -> Result:
        return self._ask(Operation("set", path, content))

    def get_async(self, path: str) -> Result:
        return self._ask(Operation("get", path))

    def delete_async(self, path: str) -> Result:
        return self._ask(Operation("delete", path))

    def sync_async(self, path: str) -> Result:
        return self._ask(Operation("sync", path))

    def exists_async(self, path: str, watch: Callable[[object], None] | None = None) -> Result:
        return self._ask(Operation("exists", path, watch=watch is not None), watch)

    def get_children_async(
        self, path: str, watch: Callable[[object], None] | None = None
    ) -> Result:
        return self._ask(Operation("get_children", path, watch=watch is not None), watch)

    def stop(self) -> None:
        """End the session, if the server can be reached."""
        if self._stopped:
            return
        self._stopped = True
        number, server = self.number, self.server
        if self._connected:
            self._send(lambda: server.end_session(number) if server.has_quorum else None)
        self._break()

    def close(self) -> None:
        """Nothing is left open."""

    def drop(self) -> None:
        """Break the connection, and make another."""
        if self._connected:
            self._lose_connection()

    # The connection -----------------------------------------------------------------------

    def _try_to_connect(self) -> None:
        if self._stopped or self._connected:
            return
        attempt = self._connection = self._connection + 1
        self._sent_until = self._received_until = 0.0

        def notify(kind: str, path: str) -> None:
            self._answer(attempt, lambda: self._fired(kind, path))

        def arrive() -> None:
            if not self.server.has_quorum:
                return
            number = self.server.connect(self.number, self._timeout, self._process.host, notify)
            self._answer(attempt, lambda: self._connected_as(number, notify))

        self._send(arrive)
        self._loop.call_later(RECONNECT_SECONDS + self._network.delay(), self._again, attempt)

    def _again(self, attempt: int) -> None:
        if attempt == self._connection and not self._connected:
            self._try_to_connect()

    def _connected_as(self, number: int, notify: Callable[[str, str], None]) -> None:
        if self._stopped:
            return
        if number < 0:
            self._stopped = True
            self._tell(KazooState.LOST)
            return
        self.number = number
        self._notify = notify
        self._connected = True
        self._answered = self._loop.time()
        self._on_negotiated(self._timeout)
        self._tell(KazooState.CONNECTED)

    def _ping(self) -> None:
        if self._stopped:
            return
        if self._connected:
            if self._loop.time() - self._answered > self._timeout * 2 / 3:
                self._lose_connection()
            else:
                number, attempt = self.number, self._connection

                def arrive() -> None:
                    if self.server.has_quorum:
                        self.server.hear(number)
                        self._answer(attempt, lambda: None)

                self._send(arrive)
        self._loop.call_later(self._timeout / 6, self._ping)

    def _lose_connection(self) -> None:
        self._break()
        self._tell(KazooState.SUSPENDED)
        self._try_to_connect()

    def _break(self) -> None:
        self._connection += 1
        was_connected, self._connected = self._connected, False
        if was_connected and self._notify is not None:
            self.server.disconnect(self.number, self._notify)
        self._watchers.clear()
        pending, self._pending = self._pending, {}
        for result in pending:
            result.finish(exception=ConnectionLoss())

    def _tell(self, state: object) -> None:
        for listener in self._listeners:
            listener(state)

    def _fired(self, kind: str, path: str) -> None:
        for watcher in self._watchers.pop((kind, path), {}):
            watcher(path)

    # Requests -----------------------------------------------------------------------------

    def _ask(self, operation: Operation, watch: Callable[[object], None] | None = None) -> Result:
        if watch is not None:
            kind = "node" if operation.name == "exists" else "children"
            self._watchers.setdefault((kind, operation.path), {})[watch] = None
        return self.ask(lambda: self.server.execute(self.number, operation))

    def ask(self, execute: Callable[[], Any]) -> Result:
        """Let the server execute something, and answer."""
        result = Result()
        if not self._connected or self._stopped:
            result.finish(exception=ConnectionLoss())
            return result
        self._pending[result] = None
        attempt = self._connection

        def arrive() -> None:
            server = self.server
            if not server.has_quorum:
                return
            if self.number not in server.sessions:
                self._answer(attempt, self._lose_connection)
                return
            try:
                value = execute()
            except KazooException as problem:
                failure = problem
                self._answer(attempt, lambda: self._finish(result, None, failure))
            else:
                self._answer(attempt, lambda: self._finish(result, value, None))

        self._send(arrive)
        return result

    def _finish(self, result: Result, value: Any, problem: BaseException | None) -> None:
        self._pending.pop(result, None)
        result.finish(value, problem)

    def _send(self, arrive: Callable[[], None]) -> None:
        """To the server, in order."""
        self._sent_until = self._network.deliver(
            self._process.host, ZOOKEEPER_HOST, self._sent_until, arrive
        )

    def _answer(self, attempt: int, receive: Callable[[], None]) -> None:
        """From the server, in order; to a process that may be dead by then, or paused."""
        context = self._process.context()

        def arrive() -> None:
            self._loop.call_soon(take, context=context)

        def take() -> None:
            if attempt == self._connection:
                self._answered = self._loop.time()
                receive()

        self._received_until = self._network.deliver(
            ZOOKEEPER_HOST, self._process.host, self._received_until, arrive
        )
