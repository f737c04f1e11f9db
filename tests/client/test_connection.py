import socket
import threading
from contextlib import suppress

import pytest

from ottla.client.connection import BrokerConnection
from ottla.client.errors import ConnectionFailed
from ottla.client.settings import Address, ClientSettings
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import ProduceRequest

from .fake_broker import FakeBroker, HangUp

SETTINGS = ClientSettings(bootstrap_servers="-", request_timeout=10.0)
IMPATIENT = ClientSettings(bootstrap_servers="-", request_timeout=0.05)


def hang_up(request: Message) -> None:
    raise HangUp


def test_replies_may_be_taken_in_any_order() -> None:
    with FakeBroker() as broker:
        connection = BrokerConnection(Address("127.0.0.1", broker.port), SETTINGS)
        replies = [connection.submit(MetadataRequest(), MetadataResponse) for _ in range(3)]
        assert replies[2].result().brokers[0].port == broker.port
        assert replies[0].done
        assert replies[0].result() == replies[1].result()
        connection.close()


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_name_that_no_host_can_have_is_a_failed_connection(host: str) -> None:
    with pytest.raises(ConnectionFailed, match="invalid host name"):
        BrokerConnection(Address(host, 9092), SETTINGS)


def test_the_highest_common_version_is_used() -> None:
    with FakeBroker() as broker:
        connection = BrokerConnection(Address("127.0.0.1", broker.port), SETTINGS)
        assert connection.version_of(ProduceRequest) == 12
        assert connection.version_of(MetadataRequest) == MetadataRequest.VERSIONS[1]
        connection.close()


def test_an_api_that_the_broker_does_not_serve_is_named() -> None:
    with FakeBroker() as broker:
        connection = BrokerConnection(Address("127.0.0.1", broker.port), SETTINGS)
        with pytest.raises(KafkaError, match="does not support any known version of DeleteTopics"):
            connection.version_of(DeleteTopicsRequest)
        connection.close()


def test_an_older_broker_is_asked_again_in_the_version_it_names() -> None:
    asked: list[Message] = []

    def versions(request: Message) -> ApiVersionsResponse:
        asked.append(request)
        mine = ApiVersion(api_key=ApiVersionsRequest.API_KEY, max_version=2)
        metadata = ApiVersion(api_key=MetadataRequest.API_KEY, max_version=5)
        if len(asked) == 1:
            return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[mine])
        return ApiVersionsResponse(api_keys=[mine, metadata])

    with FakeBroker({ApiVersionsRequest: versions}) as broker:
        connection = BrokerConnection(Address("127.0.0.1", broker.port), SETTINGS)
        assert len(asked) == 2
        assert connection.version_of(MetadataRequest) == 5
        connection.close()


def test_a_refused_connection_is_told_plainly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ConnectionFailed) as caught:
        BrokerConnection(Address("127.0.0.1", port), SETTINGS)
    assert str(caught.value) == f"cannot reach a broker at 127.0.0.1:{port}: Connection refused"


def test_a_lost_connection_fails_everything_that_is_awaited() -> None:
    with FakeBroker({MetadataRequest: hang_up}) as broker:
        connection = BrokerConnection(Address("127.0.0.1", broker.port), SETTINGS)
        replies = [connection.submit(MetadataRequest(), MetadataResponse) for _ in range(2)]
        for reply in replies:
            with pytest.raises(ConnectionFailed, match="lost the connection to the broker"):
                reply.result()
        assert connection.closed
        with pytest.raises(ConnectionFailed):
            connection.submit(MetadataRequest(), MetadataResponse)


def test_a_reply_that_does_not_come_ends_the_wait_and_the_connection() -> None:
    with FakeBroker({MetadataRequest: lambda _: None}) as broker:
        connection = BrokerConnection(Address("127.0.0.1", broker.port), SETTINGS)
        reply = connection.submit(MetadataRequest(), MetadataResponse)
        with pytest.raises(ConnectionFailed, match=r"no answer .* within 0.05 seconds"):
            reply.result(IMPATIENT.request_timeout)
        assert connection.closed


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x00\x00\x04\0\0\0\7"]
)
def test_what_is_no_broker_is_recognised(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)
                with suppress(ConnectionResetError):
                    connection.recv(1000)  # until the client closes

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(KafkaError, match="does not speak the Kafka protocol"):
            BrokerConnection(Address("127.0.0.1", server.getsockname()[1]), SETTINGS)
        thread.join()
