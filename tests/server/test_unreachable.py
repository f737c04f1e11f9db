"""Brokers that a client cannot reach: those that are gone, and those without its listener."""

import pytest

from ottla.embedded import Broker
from ottla.metadata.image import TopicImage
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from testkit.raw import Connection
from tests.e2e.conftest import create_topic, describe
from tests.server.inside import on_loop, running

SOMEBODY_WHO_IS_GONE = 99


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)]
)
def test_who_leads_but_is_not_on_the_clients_listener_is_nobody_to_ask(
    version: int, code: ErrorCode
) -> None:
    settings = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "advertised.listeners": "OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "OUTSIDE",
    }
    with Broker(config=settings) as broker, Connection(broker.bootstrap_servers) as client:
        create_topic(client, "t")
        told = client.ask(MetadataRequest(topics=None), MetadataResponse, version)
        assert told.brokers == []
        (partition,) = next(topic for topic in told.topics if topic.name == "t").partitions
        assert (partition.error_code, partition.leader_id) == (code, -1)
        assert partition.offline_replicas == partition.replica_nodes
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
        answer = client.ask(request, DescribeTopicPartitionsResponse, 0)
        (described,) = answer.topics[0].partitions
        assert (described.error_code, described.leader_id) == (ErrorCode.NONE, -1)
        assert described.offline_replicas == described.replica_nodes


def test_a_broker_that_is_left_alone_knows_that_the_others_are_gone() -> None:
    with Broker() as broker, Connection(broker.bootstrap_servers) as client:
        create_topic(client, "t")
        node = running(broker).server.node

        def share() -> None:
            topic = node.image.topics["t"]
            replicas = [node.id, SOMEBODY_WHO_IS_GONE]
            node.image.topics["t"] = TopicImage(
                "t", topic.id, [replicas], topic.configs, topic.version
            )

        on_loop(broker, share)
        (partition,) = describe(client, "t").partitions
        assert partition.replica_nodes == [node.id, SOMEBODY_WHO_IS_GONE]
        assert partition.offline_replicas == [SOMEBODY_WHO_IS_GONE]
        assert (partition.error_code, partition.leader_id) == (ErrorCode.NONE, node.id)
        old = client.ask(MetadataRequest(topics=[]), MetadataResponse, 0)
        (partition,) = next(topic for topic in old.topics if topic.name == "t").partitions
        assert partition.replica_nodes == partition.isr_nodes == [node.id]
        assert partition.error_code == ErrorCode.REPLICA_NOT_AVAILABLE
        assert partition.leader_id == node.id
