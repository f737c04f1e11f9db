"""The listening sockets, and all connections behind them.

Rules kept here:
1. `max.connections` is a promise about memory: past it nothing is accepted, and the kernel's
   backlog waits. So it does past `max.connection.creation.rate`, until the second is over.
   `max.connections.per.ip` closes what is over it at once. A listener that has as many as
   `listener.name.X.max.connections` accepts nobody; the others continue.
2. A connection on which no request waits, and nothing has moved for `connections.max.idle.ms`, is
   closed. So is one whose client has gone while nobody read from it.
3. Connections and logs share the file descriptors: connections leave the logs some, and leave some
   for flushes and checkpoints. When there are no more, accepting pauses; it does not spin.
4. The end waits for requests that are being worked on, for a moment.
5. Replies leave at the end of the loop's turn in which they are made, those of all connections
   together: what coordinators let linger is written once for all of them, and a client that talks
   over many connections is woken once.
6. Clients that are not authenticated yet are few and have little time (`arrivals.py`), and frames
   that are being received share a bounded memory (`budget.py`).
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import select
import socket
from collections import Counter
from collections.abc import Collection, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog

from ottla.broker.metrics.counters import NetworkMetrics
from ottla.config.listeners import Listener
from ottla.security.principal import Principal
from ottla.server.arrivals import Arrivals
from ottla.server.budget import DEFAULT_BYTES, FrameBudget
from ottla.server.connection import Connection
from ottla.server.handshakes import Handshakes
from ottla.server.inbox import SHARED_BYTES
from ottla.server.listening import ListenError, bind, why

if TYPE_CHECKING:
    from ottla.broker.broker_server import BrokerServer
    from ottla.server.door import Door

log = structlog.get_logger()

ACCEPTED_IN_ONE_TURN: Final = 100
PAUSE_SECONDS: Final = 0.5
RATE_SECONDS: Final = 1.0
BUFFER_KEPT_SECONDS: Final = 5.0
SWEEP_SECONDS: Final = 5.0
CIPHERTEXT_BYTES: Final = 256 << 10
ARRIVALS_BYTES: Final = 32 << 20
"""For the frames of clients that are not authenticated."""
SWEPT_IN_ONE_TURN: Final = 500
REQUESTS_MAY_TAKE_SECONDS: Final = 2.0
"""At the end; longer waits are those of clients for each other, and the clients have gone."""
FILES_ARE_SHORT: Final = "close to the limit of open files; raise it (ulimit -n)"
_GONE: Final = select.POLLHUP | select.POLLERR
"""Not POLLRDHUP: a client that sends nothing more may still wait for replies."""
_OUT_OF_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

T = TypeVar("T")


class Server:
    """Accepts clients and keeps their connections."""

    def __init__(self, node: BrokerServer, metrics: NetworkMetrics, doors: Sequence[Door]) -> None:
        self.node = node
        self._doors = {door.name: door for door in doors}
        node.lifecycle.on_fenced = self._hang_up
        self.lingering = node.coordinators.lingering
        self.lingering.on_lost = self._close_lost
        self.loop = asyncio.get_running_loop()
        self.metrics = metrics
        self.receive_buffer = memoryview(bytearray(SHARED_BYTES))
        has_tls = any(door.has_tls for door in doors)
        self.ciphertext = memoryview(bytearray(CIPHERTEXT_BYTES if has_tls else 0))
        """Where all TLS connections receive to."""
        self.gathered = memoryview(bytearray(CIPHERTEXT_BYTES if has_tls else 0))
        """What they encrypt from."""
        self.budget = FrameBudget(max(DEFAULT_BYTES, node.config.socket_request_max_bytes))
        self.arrivals_budget = FrameBudget(ARRIVALS_BYTES)
        self.arrivals = Arrivals(self.loop)
        self.handshakes = Handshakes(self.loop)
        self.connections: dict[Connection, None] = {}
        self._by_host: dict[str, int] = {}
        self._by_listener: Counter[str] = Counter()
        self._full_listeners: set[str] = set()
        """Those that have their `max.connections`, and accept nobody until one has gone."""
        self._listening: list[tuple[socket.socket, Door]] = []
        self._reloading = False
        self._accepting = False
        self._numbers = 0
        self._sweep: asyncio.Handle | None = None
        self._resume: asyncio.TimerHandle | None = None
        self._full = False
        self._second_ends = 0.0
        self._accepted_in_second = 0
        self._files = _FileShares(node.file_cache.limit)
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._to_send: dict[Connection, None] = {}

    def listen(self, listeners: Sequence[Listener]) -> dict[str, int]:
        """Bind every listener; returns the port that each one got."""
        ports: dict[str, int] = {}
        try:
            for listener in listeners:
                bound = bind(listener, listeners)
                door = self._doors[listener.name]
                self._listening += ((sock, door) for sock in bound)
                for sock in bound:
                    sock.listen(self.node.config.socket_listen_backlog_size)
                ports[listener.name] = bound[0].getsockname()[1]
        except OSError as problem:  # another program has begun to listen there just now
            self._close_listening()
            raise ListenError(
                f"cannot listen on {listener.host}:{listener.port}: {why(problem)}"
            ) from None
        except ListenError:
            self._close_listening()
            raise
        return ports

    def start(self) -> None:
        """Begin to accept clients."""
        self._accept_again()
        for door in self._doors.values():
            door.start()
        if any(door.offloads for door in self._doors.values()):
            log.info("the kernel encrypts what TLS connections send (ottla.tls.offload)")
        self._sweep = self.loop.call_later(SWEEP_SECONDS, self._sweep_idle)

    def _accept_again(self) -> None:
        self._resume = None
        if self._accepting:
            return
        if self._files.are_short():
            self._pause_accepting(FILES_ARE_SHORT)
            return
        self._accepting = True
        self._full_listeners.clear()
        for sock, door in self._listening:
            self.loop.add_reader(sock.fileno(), self._on_client, sock, door)

    def _stop_accepting(self) -> None:
        if self._accepting:
            self._accepting = False
            for sock, _ in self._listening:
                self.loop.remove_reader(sock.fileno())

    def _on_client(self, listening: socket.socket, door: Door) -> None:
        for _ in range(ACCEPTED_IN_ONE_TURN):
            most = self.node.config.max_connections
            if len(self.connections) >= most:
                self._tell_full(f"limit max.connections={most} reached")
                self._stop_accepting()
                return
            if self._by_listener[door.name] >= (most := self._most_of(door)):
                self._tell_full(f"limit max.connections={most} of {door.name} reached")
                self._full_listeners.add(door.name)
                self.loop.remove_reader(listening.fileno())
                return
            if self._is_too_fast():
                rate = self.node.config.max_connection_creation_rate
                wait = self._second_ends - self.loop.time()
                self._pause_accepting(f"limit max.connection.creation.rate={rate} reached", wait)
                return
            try:
                sock, address = listening.accept()
            except BlockingIOError:
                self._full = False
                return
            except OSError as problem:
                if problem.errno in _OUT_OF_ROOM:
                    self._pause_accepting(str(problem.strerror))
                    return
                continue
            self._accepted_in_second += 1
            if self.node.quotas.connected(address[0]) > 0:
                sock.close()  # connection_creation_rate of the address
                continue
            self._admit(sock, address[0], door)
            if sock.fileno() > self._files.last_for_connections:
                self._pause_accepting(FILES_ARE_SHORT)
                return

    def _most_of(self, door: Door) -> int:
        """`listener.name.X.max.connections`."""
        most = self.node.config.listener_value(door.name, "max.connections")
        assert isinstance(most, int)
        return most

    def _tell_full(self, reason: str) -> None:
        """Say once that clients have to wait."""
        if not self._full:
            self._full = True
            log.warning(
                "not accepting connections", reason=reason, connections=len(self.connections)
            )

    def _is_too_fast(self) -> bool:
        """True if this second has had its connections."""
        now = self.loop.time()
        if now >= self._second_ends:
            self._second_ends = now + RATE_SECONDS
            self._accepted_in_second = 0
        return self._accepted_in_second >= self.node.config.max_connection_creation_rate

    def _pause_accepting(self, reason: str, seconds: float = PAUSE_SECONDS) -> None:
        self._tell_full(reason)
        self._stop_accepting()
        self._resume = self.loop.call_later(seconds, self._accept_again)

    def _admit(self, sock: socket.socket, host: str, door: Door) -> None:
        if self.node.state.fenced:
            sock.close()
            return
        config = self.node.config
        here = self._by_host.get(host, 0)
        if here >= config.connections_per_ip_overrides.get(host, config.max_connections_per_ip):
            sock.close()
            return
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if config.socket_send_buffer_bytes > 0:
                sock.setsockopt(
                    socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes
                )
            if config.socket_receive_buffer_bytes > 0:
                sock.setsockopt(
                    socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes
                )
        except OSError:  # the client has gone already
            sock.close()
            return
        self._numbers += 1
        self._by_host[host] = here + 1
        connection = _kind(door)(self, sock, host, door, self._numbers)
        self.connections[connection] = None
        self._by_listener[door.name] += 1
        if door.has_tls or door.has_sasl:
            self.arrivals.add(connection, config.ottla_handshake_timeout_ms / 1000)
        self.metrics.accepted += 1
        self._count()

    def _count(self) -> None:
        connections = len(self.connections)
        self.metrics.connections = connections
        if connections >= self._files.unshared:
            self.node.file_cache.limit = self._files.for_logs(connections)

    def forget(self, connection: Connection) -> None:
        """A connection has closed."""
        self.connections.pop(connection, None)
        self.arrivals.remove(connection)
        self._by_listener[connection.listener] -= 1
        self.node.sharing.connection_closed(connection.id)
        self._count()
        left = self._by_host[connection.client_host] - 1
        if left:
            self._by_host[connection.client_host] = left
        else:
            del self._by_host[connection.client_host]
        if self._resume is None and self._listening:
            if not self._accepting:
                self._accept_again()
            elif connection.listener in self._full_listeners:
                self._listen_again()

    def _listen_again(self) -> None:
        """Accept on all listeners: those that are still full find it out by themselves."""
        self._full_listeners.clear()
        for sock, door in self._listening:
            self.loop.add_reader(sock.fileno(), self._on_client, sock, door)

    def _sweep_idle(self) -> None:
        self._sweep_some(list(self.connections))

    def _sweep_some(self, left: list[Connection]) -> None:
        """Close what is idle or gone; thousands of connections are looked at in several turns."""
        now = self.loop.time()
        allowed = self.node.config.connections_max_idle_ms / 1000
        for connection in left[-SWEPT_IN_ONE_TURN:]:
            if connection.closed():
                continue
            quiet = now - connection.last_active
            if (quiet > allowed >= 0 and connection.idle) or (
                connection.deaf and _gone(connection)
            ):
                connection.close()
            elif connection.is_overdue(now):
                log.info(
                    "connection closed",
                    client=connection.client_host,
                    reason="request did not arrive in time",
                )
                connection.close()
            elif quiet > BUFFER_KEPT_SECONDS:
                connection.release_buffer()
        del left[-SWEPT_IN_ONE_TURN:]
        if left:
            self._sweep = self.loop.call_soon(self._sweep_some, left)
            return
        if self._resume is None and self._listening:
            self._accept_again()  # max.connections may have been raised
            if self._full_listeners:
                self._listen_again()
        self.reload_certificates()
        self._sweep = self.loop.call_later(SWEEP_SECONDS, self._sweep_idle)

    # Security -----------------------------------------------------------------------------

    def reload_certificates(self) -> None:
        """Let a thread load the certificates whose files or settings have changed."""
        changed = [
            (door, listener)
            for listener in self.node.config.bound_listeners
            if (door := self._doors[listener.name]).has_tls
            and door.has_changed(self.node.config, listener)
        ]
        if not changed or self._reloading:
            return
        self._reloading = True
        config = self.node.config

        def reload() -> None:
            for door, listener in changed:
                door.reload(config, listener)

        def done(_: object) -> None:
            self._reloading = False

        self.loop.run_in_executor(None, reload).add_done_callback(done)

    def close_sessions(self, principals: Collection[Principal]) -> None:
        """Close the connections of users that were removed, or that must log in again."""
        for connection in [each for each in self.connections if each.principal in principals]:
            log.info(
                "connection closed",
                client=connection.client_host,
                reason=f"credentials of {connection.principal} were changed",
            )
            connection.close()

    # Sending ------------------------------------------------------------------------------

    def send_soon(self, connection: Connection) -> None:
        """Send a connection's replies at the end of the loop's turn."""
        if not self._to_send:
            self.loop.call_soon(self._send_all)
        self._to_send[connection] = None

    def _send_all(self) -> None:
        if self.lingering.pending:
            self.lingering.write_out()
        connections, self._to_send = self._to_send, {}
        for connection in connections:
            try:
                connection.send()
            except Exception:
                log.exception("failed to send responses; closing the connection")
                connection.close()

    def _close_lost(self, lost: set[int]) -> None:
        """Close the connections whose replies say what has not become true."""
        for connection in [each for each in self.connections if each.id in lost]:
            connection.close()

    def start_task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work on a request that has to wait for something."""
        task = self.loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def _close_listening(self) -> None:
        self._stop_accepting()
        for sock, _ in self._listening:
            sock.close()
        self._listening.clear()

    def _hang_up(self) -> None:
        """Let all clients go elsewhere, with what was answered already."""
        self._send_all()
        for connection in list(self.connections):
            connection.close()

    def close(self) -> None:
        """Stop accepting clients, and close every connection."""
        if self._resume is not None:
            self._resume.cancel()
        if self._sweep is not None:
            self._sweep.cancel()
        self._close_listening()
        self._hang_up()
        self.arrivals.stop()
        self.handshakes.stop()
        for door in self._doors.values():
            door.stop()

    async def stop(self) -> None:
        """Close, and let the requests that are being worked on end."""
        self.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=REQUESTS_MAY_TAKE_SECONDS)
            waiting = list(self._tasks)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


