"""The listening sockets, and all connections behind them.

Rules kept here:
1. `max.connections` is a promise about memory: past it nothing is accepted, and the kernel's
   backlog waits. `max.connections.per.ip` closes what is over it at once.
2. A connection on which nothing was under way for `connections.max.idle.ms` is closed.
3. A machine out of file descriptors stops accepting for a moment; it does not spin.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import structlog

from ottla.broker.metrics import NetworkMetrics
from ottla.config.listeners import Listener
from ottla.server.connection import Connection
from ottla.server.inbox import SHARED_BYTES

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = structlog.get_logger()

ACCEPTED_IN_ONE_TURN: Final = 100
PAUSE_SECONDS: Final = 0.5
BUFFER_KEPT_SECONDS: Final = 5.0
SWEEP_SECONDS: Final = 5.0
_OUT_OF_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class ListenError(Exception):
    """An address could not be bound; the text says which and why."""


class Server:
    """Accepts clients and keeps their connections."""

    def __init__(self, node: Node, metrics: NetworkMetrics) -> None:
        self.node = node
        self.loop = asyncio.get_running_loop()
        self.metrics = metrics
        self.receive_buffer = memoryview(bytearray(SHARED_BYTES))
        self.connections: set[Connection] = set()
        self._by_host: dict[str, int] = {}
        self._listening: list[tuple[socket.socket, str]] = []
        self._accepting = False
        self._numbers = 0
        self._sweep: asyncio.TimerHandle | None = None
        self._resume: asyncio.TimerHandle | None = None

    @property
    def largest_request(self) -> int:
        """The largest frame a client may send."""
        return self.node.config.socket_request_max_bytes

    def listen(self, listeners: Sequence[Listener]) -> dict[str, int]:
        """Bind every listener; returns the port that each one got."""
        ports: dict[str, int] = {}
        try:
            for listener in listeners:
                ports[listener.name] = self._bind(listener)
        except ListenError:
            self._close_listening()
            raise
        return ports

    def _bind(self, listener: Listener) -> int:
        bound = 0
        problem: OSError | None = None
        for host in _hosts_to_bind(listener.host):
            try:
                sock = self._listening_socket(host, listener.port or bound)
            except OSError as refused:
                if refused.errno == errno.EADDRINUSE:
                    raise ListenError(
                        f"cannot listen on {host}:{listener.port}: another program listens there"
                    ) from None
                # A machine without IPv6 still serves `localhost` on its other family.
                problem = refused
                continue
            bound = bound or sock.getsockname()[1]
            self._listening.append((sock, listener.name))
        if not bound:
            raise ListenError(
                f"cannot listen on {listener.host}:{listener.port}: "
                f"{problem.strerror if problem else 'no such address'}"
            )
        return bound

    def _listening_socket(self, host: str, port: int) -> socket.socket:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
            sock.listen(self.node.config.socket_listen_backlog_size)
        except OSError:
            sock.close()
            raise
        return sock

    def start(self) -> None:
        """Begin to accept clients."""
        self._accept_again()
        self._sweep = self.loop.call_later(SWEEP_SECONDS, self._sweep_idle)

    def _accept_again(self) -> None:
        self._resume = None
        if self._accepting:
            return
        self._accepting = True
        for sock, name in self._listening:
            self.loop.add_reader(sock.fileno(), self._on_client, sock, name)

    def _stop_accepting(self) -> None:
        if self._accepting:
            self._accepting = False
            for sock, _ in self._listening:
                self.loop.remove_reader(sock.fileno())

    def _on_client(self, listening: socket.socket, listener: str) -> None:
        for _ in range(ACCEPTED_IN_ONE_TURN):
            if len(self.connections) >= self.node.config.max_connections:
                self._stop_accepting()
                return
            try:
                sock, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno in _OUT_OF_ROOM:
                    log.warning("cannot accept a connection", reason=problem.strerror)
                    self._stop_accepting()
                    self._resume = self.loop.call_later(PAUSE_SECONDS, self._accept_again)
                    return
                continue
            self._admit(sock, address[0], listener)

    def _admit(self, sock: socket.socket, host: str, listener: str) -> None:
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
        self.connections.add(Connection(self, sock, host, listener, self._numbers))
        self.metrics.connections = len(self.connections)
        self.metrics.accepted += 1

    def forget(self, connection: Connection) -> None:
        """A connection has closed."""
        self.connections.discard(connection)
        self.metrics.connections = len(self.connections)
        left = self._by_host[connection.client_host] - 1
        if left:
            self._by_host[connection.client_host] = left
        else:
            del self._by_host[connection.client_host]
        if not self._accepting and self._resume is None and self._listening:
            self._accept_again()

    def _sweep_idle(self) -> None:
        now = self.loop.time()
        allowed = self.node.config.connections_max_idle_ms / 1000
        for connection in list(self.connections):
            quiet = now - connection.last_active
            if quiet > allowed >= 0 and connection.idle:
                connection.close()
            elif quiet > BUFFER_KEPT_SECONDS:
                connection.release_buffer()
        self._sweep = self.loop.call_later(SWEEP_SECONDS, self._sweep_idle)

    def _close_listening(self) -> None:
        self._stop_accepting()
        for sock, _ in self._listening:
            sock.close()
        self._listening.clear()

    def stop_listening(self) -> None:
        """Accept nobody any more; connections go on."""
        if self._resume is not None:
            self._resume.cancel()
        self._close_listening()

    def close(self) -> None:
        """Close everything."""
        self.stop_listening()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self.connections):
            connection.close()


def _hosts_to_bind(host: str) -> tuple[str, ...]:
    """Both address families for all interfaces and for localhost."""
    if not host:
        return ("0.0.0.0", "::")
    if host.lower() == "localhost":
        return ("127.0.0.1", "::1")
    return (host,)
