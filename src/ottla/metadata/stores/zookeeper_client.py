"""kazoo's client, made to leave servers that do not answer while the session is still alive.

1. The first attempt to connect to each server takes at most a sixth of the session's timeout.
   kazoo would wait for all of it, and find the session over. After each round without success the
   attempts may take twice as long, up to the session's timeout: servers that are slow, not dead,
   would never be waited for otherwise.
2. Servers are tried in a round that is shuffled once. kazoo would shuffle each round, and might
   begin the next with the server that has just failed.
3. The negotiated timeout is reported: kazoo uses it and does not keep it.
4. An answer to another request than the one that waits (after a connection that broke at a bad
   moment) costs the connection. kazoo would end with a traceback, and the session with it.
5. A request without a connection is refused at once. kazoo would keep it for the next connection,
   and carry out what its sender has long abandoned.
6. kazoo writes a line for every attempt. Only the last one is kept, for the log line that says
   what is wrong.
"""

import logging
import socket
from collections.abc import Callable
from random import Random
from threading import RLock
from typing import Any

# kazoo has no types.
from kazoo.client import KazooClient  # type: ignore[import-untyped]
from kazoo.exceptions import ConnectionDropped, ConnectionLoss  # type: ignore[import-untyped]
from kazoo.handlers.threading import (  # type: ignore[import-untyped]
    SequentialThreadingHandler,
)
from kazoo.protocol.states import KeeperState  # type: ignore[import-untyped]

from ottla.metadata.stores.zookeeper_address import ZooKeeperAddress

_CHANCE = Random()  # of its own: a program that embeds a broker may seed the other
_SHORTEST_ATTEMPT = 0.1


class _Attempts:
    """How long an attempt to connect may take. Used in kazoo's connection thread alone."""

    def __init__(self, servers: int, session_timeout: float) -> None:
        self._servers = servers
        self._longest = session_timeout
        self._failed = 0

    def begin(self) -> None:
        """An attempt begins; it counts as failed until `succeeded`."""
        self._failed += 1

    def succeeded(self) -> None:
        """The next attempts are short again."""
        self._failed = 0

    def seconds(self, first: float) -> float:
        """What `first`, right for the first round, has become in this one."""
        rounds = max(self._failed - 1, 0) // self._servers
        return max(first, min(first * (1 << min(rounds, 10)), self._longest))


class LastWarning(logging.Handler):
    """Keeps the last message."""

    def __init__(self) -> None:
        super().__init__()
        self.text = "no server answered"

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage().splitlines()[0]
        if not text.startswith("Transition"):
            self.text = text


def make_client(
    address: ZooKeeperAddress,
    timeout: float,
    complaints: LastWarning,
    on_negotiated: Callable[[float], None],
) -> Any:
    """A KazooClient, not started; `on_negotiated` is called in its thread, with seconds."""
    logger = logging.Logger("ottla.zookeeper", logging.WARNING)
    logger.addHandler(complaints)
    hosts = address.host_texts()
    _CHANCE.shuffle(hosts)
    attempts = _Attempts(len(hosts), timeout)
    client = KazooClient(
        ",".join(hosts),
        timeout=timeout,
        handler=_handler(lambda: attempts.seconds(max(timeout / 6, _SHORTEST_ATTEMPT))),
        randomize_hosts=False,
        connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 1.0},
        logger=logger,
        **address.security.client_options(),
    )
    connect, invoke = client._connection._connect, client._connection._invoke

    def invoke_in_time(seconds: float, *args: Any, **kwargs: Any) -> Any:
        return invoke(attempts.seconds(seconds), *args, **kwargs)

    client._connection._invoke = invoke_in_time

    def connect_and_tell(*args: Any) -> Any:
        attempts.begin()
        read_timeout, connect_timeout = connect(*args)
        attempts.succeeded()
        # In milliseconds, and kazoo reads for two thirds of what was negotiated.
        on_negotiated(read_timeout * 1.5 / 1000)
        return read_timeout, connect_timeout

    client._connection._connect = connect_and_tell
    read_response = client._connection._read_response

    def read_or_drop(*args: Any) -> Any:
        try:
            return read_response(*args)
        except RuntimeError as mismatch:
            raise ConnectionDropped(str(mismatch)) from None

    client._connection._read_response = read_or_drop
    _refuse_while_cut_off(client)
    return client


def _refuse_while_cut_off(client: Any) -> None:
    # kazoo's thread changes the state and then drops what is queued; nothing may come in between.
    lock = RLock()
    session_callback, call = client._session_callback, client._call

    def change_state(state: Any) -> None:
        with lock:
            session_callback(state)

    def call_or_refuse(request: Any, answer: Any) -> Any:
        with lock:
            if client._state == KeeperState.CONNECTING:
                answer.set_exception(ConnectionLoss())
                return False
            return call(request, answer)

    client._session_callback = change_state
    client._call = call_or_refuse


def drop_connection(client: Any) -> None:
    """Drop the connection, as if the server were gone."""
    connection = client._connection._socket
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except (AttributeError, OSError):
        # There is none, or it is gone already.
        pass


def _handler(longest_attempt: Callable[[], float]) -> Any:
    handler = SequentialThreadingHandler()
    connect = handler.create_connection

    def connect_soon(*args: Any, **kwargs: Any) -> Any:
        return connect(*args, **{**kwargs, "timeout": longest_attempt()})

    create_pair = handler.create_socket_pair

    def pair_that_never_blocks() -> Any:
        reader, writer = create_pair()
        # Requests wake kazoo's thread through it, and callers must not wait for that thread.
        writer.setblocking(False)
        return reader, writer

    handler.create_connection = connect_soon
    handler.create_socket_pair = pair_that_never_blocks
    return handler