def _kind(door: Door) -> type[Connection]:
    """Which connections a listener has; those of TLS load a library that costs start-up time."""
    if not door.has_tls:
        return Connection
    if door.offloads:
        from ottla.server.kernel_tls_connection import KernelTlsConnection

        return KernelTlsConnection
    from ottla.server.tls_connection import TlsConnection

    return TlsConnection


class _FileShares:
    """How the process's file descriptors are shared out."""

    def __init__(self, most_for_logs: int) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = 1 << 20 if soft == resource.RLIM_INFINITY else min(soft, 1 << 20)
        self._spare = min(128, self._most // 8)
        """For flushes, checkpoints, the metadata store."""
        self._most_for_logs = most_for_logs
        self._least_for_logs = min(1024, self._most // 8)
        # The logs give way before the next clients come: a full turn of them finds room.
        self._beside_connections = self._most - self._spare - min(128, self._most // 8)
        self.unshared = self._beside_connections - most_for_logs
        """This many connections take no files from the logs."""
        # Descriptors are given out lowest first: a high one says that few are left.
        self.last_for_connections = self._most - self._spare

    def are_short(self) -> bool:
        """True if another connection would take what is spared."""
        try:
            next_one = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return True
        os.close(next_one)
        return next_one > self.last_for_connections

    def for_logs(self, connections: int) -> int:
        """How many files the logs may keep open beside this many connections."""
        left = self._beside_connections - connections
        return max(self._least_for_logs, min(self._most_for_logs, left))


def _gone(connection: Connection) -> bool:
    """True if the connection is broken."""
    poll = select.poll()
    poll.register(connection.fileno(), _GONE)
    return bool(poll.poll(0))
