"""A reply that cannot be made, though someone waits for it: the connection ends, nothing hangs."""

from asyncio import AbstractEventLoop
from collections.abc import Callable

import pytest

from ottla.api import fetch
from ottla.broker.replicas.delayed_fetch import DelayedFetch
from ottla.broker.replicas.partition import Partition
from ottla.embedded import Broker
from ottla.later import Later
from ottla.server.dispatch import Dispatcher
from ottla.server.interfaces import Answer
from ottla.wire.errors import ErrorCode
from ottla.wire.headers import RequestHeader
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceResponse
from ottla.wire.reply import Parts
from testkit.batches import values
from testkit.raw import ClosedError, Connection
from tests.e2e.asking import FETCH, PRODUCE, From, fetch_request, produce_request
from tests.e2e.conftest import create_topic
from tests.server.inside import connections, server, until

LONG_MS = 60_000
METADATA = 3


@pytest.mark.parametrize(
    "broken", [(fetch, "_reply"), (DelayedFetch, "_try")], ids=["reply", "look"]
)
def test_the_connection_of_a_parked_request_is_closed(
    monkeypatch: pytest.MonkeyPatch, broken: tuple[object, str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no reply today")

    with Broker() as broker, Connection(broker.bootstrap_servers) as writer:
        create_topic(writer, "t")
        with Connection(broker.bootstrap_servers) as reader:
            reader.send(fetch_request(From("t"), max_wait_ms=LONG_MS, min_bytes=1), FETCH)
            until(broker, lambda: any(not each.idle for each in server(broker).connections))
            monkeypatch.setattr(*broken, fail)
            writer.ask(produce_request("t", values(b"v")), ProduceResponse, PRODUCE)
            with pytest.raises(ClosedError):
                reader.receive(FetchResponse, FETCH)
        assert len(connections(broker)) == 1


def test_a_produce_whose_flush_fails_in_an_unforeseen_way_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(_: Partition) -> None:
        raise RuntimeError("no flush today")

    with Broker() as broker, Connection(broker.bootstrap_servers) as writer:
        create_topic(writer, "t", configs={"flush.messages": "1"})
        monkeypatch.setattr(Partition, "flush", fail)
        answer = writer.ask(produce_request("t", values(b"v")), ProduceResponse, PRODUCE)
        code = answer.responses[0].partition_responses[0].error_code
        assert code == ErrorCode.UNKNOWN_SERVER_ERROR


class Panic(BaseException):
    """As native code raises it when it fails in a way that its authors did not foresee."""


def test_a_request_that_panics_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def panics() -> Parts:
        raise Panic

    handle = Dispatcher.handle

    def panic(its: Dispatcher, header: RequestHeader, frame: memoryview) -> Answer:
        if header.api_key == METADATA:
            return its._start_task(panics())
        return handle(its, header, frame)

    monkeypatch.setattr(Dispatcher, "handle", panic)
    with Broker() as broker, Connection(broker.bootstrap_servers) as client:
        client.send(MetadataRequest(topics=[]), 12)
        assert client.wait_until_closed() == b""
        until(broker, lambda: not server(broker).connections)


class WatchingLoop:
    """A loop that says which descriptors it watches for readability."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self.watched: set[int] = set()

    def __getattr__(self, name: str) -> object:
        return getattr(self._loop, name)

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        self.watched.add(fd)
        self._loop.add_reader(fd, callback)

    def remove_reader(self, fd: int) -> None:
        self.watched.discard(fd)
        self._loop.remove_reader(fd)


def test_a_reply_that_has_failed_when_it_is_promised_leaves_nothing_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: Dispatcher, __: RequestHeader, ___: memoryview) -> Later[Parts | None]:
        later: Later[Parts | None] = Later()
        later.fail(RuntimeError("no reply today"))
        return later

    with Broker() as broker:
        loop = WatchingLoop(server(broker).loop)
        monkeypatch.setattr(server(broker), "loop", loop)
        monkeypatch.setattr(Dispatcher, "handle", fail)
        with Connection(broker.bootstrap_servers) as client:
            client.send(ApiVersionsRequest(), 0)
            assert client.wait_until_closed() == b""
        until(broker, lambda: not server(broker).connections)
        assert loop.watched == set()
