"""A look inside a broker that runs in this process, from the outside of its loop."""

from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import TypeVar

from ottla.embedded import Broker
from ottla.server.connection import Connection
from ottla.server.run import RunningBroker
from ottla.server.server import Server
from testkit.waiting import stretched

T = TypeVar("T")
PATIENCE_SECONDS = 20.0


def running(broker: Broker) -> RunningBroker:
    """The broker's inside."""
    assert broker._running is not None
    return broker._running


def server(broker: Broker) -> Server:
    """What keeps its connections."""
    return running(broker).server


def connections(broker: Broker) -> list[Connection]:
    """The connections that are open now."""
    return on_loop(broker, lambda: list(server(broker).connections))


def on_loop(broker: Broker, function: Callable[[], T]) -> T:
    """Call a function in the broker's loop."""
    assert broker._loop is not None
    result: Future[T] = Future()

    def call() -> None:
        try:
            result.set_result(function())
        except BaseException as problem:  # noqa: BLE001 the caller gets it
            result.set_exception(problem)

    broker._loop.call_soon_threadsafe(call)
    return result.result(stretched(PATIENCE_SECONDS))


def until(broker: Broker, claim: Callable[[], bool]) -> None:
    """Wait until something is so in the broker."""
    deadline = monotonic() + stretched(PATIENCE_SECONDS)
    while not on_loop(broker, claim):
        assert monotonic() < deadline, "it never came"
