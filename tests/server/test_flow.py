"""What one client can do to a connection, and cannot do to the broker or to other clients."""

import socket
import struct
from collections.abc import Iterator

import pytest

from ottla.embedded import Broker
from ottla.server import server as server_module
from ottla.server.connection import Connection as ServedConnection
from ottla.server.protocol import (
    MOST_HELD_BYTES,
    REQUESTS_IN_ONE_TURN,
    SEND_AT_BYTES,
    ServerProtocol,
)
from ottla.server.sender import TURN_BYTES
from ottla.server.server import Server
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import ProduceResponse
from testkit.batches import values
from testkit.raw import ClosedError, Connection, frame, request_bytes
from tests.e2e.asking import FETCH, PRODUCE, From, fetch_request, produce, produce_request
from tests.e2e.conftest import create_topic
from tests.server.inside import connections, on_loop, running, server, until

METADATA = 12
FOR_EVER_MS = 2**31 - 1


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(auto_create_topics_enable=False) as broker:
        with Connection(broker.bootstrap_servers) as connection:
            create_topic(connection, "empty")
            create_topic(connection, "flushed", configs={"flush.messages": "1"})
            create_topic(connection, "full")
            for _ in range(20):
                assert produce(connection, "full", values(b"x" * 900_000)).error_code == 0
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[Connection]:
    with Connection(broker.bootstrap_servers) as connection:
        yield connection


def wait_for_records(max_wait_ms: int) -> bytes:
    """A fetch that parks."""
    request = fetch_request(From("empty"), max_wait_ms=max_wait_ms, min_bytes=1)
    return frame(request_bytes(request, FETCH))


def metadata(topics: bool = False) -> bytes:
    return frame(request_bytes(MetadataRequest(topics=None if topics else []), METADATA))


def send_what_it_takes(client: Connection, data: bytes) -> None:
    """Send until nothing more is taken."""
    client.socket.settimeout(0.2)
    try:
        while True:
            client.send_bytes(data)
    except TimeoutError:
        pass


def is_served(broker: Broker) -> bool:
    """True if another client gets its answer."""
    with Connection(broker.bootstrap_servers) as other:
        return bool(other.ask(MetadataRequest(topics=[]), MetadataResponse, METADATA).brokers)


def test_a_large_request_behind_a_waiting_one_is_answered(client: Connection) -> None:
    large = produce_request("full", values(b"x" * 900_000))
    client.send_bytes(wait_for_records(50) + frame(request_bytes(large, PRODUCE)))
    client.receive(FetchResponse, FETCH)
    _, answer = client.receive(ProduceResponse, PRODUCE)
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_large_requests_behind_an_fsync_are_answered(client: Connection) -> None:
    large = produce_request("flushed", values(b"x" * 500_000))
    client.send_together([(large, PRODUCE)] * 10)
    for _ in range(10):
        _, answer = client.receive(ProduceResponse, PRODUCE)
        assert answer.responses[0].partition_responses[0].error_code == 0


def test_many_requests_at_once_are_all_answered_in_order(client: Connection) -> None:
    count = 20 * REQUESTS_IN_ONE_TURN
    sent = client.send_together([(MetadataRequest(topics=[]), METADATA)] * count)
    assert [client.receive(MetadataResponse, METADATA)[0] for _ in range(count)] == sent


