import socket
from collections.abc import Iterable

import pytest

from ottla.client import Admin, Client, ClientSettings, ConnectionFailed, KafkaError, NoBroker
from ottla.client.cluster import TopicRecreated
from ottla.embedded import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
)

from .fake_broker import FakeBroker, HangUp


def quick(bootstrap: str, deadline: float = 10.0) -> ClientSettings:
    return ClientSettings(
        bootstrap_servers=bootstrap, deadline=deadline, backoff=0.001, longest_backoff=0.001
    )


def answering(broker: FakeBroker, errors: Iterable[int]) -> FakeBroker:
    """Make a broker answer Metadata with these errors first."""
    left = list(errors)

    def metadata(request: Message) -> Message:
        return broker.metadata(left.pop(0) if left else 0)

    broker.answer(MetadataRequest, metadata)
    return broker


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_when_no_bootstrap_server_answers_all_are_named_at_once() -> None:
    ports = unused_port(), unused_port()
    client = Client(quick(",".join(f"127.0.0.1:{port}" for port in ports)))
    with pytest.raises(NoBroker) as caught:
        client.topic("t")
    assert not caught.value.retriable
    for port in ports:
        assert f"127.0.0.1:{port}: Connection refused" in str(caught.value)


def test_the_next_bootstrap_server_is_asked_when_one_is_down() -> None:
    with (
        FakeBroker() as broker,
        Client(quick(f"127.0.0.1:{unused_port()},{broker.address}")) as client,
    ):
        assert client.leader("t", 0) == 1


def test_metadata_is_remembered_until_it_is_forgotten() -> None:
    with FakeBroker() as broker, Client(quick(broker.address)) as client:
        for _ in range(3):
            client.topic("t")
        assert len(broker.of(MetadataRequest)) == 1
        client.forget("t")
        client.topic("t")
        assert len(broker.of(MetadataRequest)) == 2


def test_a_retriable_error_is_retried() -> None:
    errors = [ErrorCode.LEADER_NOT_AVAILABLE] * 3
    with answering(FakeBroker(), errors) as broker, Client(quick(broker.address)) as client:
        assert client.topic("t").leaders == {0: 1}
        assert len(broker.of(MetadataRequest)) == 4


def test_a_final_error_is_raised_at_once() -> None:
    errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with (
        answering(FakeBroker(), errors) as broker,
        Client(quick(broker.address)) as client,
        pytest.raises(KafkaError, match="topic t: TOPIC_AUTHORIZATION_FAILED"),
    ):
        client.topic("t")


def test_retries_end_at_the_deadline_with_the_last_error() -> None:
    errors = [ErrorCode.LEADER_NOT_AVAILABLE] * 10_000
    with (
        answering(FakeBroker(), errors) as broker,
        Client(quick(broker.address, deadline=0.05)) as client,
        pytest.raises(KafkaError) as caught,
    ):
        client.topic("t")
    assert caught.value.code == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_topic_that_does_not_exist_is_not_waited_for_until_the_deadline() -> None:
    errors = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 10_000
    with (
        answering(FakeBroker(), errors) as broker,
        Client(quick(broker.address, deadline=100.0)) as client,
        pytest.raises(KafkaError, match="topic t does not exist"),
    ):
        client.topic("t")


def test_a_lost_connection_is_made_again() -> None:
    with FakeBroker() as broker, Client(quick(broker.address)) as client:
        client.topic("t")
        client.connection().close()
        assert client.retry(lambda: client.metadata(None)).topics


def test_a_leader_that_has_left_the_cluster_is_looked_up_again() -> None:
    broker = FakeBroker()
    leaders = [7]  # it died after the topic was asked for: only another question can tell

    def metadata(request: Message) -> Message:
        assert isinstance(request, MetadataRequest)
        if not request.topics:
            return MetadataResponse(brokers=broker.metadata().brokers)
        return broker.metadata(leader=leaders.pop() if leaders else 1)

    broker.answer(MetadataRequest, metadata)
    with broker, Client(quick(broker.address)) as client:
        with pytest.raises(ConnectionFailed, match="broker 7 is not available") as caught:
            client.connection(client.leader("t", 0))
        assert caught.value.retriable
        assert client.leader("t", 0) == 1


def test_a_cluster_that_was_there_is_retried_until_the_deadline() -> None:
    with FakeBroker() as broker:
        client = Client(quick(broker.address, deadline=0.02))
        client.topic("t")
    with pytest.raises(ConnectionFailed) as caught:
        client.retry(lambda: client.metadata(None))
    assert caught.value.retriable


def test_a_topic_that_no_broker_creates_is_named() -> None:
    errors = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 10_000
    with (
        answering(FakeBroker(), errors) as broker,
        Client(quick(broker.address, deadline=0.02)) as client,
        pytest.raises(
            KafkaError, match="topic t does not exist, and auto topic creation is disabled"
        ),
    ):
        client.topic("t", create=True)


def test_a_partition_that_does_not_exist_is_named() -> None:
    with (
        FakeBroker() as broker,
        Client(quick(broker.address)) as client,
        pytest.raises(KafkaError, match="topic t has no partition 7: it has 0 to 0"),
    ):
        client.leader("t", 7)


def test_a_broker_that_hangs_up_once_is_asked_again() -> None:
    broker = FakeBroker()
    calls: list[Message] = []

    def metadata(request: Message) -> Message:
        calls.append(request)
        if len(calls) == 2:
            raise HangUp
        return broker.metadata()

    broker.answer(MetadataRequest, metadata)
    with broker, Client(quick(broker.address)) as client:
        client.topic("t")
        assert client.retry(lambda: client.metadata(["t"])).topics[0].name == "t"
        assert len(calls) == 3


def test_a_partition_that_was_added_is_found_by_a_client_that_knew_the_topic_before(
    client: Client, admin: Admin, ottla_broker: Broker, topic: str
) -> None:
    with Client(ottla_broker.bootstrap_servers) as other:
        assert len(other.topic(topic).leaders) == 3
        admin.create_partitions(topic, 5)
        assert other.leader(topic, 4) == client.leader(topic, 0)


def test_a_broker_that_hears_of_new_partitions_late_is_asked_again() -> None:
    broker = FakeBroker()
    asked: list[Message] = []

    def metadata(request: Message) -> Message:
        asked.append(request)
        reply = broker.metadata()
        if len(asked) > 3:
            more = MetadataResponsePartition(partition_index=1, leader_id=1)
            reply.topics[0].partitions.append(more)
        return reply

    broker.answer(MetadataRequest, metadata)
    with broker, Client(quick(broker.address)) as client:
        assert client.leader("t", 1) == 1


def test_a_topic_that_was_created_again_is_known_by_its_id(
    client: Client, admin: Admin, ottla_broker: Broker, topic: str
) -> None:
    first = client.topic(topic).id
    admin.delete_topic(topic)
    admin.create_topic(topic, partitions=3)
    with pytest.raises(TopicRecreated, match=f"topic {topic} was deleted and created again"):
        client.topic_with_id(topic, first)
    with Client(ottla_broker.bootstrap_servers) as other:
        second = other.topic(topic).id
    assert client.topic_with_id(topic, second).id == second
