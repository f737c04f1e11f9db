"""Connections and frames: what is answered, in which order, and what ends a connection."""

import struct
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from ottla.records import Record, encode_batch
from ottla.wire.apis import ApiKey
from ottla.wire.headers import write_request_header
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceResponse
from testkit.batches import values
from testkit.process import wait_until_ready
from testkit.raw import SIZE, ClosedError, Connection, frame, request_bytes
from tests.e2e.asking import FETCH, PRODUCE, From, fetch_request, partitions_of, produce_request
from tests.e2e.conftest import OwnBroker, Topics

NO_TOPICS = MetadataRequest(topics=[])
VERSIONS = ApiVersionsRequest(client_software_name="tests", client_software_version="1")


def is_alive(connection: Connection) -> bool:
    return bool(connection.ask(NO_TOPICS, MetadataResponse, 12).brokers)


def test_replies_come_in_the_order_of_the_requests(connection: Connection, topic: str) -> None:
    sent = connection.send_together(
        [
            (NO_TOPICS, 12),
            (produce_request(topic, values(b"a")), PRODUCE),
            (VERSIONS, 3),
            (produce_request(topic, values(b"b")), PRODUCE),
            (produce_request(topic, values(b"c")), PRODUCE),
            (fetch_request(From(topic)), FETCH),
            (NO_TOPICS, 9),
        ]
    )
    replies = [
        connection.receive(MetadataResponse, 12)[0],
        connection.receive(ProduceResponse, PRODUCE)[0],
        connection.receive(ApiVersionsResponse, 3)[0],
        connection.receive(ProduceResponse, PRODUCE)[0],
        connection.receive(ProduceResponse, PRODUCE)[0],
    ]
    number, fetched = connection.receive(FetchResponse, FETCH)
    replies += [number, connection.receive(MetadataResponse, 9)[0]]
    assert replies == sent
    assert partitions_of(fetched)[0].high_watermark == 3


def test_a_request_behind_a_waiting_fetch_is_answered_after_it(
    connect: Callable[[], Connection], topic: str
) -> None:
    waiting, other = connect(), connect()
    fetch_id = waiting.send(fetch_request(From(topic), max_wait_ms=30_000, min_bytes=1), FETCH)
    metadata_id = waiting.send(NO_TOPICS, 12)
    assert is_alive(other)
    assert not waiting.has_reply(within=0.1)
    other.ask(produce_request(topic, values(b"wake")), ProduceResponse, PRODUCE)
    number, fetched = waiting.receive(FetchResponse, FETCH)
    assert number == fetch_id
    assert partitions_of(fetched)[0].records
    assert waiting.receive(MetadataResponse, 12)[0] == metadata_id


def test_produces_sent_together_keep_their_order(connection: Connection, topic: str) -> None:
    batches = [values(str(number).encode()) for number in range(500)]
    connection.send_together([(produce_request(topic, batch), PRODUCE) for batch in batches])
    offsets = []
    for _ in batches:
        _, answer = connection.receive(ProduceResponse, PRODUCE)
        offsets.append(answer.responses[0].partition_responses[0].base_offset)
    assert offsets == list(range(500))


def test_a_request_that_arrives_byte_by_byte_is_answered(connection: Connection) -> None:
    for byte in frame(request_bytes(NO_TOPICS, 12, 5)):
        connection.send_bytes(bytes([byte]))
    number, answer = connection.receive(MetadataResponse, 12)
    assert number == 5
    assert answer.brokers


def test_acks_0_has_no_reply(connection: Connection, topic: str) -> None:
    connection.send(produce_request(topic, values(b"silent"), acks=0), PRODUCE)
    fetched = connection.send(fetch_request(From(topic), max_wait_ms=5000, min_bytes=1), FETCH)
    number, answer = connection.receive(FetchResponse, FETCH)
    assert number == fetched
    assert partitions_of(answer)[0].records


def test_a_failed_acks_0_ends_the_connection(connection: Connection, topic: str) -> None:
    connection.send(produce_request(topic, b"no batch at all", acks=0), PRODUCE)
    assert connection.wait_until_closed() == b""


def test_an_acks_0_that_failed_in_part_ends_the_connection_while_the_rest_is_flushed(
    connection: Connection, new_topic: Topics
) -> None:
    topic = new_topic(1, **{"flush.messages": "1"})
    asked = produce_request(topic, values(b"good"), acks=0)
    unknown = PartitionProduceData(index=7, records=values(b"nowhere"))
    asked.topic_data[0].partition_data.append(unknown)
    connection.send(asked, PRODUCE)
    assert connection.wait_until_closed() == b""


def test_a_transactional_acks_0_without_an_id_ends_the_connection(
    connection: Connection, topic: str
) -> None:
    batch = encode_batch(
        [Record(0, 1_700_000_000_000, None, b"x")],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    connection.send(produce_request(topic, bytes(batch), acks=0), PRODUCE)
    assert connection.wait_until_closed() == b""


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 100 * 1024 * 1024 + 1, 0, 3])
def test_an_impossible_size_ends_the_connection(connection: Connection, size: int) -> None:
    connection.send_bytes(SIZE.pack(size) + b"\0" * max(0, min(size, 100)))
    assert connection.wait_until_closed() == b""


