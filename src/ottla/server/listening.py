"""The addresses that a broker listens on: which they are, and sockets bound to them.

Rules kept here:
1. `localhost` and all interfaces are both address families; a machine that lacks one serves the
   other.
2. A taken port is found before anything is written: `check_free` binds and lets go. Clients are
   refused until the broker can answer, so the port is not held from then on.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.config.listeners import Listener


class ListenError(Exception):
    """An address could not be bound; the text says which and why."""


def check_free(config: BrokerConfig) -> None:
    """Raise ListenError where a port that a broker needs is taken."""
    listeners = config.bound_listeners
    for listener in listeners:
        for sock in bind(listener, listeners):
            sock.close()
    host, port = config.ottla_metrics_host, config.ottla_metrics_port
    if port > 0:
        try:
            _bound_socket(host, port).close()
        except OSError as problem:
            raise ListenError(f"cannot serve metrics on {host}:{port}: {why(problem)}") from None


def bind(listener: Listener, among: Sequence[Listener]) -> list[socket.socket]:
    """Sockets bound to a listener's addresses, on one port; not listening yet."""
    port = listener.port
    bound: list[socket.socket] = []
    problem: OSError | None = None
    for host in hosts_to_bind(listener, among):
        try:
            sock = _bound_socket(host, port)
        except OSError as refused:
            if refused.errno == errno.EADDRINUSE:
                for other in bound:
                    other.close()
                raise ListenError(f"cannot listen on {host}:{port}: {why(refused)}") from None
            problem = refused
            continue
        port = port or sock.getsockname()[1]
        bound.append(sock)
    if not bound:
        reason = why(problem) if problem else "no such address"
        raise ListenError(f"cannot listen on {listener.host}:{listener.port}: {reason}")
    return bound


def why(problem: OSError) -> str:
    """Why an address could not be bound, for people."""
    if problem.errno == errno.EADDRINUSE:
        return "address already in use"
    return problem.strerror or str(problem)


def _bound_socket(host: str, port: int) -> socket.socket:
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
    except OSError:
        sock.close()
        raise
    return sock


def hosts_to_bind(listener: Listener, among: Sequence[Listener]) -> tuple[str, ...]:
    """Both address families for all interfaces and for localhost.

    As in Kafka `::` is both too, unless another listener has the port in the other family.
    """
    host = listener.host
    shares = listener.port and sum(each.port == listener.port for each in among) > 1
    if not host or (host == "::" and not shares):
        return ("0.0.0.0", "::")
    if host.lower() == "localhost":
        return ("127.0.0.1", "::1")
    return (host,)