def test_requests_that_wait_their_turn_let_others_go_first(
    broker: Broker, client: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends many requests at once leaves the loop after some of them."""
    turns: list[int] = []
    until(broker, lambda: len(server(broker).connections) == 1)
    (connection,) = connections(broker)
    protocol = connection.protocol
    handle_frames = type(protocol).handle_frames

    def counted(self: ServerProtocol, left: int) -> int:
        before = protocol.inbox.waiting
        left = handle_frames(protocol, left)
        turns.append(before - protocol.inbox.waiting)
        return left

    monkeypatch.setattr(type(protocol), "handle_frames", counted)
    request = metadata()
    client.send_bytes(request * 500)
    for _ in range(500):
        client.receive(MetadataResponse, METADATA)
    assert max(turns) <= REQUESTS_IN_ONE_TURN * len(request)


def test_a_client_that_does_not_read_is_not_read_either(broker: Broker, client: Connection) -> None:
    send_what_it_takes(client, metadata(topics=True) * 1000)
    (connection,) = connections(broker)
    assert connection.protocol.outbox.size <= SEND_AT_BYTES + TURN_BYTES
    assert connection.protocol.inbox.waiting <= 4 * MOST_HELD_BYTES
    assert is_served(broker)


def test_fetches_that_nobody_takes_hold_no_records_in_memory(
    broker: Broker, client: Connection
) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.send_bytes(frame(request_bytes(fetch_request(From("full")), FETCH)) * 100)
    until(broker, lambda: any(replies_wait(each) for each in server(broker).connections))
    (connection,) = connections(broker)
    held = [part for part in connection.protocol.outbox.parts if isinstance(part, bytes)]
    assert sum(map(len, held)) < 10_000
    assert is_served(broker)


def test_what_was_asked_before_nonsense_is_answered(client: Connection) -> None:
    client.send_bytes(metadata() + b"\xff" * 20)
    client.receive(MetadataResponse, METADATA)
    with pytest.raises(ClosedError):
        client.receive_frame()


def replies_wait(connection: ServedConnection) -> bool:
    return connection.protocol.outbox.size > 0


def is_empty_after_sweep(server: Server) -> bool:
    server._sweep_idle()
    return not server.connections


def sweep(broker: Broker) -> None:
    """What happens every few seconds."""
    on_loop(broker, server(broker)._sweep_idle)


def test_a_client_that_has_gone_while_it_was_not_read_is_noticed(broker: Broker) -> None:
    client = Connection(broker.bootstrap_servers)
    client.send_bytes(wait_for_records(FOR_EVER_MS) + struct.pack(">i", 100 << 20))
    send_what_it_takes(client, bytes(1 << 20))
    until(broker, lambda: any(each.deaf for each in server(broker).connections))
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    sweep(broker)
    assert connections(broker) == []
    assert on_loop(broker, lambda: running(broker).node.delayed.fetches) == 0


def test_a_parked_fetch_whose_client_resets_is_forgotten(
    broker: Broker, client: Connection
) -> None:
    client.send_bytes(wait_for_records(FOR_EVER_MS))
    until(broker, lambda: running(broker).node.delayed.fetches == 1)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    until(broker, lambda: running(broker).node.delayed.fetches == 0)
    assert connections(broker) == []


def test_a_client_that_never_takes_its_reply_is_idle() -> None:
    with Broker(connections_max_idle_ms=0) as broker:
        with Connection(broker.bootstrap_servers) as maker:
            create_topic(maker, "full")
            for _ in range(10):
                assert produce(maker, "full", values(b"x" * 900_000)).error_code == 0
        with Connection(broker.bootstrap_servers) as client:
            client.send(fetch_request(From("full")), FETCH)
            until(
                broker,
                lambda: any(each.protocol.outbox.size for each in server(broker).connections),
            )
            until(broker, lambda: is_empty_after_sweep(server(broker)))


def left_after_one_turn(server: Server) -> int:
    for connection in server.connections:
        connection.last_active -= 1
    server._sweep_idle()
    return len(server.connections)


def test_many_idle_connections_are_swept_in_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "SWEPT_IN_ONE_TURN", 3)
    with Broker(connections_max_idle_ms=0) as broker:
        clients = [Connection(broker.bootstrap_servers) for _ in range(8)]
        until(broker, lambda: len(server(broker).connections) == 8)
        assert on_loop(broker, lambda: left_after_one_turn(server(broker))) == 5
        until(broker, lambda: not server(broker).connections)
        for each in clients:
            each.close()


def test_a_request_that_waits_keeps_its_connection() -> None:
    with (
        Broker(connections_max_idle_ms=0) as broker,
        Connection(broker.bootstrap_servers) as client,
    ):
        create_topic(client, "empty")
        client.send_bytes(wait_for_records(FOR_EVER_MS))
        until(broker, lambda: running(broker).node.delayed.fetches == 1)
        for _ in range(10):
            sweep(broker)
        assert len(connections(broker)) == 1
