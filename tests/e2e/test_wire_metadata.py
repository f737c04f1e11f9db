"""Metadata and its newer relatives: who leads what, and what asking may create."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.message import NO_UUID
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from testkit.raw import Connection, address
from tests.e2e.conftest import OwnBroker, Topics, describe


def metadata(connection: Connection, request: MetadataRequest, version: int) -> MetadataResponse:
    return connection.ask(request, MetadataResponse, version)


def named(*names: str, create: bool = False) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


@pytest.mark.parametrize("version", range(14))
def test_every_version_is_served(
    connection: Connection, bootstrap: str, new_topic: Topics, version: int
) -> None:
    topic = new_topic(partitions=3)
    request = named(topic, create=version < 4)
    answer = metadata(connection, request, version)
    (broker,) = answer.brokers
    assert (broker.host, broker.port) == address(bootstrap)
    (found,) = answer.topics
    assert (found.name, found.error_code, found.is_internal) == (topic, 0, False)
    assert sorted(p.partition_index for p in found.partitions) == [0, 1, 2]
    for partition in found.partitions:
        assert partition.leader_id == broker.node_id
        assert partition.replica_nodes == partition.isr_nodes == [broker.node_id]
        assert (partition.error_code, partition.offline_replicas) == (0, [])
    if version >= 1:
        assert answer.controller_id == broker.node_id
    if version >= 2:
        assert answer.cluster_id
    if version >= 7:
        assert {partition.leader_epoch for partition in found.partitions} == {0}
    if version >= 10:
        assert found.topic_id != NO_UUID


def test_null_means_all_topics_and_empty_means_none(connection: Connection, topic: str) -> None:
    everything = metadata(connection, MetadataRequest(topics=None), 12)
    assert topic in {found.name for found in everything.topics}
    assert metadata(connection, MetadataRequest(topics=[]), 12).topics == []


def test_version_0_has_no_null_and_empty_means_all(connection: Connection, topic: str) -> None:
    everything = metadata(connection, MetadataRequest(topics=[]), 0)
    assert topic in {found.name for found in everything.topics}


@pytest.mark.parametrize("name", [None, "", "another-name"])
def test_topics_can_be_asked_for_by_id(
    connection: Connection, topic: str, name: str | None
) -> None:
    """An id wins over whatever name stands beside it: the Java client sends an empty one."""
    topic_id = describe(connection, topic).topic_id
    unknown = uuid4()
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(topic_id=topic_id, name=name),
            MetadataRequestTopic(topic_id=unknown, name=name),
        ]
    )
    answer = {found.topic_id: found for found in metadata(connection, request, 12).topics}
    assert (answer[topic_id].name, answer[topic_id].error_code) == (topic, 0)
    assert answer[unknown].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert answer[unknown].name is None


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_before_version_12(
    connection: Connection, topic: str, version: int
) -> None:
    """Versions 10 and 11 carry the field, but Kafka never served them."""
    topic_id = describe(connection, topic).topic_id
    for name, given_id in ((None, topic_id), (topic, topic_id), (None, NO_UUID)):
        asked = MetadataRequestTopic(topic_id=given_id, name=name)
        request = MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
        (refused,) = metadata(connection, request, version).topics
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert (refused.name, refused.topic_id) == (name or "", given_id)


def test_a_topic_that_is_named_twice_is_reported_once(
    connection: Connection, topic: str, new_name: Callable[[], str]
) -> None:
    missing = new_name()
    answer = metadata(connection, named(topic, missing, topic, missing), 12)
    assert {(each.name, each.error_code) for each in answer.topics} == {
        (topic, ErrorCode.NONE),
        (missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    }
    assert len(answer.topics) == 2


def test_asking_creates_a_topic_only_where_allowed(
    connection: Connection, new_name: Callable[[], str]
) -> None:
    name = new_name()
    (refused,) = metadata(connection, named(name), 12).topics
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (created,) = metadata(connection, named(name, create=True), 12).topics
    assert created.error_code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    found = created
    while found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        found = describe(connection, name)
    assert (found.error_code, len(found.partitions)) == (0, 1)


def test_creation_by_asking_can_be_switched_off(own_broker: OwnBroker) -> None:
    broker = own_broker({"auto.create.topics.enable": "false"})
    with Connection(broker.bootstrap) as connection:
        for _ in range(2):
            (refused,) = metadata(connection, named("wished-for", create=True), 12).topics
            assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_cannot_be_made_by_asking_is_not_there(own_broker: OwnBroker) -> None:
    broker = own_broker({"default.replication.factor": "2"})
    with Connection(broker.bootstrap) as connection:
        (refused,) = metadata(connection, named("wished-for", create=True), 12).topics
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not refused.is_internal
        (refused,) = metadata(connection, named("__transaction_state"), 12).topics
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert refused.is_internal


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "sl/ash", "x" * 250, "ü"])
def test_an_impossible_name_is_refused(connection: Connection, name: str) -> None:
    (refused,) = metadata(connection, named(name, create=True), 12).topics
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_authorized_operations_are_told_on_request(connection: Connection, topic: str) -> None:
    unasked = describe(connection, topic)
    assert unasked.topic_authorized_operations == -(2**31)
    request = named(topic)
    request.include_topic_authorized_operations = True
    (asked,) = metadata(connection, request, 12).topics
    # Read, write, create, delete, alter, describe, describe and alter configs, as in Kafka.
    assert asked.topic_authorized_operations == 0b1101_1111_1000


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described(connection: Connection, bootstrap: str, version: int) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = connection.ask(request, DescribeClusterResponse, version)
    (broker,) = answer.brokers
    assert (broker.host, broker.port) == address(bootstrap)
    assert answer.controller_id == broker.broker_id
    assert answer.error_code == 0
    assert answer.cluster_id == metadata(connection, MetadataRequest(topics=[]), 12).cluster_id
    assert answer.cluster_authorized_operations == 0b1_1111_1010_0000


def test_partitions_are_described_page_by_page(connection: Connection, new_topic: Topics) -> None:
    topics = sorted([new_topic(partitions=3), new_topic(partitions=2)])
    seen: list[tuple[str | None, int]] = []
    cursor: Cursor | None = None
    pages = 0
    while pages == 0 or cursor is not None:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in topics],
            response_partition_limit=2,
            cursor=cursor,
        )
        answer = connection.ask(request, DescribeTopicPartitionsResponse, 0)
        for found in answer.topics:
            assert found.error_code == 0
            seen += [(found.name, partition.partition_index) for partition in found.partitions]
        pages += 1
        cursor = (
            None
            if answer.next_cursor is None
            else Cursor(
                topic_name=answer.next_cursor.topic_name,
                partition_index=answer.next_cursor.partition_index,
            )
        )
    assert len(seen) == len(set(seen)) == 5
    assert {name for name, _ in seen} == set(topics)
    assert pages == 3


def test_an_unknown_topic_is_described_as_such(
    connection: Connection, new_name: Callable[[], str]
) -> None:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=new_name())])
    answer = connection.ask(request, DescribeTopicPartitionsResponse, 0)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_cursor_before_the_first_partition_is_refused(connection: Connection, topic: str) -> None:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=topic)], cursor=Cursor(topic_name=topic, partition_index=-1)
    )
    answer = connection.ask(request, DescribeTopicPartitionsResponse, 0)
    assert answer.topics[0].error_code == ErrorCode.INVALID_REQUEST


def test_an_internal_topic_made_by_asking_is_compacted(own_broker: OwnBroker) -> None:
    settings = {"offsets.topic.num.partitions": "2"}
    with Connection(own_broker(settings).bootstrap) as connection:
        answer = metadata(connection, named("__consumer_offsets", create=True), 12)
        assert len(answer.topics[0].partitions) == 2
        assert answer.topics[0].is_internal
