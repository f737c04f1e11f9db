"""A client that closes its sending half gets every reply, and then the end of the connection.

Apache Kafka 4.3.0 was asked the same: it does not read behind a request before that is answered.
So neither the end of a client's requests nor nonsense behind them takes anything from the replies.
"""

import socket
import struct
from collections.abc import Iterator

import pytest

from ottla.api import load_all
from ottla.api.registry import ENDPOINTS
from ottla.embedded import Broker
from ottla.server import keep_alive
from ottla.server.protocol import MOST_HELD_BYTES
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceResponse
from testkit.batches import values
from testkit.raw import SIZE, ClosedError, Connection, frame, request_bytes
from tests.e2e.asking import (
    FETCH,
    PRODUCE,
    From,
    fetch_request,
    partitions_of,
    produce,
    produce_request,
)
from tests.e2e.asking_groups import GROUP, find_coordinator
from tests.e2e.conftest import create_topic
from tests.server.inside import on_loop, running, server, until
from tests.server.sharing import shared
from tests.wire.every_message import MESSAGES, versions_of

load_all()

REBALANCE_DELAY_MS = 300
FOR_EVER_MS = 2**31 - 1
JOIN_GROUP = 5
RECORDS = 20 * 900_000

METADATA = (MetadataRequest(topics=[]), 12)
API_VERSIONS = (ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
LARGE = (fetch_request(From("full")), FETCH)
PARKED = (fetch_request(From("empty"), max_wait_ms=200, min_bytes=1), FETCH)
NONSENSE = b"\xff" * 20
NO_SUCH_API = frame(struct.pack(">hhih", 0x7F00, 0, 9, -1))
REQUESTS = [
    each for each in MESSAGES if each.__name__.endswith("Request") and each.API_KEY in ENDPOINTS
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    delay = {"group.initial.rebalance.delay.ms": str(REBALANCE_DELAY_MS)}
    with Broker(config=delay) as broker, Connection(broker.bootstrap_servers) as connection:
        for name in ("empty", "full", "shared", "written"):
            create_topic(connection, name)
        for _ in range(20):
            assert produce(connection, "full", values(b"x" * 900_000)).error_code == 0
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[Connection]:
    """A client; its connection must be gone after the test, and all that waited for it."""
    before = len(server(broker).connections)
    with Connection(broker.bootstrap_servers) as connection:
        yield connection
    node = running(broker).node
    until(broker, lambda: len(server(broker).connections) == before)
    until(broker, lambda: node.delayed.fetches == node.delayed.produces == 0)


def replies(client: Connection) -> list[int]:
    """The correlation ids of all replies up to the end of the connection."""
    answered: list[int] = []
    try:
        while True:
            answered.append(SIZE.unpack_from(client.receive_frame())[0])
    except ClosedError:
        return answered


def answered_while_open(broker: Broker, request: Message, version: int) -> list[int]:
    """Which of a request and another one behind it are answered where the client stays."""
    answered: list[int] = []
    with Connection(broker.bootstrap_servers) as client:
        _, last = client.send_together([(request, version), API_VERSIONS])
        try:
            while last not in answered:
                answered.append(SIZE.unpack_from(client.receive_frame())[0])
        except ClosedError:
            pass
    return answered


@pytest.mark.parametrize("cls", REQUESTS, ids=lambda cls: cls.__name__)
def test_every_api_answers_a_client_that_has_finished_sending(
    broker: Broker, cls: type[Message]
) -> None:
    for version in versions_of(cls):
        expected = answered_while_open(broker, cls(), version)
        with Connection(broker.bootstrap_servers) as client:
            client.send_together([(cls(), version), API_VERSIONS])
            client.finish_sending()
            assert replies(client) == expected, version
    until(broker, lambda: len(server(broker).connections) == 1)


def test_a_large_reply_arrives_whole(client: Connection) -> None:
    client.send(*LARGE)
    client.finish_sending()
    _, answer = client.receive(FetchResponse, FETCH)
    assert len(partitions_of(answer)[0].records or b"") > RECORDS
    assert replies(client) == []


def test_a_reply_that_is_read_from_disk_arrives_whole(
    client: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.server.sender.in_page_cache", lambda *_: False)
    client.send(*LARGE)
    client.finish_sending()
    _, answer = client.receive(FetchResponse, FETCH)
    assert len(partitions_of(answer)[0].records or b"") > RECORDS
    assert replies(client) == []


@pytest.mark.parametrize(
    "requests",
    [
        [PARKED],
        [LARGE, PARKED, METADATA, LARGE, METADATA],
        [METADATA] * 500,
        [(produce_request("written", values(b"v"), acks=0), PRODUCE)],
        [METADATA, (produce_request("written", b"not records"), PRODUCE)],
    ],
    ids=["parked", "mixed", "many", "without a reply", "refused"],
)
@pytest.mark.parametrize(
    "behind",
    [b"", b"\0\0", b"\0\0\1\0half of it", NONSENSE, NO_SUCH_API],
    ids=["nothing", "half a size", "half a frame", "nonsense", "no such api"],
)
def test_whatever_is_behind_them_requests_are_answered(
    client: Connection, requests: list[tuple[Message, int]], behind: bytes
) -> None:
    sent = client.send_together(requests)
    if behind:
        client.send_bytes(behind)
    client.finish_sending()
    acks_0 = [each for each, _ in requests if getattr(each, "acks", -1) == 0]
    assert replies(client) == ([] if acks_0 else sent)


def test_nonsense_from_a_client_that_stays_takes_nothing_from_a_large_reply(
    client: Connection,
) -> None:
    sent = client.send_together([LARGE, PARKED])
    client.send_bytes(NONSENSE)
    assert replies(client) == sent


def test_more_than_is_held_behind_a_parked_fetch_is_answered(
    broker: Broker, client: Connection
) -> None:
    count = 2 * MOST_HELD_BYTES // len(frame(request_bytes(*METADATA)))
    sent = client.send_together([PARKED, *[METADATA] * count])
    client.finish_sending()
    on_loop(broker, server(broker)._sweep_idle)
    assert replies(client) == sent


def test_a_parked_fetch_is_answered_when_there_are_records(
    broker: Broker, client: Connection
) -> None:
    with Connection(broker.bootstrap_servers) as writer:
        create_topic(writer, "woken")
        request = fetch_request(From("woken"), max_wait_ms=FOR_EVER_MS, min_bytes=1)
        client.send(request, FETCH)
        client.finish_sending()
        until(broker, lambda: any(each.deaf for each in server(broker).connections))
        on_loop(broker, server(broker)._sweep_idle)
        produce(writer, "woken", values(b"v"))
        _, answer = client.receive(FetchResponse, FETCH)
    assert partitions_of(answer)[0].high_watermark == 1
    assert replies(client) == []


def test_parked_produces_are_answered(broker: Broker, client: Connection) -> None:
    shared(broker, "shared", committed=0)
    sent = client.send_together(
        [(produce_request("shared", values(b"v"), timeout_ms=300), PRODUCE)] * 3
    )
    client.finish_sending()
    answered = [client.receive(ProduceResponse, PRODUCE) for _ in sent]
    codes = {answer.responses[0].partition_responses[0].error_code for _, answer in answered}
    assert ([number for number, _ in answered], codes) == (sent, {7})
    assert replies(client) == []


def test_a_group_is_joined(client: Connection) -> None:
    request = JoinGroupRequest(
        group_id="half",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    find_coordinator(client, "half", GROUP)
    request.member_id = client.ask(request, JoinGroupResponse, JOIN_GROUP).member_id
    client.send(request, JOIN_GROUP)
    client.finish_sending()
    _, joined = client.receive(JoinGroupResponse, JOIN_GROUP)
    assert (joined.error_code, joined.leader) == (0, request.member_id)
    assert replies(client) == []


def test_a_client_that_has_closed_both_halves_is_noticed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end looks like half of one; only its kernel says that nobody is there, when asked."""
    monkeypatch.setattr(keep_alive, "ASK_AFTER_SECONDS", 1)
    node, before = running(broker).node, len(server(broker).connections)
    client = Connection(broker.bootstrap_servers)
    client.send(fetch_request(From("empty"), max_wait_ms=FOR_EVER_MS, min_bytes=1), FETCH)
    until(broker, lambda: len(server(broker).connections) == before + 1)
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_LINGER2, 1)
    client.close()

    def is_gone() -> bool:
        server(broker)._sweep_idle()
        return len(server(broker).connections) == before and node.delayed.fetches == 0

    until(broker, is_gone)
