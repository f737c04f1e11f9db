"""What a client costs the broker, however it behaves: memory that has a bound."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from testkit.batches import values
from testkit.process import BrokerProcess
from testkit.raw import SIZE, Connection, address, frame, request_bytes
from tests.e2e.asking import FETCH, PRODUCE, From, fetch_request, produce, produce_request
from tests.e2e.conftest import OwnBroker, create_topic

MEGABYTE = 1024 * 1024
IDLE = 500
ANNOUNCED = 100 * MEGABYTE


@pytest.fixture
def broker(own_broker: OwnBroker) -> BrokerProcess:
    return own_broker()


@pytest.fixture
def many_files() -> Iterator[None]:
    """Lets this process open as many files as it may at all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def settled_memory(broker: BrokerProcess) -> int:
    """Resident bytes once the broker has answered someone: it has done what came before."""
    with Connection(broker.bootstrap) as connection:
        connection.ask(MetadataRequest(topics=[]), MetadataResponse, 12)
    return broker.memory().resident


def send_until_full(connection: socket.socket, data: bytes, most: int) -> int:
    """Send over and over until the broker stops taking it; how much it took."""
    connection.setblocking(False)
    sent = 0
    while sent < most:
        try:
            sent += connection.send(data[sent % len(data) :])
        except BlockingIOError:
            connection.setblocking(True)
            connection.settimeout(0.5)
            try:
                sent += connection.send(data[sent % len(data) :])
            except TimeoutError:
                break
            connection.setblocking(False)
    return sent


@pytest.mark.usefixtures("many_files")
def test_idle_connections_cost_little(broker: BrokerProcess) -> None:
    before = settled_memory(broker)
    with ExitStack() as stack:
        for number in range(IDLE):
            connection = stack.enter_context(socket.create_connection(address(broker.bootstrap)))
            connection.sendall(frame(request_bytes(MetadataRequest(topics=[]), 12, number)))
        assert settled_memory(broker) - before < IDLE * 20_000


def test_an_announced_size_takes_no_memory(broker: BrokerProcess) -> None:
    before = settled_memory(broker)
    with ExitStack() as stack:
        for _ in range(50):
            connection = stack.enter_context(socket.create_connection(address(broker.bootstrap)))
            connection.sendall(SIZE.pack(ANNOUNCED) + b"\0" * 100)
        assert settled_memory(broker) - before < 20 * MEGABYTE


def test_replies_that_nobody_reads_do_not_pile_up(broker: BrokerProcess) -> None:
    with Connection(broker.bootstrap) as connection:
        create_topic(connection, "unread")
        for _ in range(10):
            produce(connection, "unread", values(b"x" * 900_000))
    before = settled_memory(broker)
    asking = frame(request_bytes(fetch_request(From("unread")), FETCH))
    with ExitStack() as stack:
        for _ in range(10):
            deaf = stack.enter_context(socket.create_connection(address(broker.bootstrap)))
            send_until_full(deaf, asking * 100, 1 * MEGABYTE)
        assert settled_memory(broker) - before < 40 * MEGABYTE


def test_a_flood_of_produces_does_not_pile_up(broker: BrokerProcess) -> None:
    with Connection(broker.bootstrap) as connection:
        create_topic(connection, "flooded")
    before = settled_memory(broker)
    request = frame(request_bytes(produce_request("flooded", values(b"x" * 100_000)), PRODUCE))
    with ExitStack() as stack:
        for _ in range(5):
            deaf = stack.enter_context(socket.create_connection(address(broker.bootstrap)))
            send_until_full(deaf, request, 30 * MEGABYTE)
        assert settled_memory(broker) - before < 60 * MEGABYTE


def test_waiting_fetches_cost_little(broker: BrokerProcess) -> None:
    with Connection(broker.bootstrap) as connection:
        create_topic(connection, "waited-for")
    before = settled_memory(broker)
    with ExitStack() as stack:
        request = fetch_request(From("waited-for"), max_wait_ms=60_000, min_bytes=1)
        for _ in range(300):
            stack.enter_context(Connection(broker.bootstrap)).send(request, FETCH)
        assert settled_memory(broker) - before < 300 * 30_000
