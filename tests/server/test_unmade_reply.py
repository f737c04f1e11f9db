"""A reply that cannot be made, though somebody waits for it: the connection ends, nothing hangs."""

import pytest

from compat.batches import values
from compat.raw import ClosedError, Connection
from ottla.api import fetch
from ottla.broker.fetching import Fetch
from ottla.broker.partition import Partition
from ottla.embedded import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.produce import ProduceResponse
from tests.e2e.asking import FETCH, PRODUCE, From, fetch_request, produce_request
from tests.e2e.conftest import create_topic
from tests.server.inside import connections, server, until

LONG_MS = 60_000


@pytest.mark.parametrize("broken", [(fetch, "_reply"), (Fetch, "_try")], ids=["reply", "look"])
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