def test_http_on_the_port_ends_the_connection(connection: Connection) -> None:
    connection.send_bytes(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n")
    assert connection.wait_until_closed() == b""


@pytest.mark.parametrize(
    ("key", "version"),
    [(9999, 0), (-1, 0), (7, 0), (ApiKey.METADATA, 99), (ApiKey.METADATA, -1), (ApiKey.FETCH, 3)],
)
def test_an_unknown_request_ends_the_connection(
    connection: Connection, key: int, version: int
) -> None:
    connection.send_bytes(frame(struct.pack(">hhih", key, version, 1, -1) + b"\0" * 20))
    assert connection.wait_until_closed() == b""


def test_produce_version_2_ends_the_connection(connection: Connection) -> None:
    connection.send_bytes(
        frame(struct.pack(">hhih", ApiKey.PRODUCE, 2, 1, -1) + struct.pack(">hii", 1, 1000, 0))
    )
    assert connection.wait_until_closed() == b""


@pytest.mark.parametrize("kept", [0, 1, 5])
def test_a_body_cut_short_ends_the_connection(connection: Connection, kept: int) -> None:
    header = write_request_header(ApiKey.METADATA, 12, 1, "tests")
    body = request_bytes(MetadataRequest(topics=None), 12, 1, "tests")[len(header) :]
    connection.send_bytes(frame(header + body[: min(kept, len(body) - 1)]))
    assert connection.wait_until_closed() == b""


@pytest.mark.parametrize(
    "hostile",
    [
        b"\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\x07",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x80\x80\x80\x80\x80\x01",
    ],
)
def test_a_hostile_array_length_ends_only_its_connection(
    connect: Callable[[], Connection], hostile: bytes
) -> None:
    bad, good = connect(), connect()
    header = write_request_header(ApiKey.METADATA, 12, 1, "tests")
    bad.send_bytes(frame(header + hostile))
    assert bad.wait_until_closed() == b""
    assert is_alive(good)


def test_unknown_tagged_fields_are_passed_over(connection: Connection) -> None:
    # One unknown tag (99, three bytes) in the header and one (7, two bytes) after the body.
    header = struct.pack(">hhih", ApiKey.METADATA, 12, 9, -1) + b"\x01\x63\x03abc"
    body = b"\x01" + b"\x00\x00" + b"\x01\x07\x02hi"
    connection.send_bytes(frame(header + body))
    number, answer = connection.receive(MetadataResponse, 12)
    assert number == 9
    assert answer.brokers


def test_bytes_after_a_body_are_passed_over(connection: Connection) -> None:
    connection.send_bytes(frame(request_bytes(NO_TOPICS, 12, 3) + b"left over"))
    assert connection.receive(MetadataResponse, 12)[0] == 3
    assert is_alive(connection)


def test_a_client_id_is_not_needed(connection: Connection) -> None:
    connection.send_bytes(frame(request_bytes(NO_TOPICS, 12, 3, client_id=None)))
    assert connection.receive(MetadataResponse, 12)[0] == 3


def test_a_client_that_leaves_in_the_middle_of_a_frame_disturbs_nobody(
    connect: Callable[[], Connection],
) -> None:
    leaving, staying = connect(), connect()
    leaving.send_bytes(SIZE.pack(1000) + b"only this")
    leaving.close()
    assert is_alive(staying)


def test_a_client_that_closed_its_half_is_let_go(
    connect: Callable[[], Connection],
) -> None:
    half, whole = connect(), connect()
    assert is_alive(half)
    half.finish_sending()
    assert half.wait_until_closed() == b""
    assert is_alive(whole)


def test_a_client_that_leaves_its_waiting_fetch_disturbs_nobody(
    connect: Callable[[], Connection], topic: str
) -> None:
    for _ in range(20):
        leaving = connect()
        leaving.send(fetch_request(From(topic), max_wait_ms=30_000, min_bytes=1), FETCH)
        leaving.close()
    staying = connect()
    staying.ask(produce_request(topic, values(b"for nobody")), ProduceResponse, PRODUCE)
    assert is_alive(staying)


def test_a_client_that_does_not_read_holds_up_nobody(
    connect: Callable[[], Connection], topic: str
) -> None:
    deaf, other = connect(), connect()
    other.ask(produce_request(topic, values(b"x" * 900_000)), ProduceResponse, PRODUCE)
    asked = [(fetch_request(From(topic)), FETCH)] * 100
    deaf.send_together(asked)
    for _ in range(10):
        assert is_alive(other)
    for _ in asked:
        assert partitions_of(deaf.receive(FetchResponse, FETCH)[1])[0].records


def test_a_request_larger_than_allowed_ends_the_connection(
    own_broker: OwnBroker,
) -> None:
    broker = own_broker({"socket.request.max.bytes": "1000"})
    with Connection(broker.bootstrap) as connection:
        assert is_alive(connection)
        connection.send_bytes(frame(b"\0" * 1001))
        assert connection.wait_until_closed() == b""


def test_connections_beyond_the_most_allowed_are_not_served(
    own_broker: OwnBroker,
) -> None:
    """Whether they wait or are ended is the broker's choice; the others do not notice."""
    broker = own_broker({"max.connections": "3"})
    with ExitStack() as stack:
        held = [stack.enter_context(Connection(broker.bootstrap)) for _ in range(3)]
        assert all(is_alive(connection) for connection in held)
        fourth = stack.enter_context(Connection(broker.bootstrap))
        try:
            fourth.send(NO_TOPICS, 12)
            assert not fourth.has_reply(within=0.2)
        except ClosedError:
            pass
        fourth.close()
        assert all(is_alive(connection) for connection in held)
        held[0].close()
        wait_until_ready(broker.bootstrap)


def test_idle_connections_are_ended(own_broker: OwnBroker) -> None:
    broker = own_broker({"connections.max.idle.ms": "300"})
    with Connection(broker.bootstrap) as connection:
        assert is_alive(connection)
        assert connection.wait_until_closed() == b""
