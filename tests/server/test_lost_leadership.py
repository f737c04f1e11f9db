"""A leader that loses its role while clients wait for it: nothing behind them is acknowledged."""

from collections.abc import Iterator

import pytest

from ottla.config.topic_names import GROUP_METADATA
from ottla.embedded import Broker
from ottla.metadata.image import NO_EPOCH
from ottla.records import Record, encode_batch
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.produce import ProduceResponse
from testkit.batches import values
from testkit.raw import Connection, frame, request_bytes
from tests.e2e.asking import (
    LATEST,
    PRODUCE,
    From,
    fetch,
    list_offset,
    new_producer,
    produce,
    produce_request,
)
from tests.e2e.asking_groups import coordinated
from tests.e2e.conftest import create_topic
from tests.server.inside import on_loop, running, until
from tests.server.sharing import shared

METADATA = 12
OFFSET_COMMIT = 9
LIST_GROUPS = 5


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def lose_all_roles(broker: Broker) -> None:
    node = running(broker).server.node

    def lose() -> None:
        node.state.epoch = NO_EPOCH
        node.replica_manager.take_all()

    on_loop(broker, lose)


def written(topic: str, value: bytes) -> bytes:
    return frame(request_bytes(produce_request(topic, values(value)), PRODUCE))


def answered(client: Connection) -> int:
    _, answer = client.receive(ProduceResponse, PRODUCE)
    return answer.responses[0].partition_responses[0].error_code


@pytest.mark.parametrize("settings", [{}, {"flush.messages": "1"}], ids=["plain", "flushed"])
def test_a_produce_behind_one_that_is_sent_away_is_not_acknowledged(
    broker: Broker, settings: dict[str, str]
) -> None:
    with Connection(broker.bootstrap_servers) as client:
        create_topic(client, "t", configs=settings)
        partition = shared(broker, "t")
        # Metadata waits for the reply before it, and so does the produce behind it.
        asks = frame(request_bytes(MetadataRequest(topics=[]), METADATA))
        client.send_bytes(written("t", b"waits") + asks + written("t", b"behind"))
        until(broker, lambda: partition.log.end_offset == 1)
        lose_all_roles(broker)
        assert answered(client) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        client.receive(MetadataResponse, METADATA)
        assert answered(client) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert on_loop(broker, lambda: partition.log.end_offset) == 1


def test_groups_that_leave_while_they_are_listed_are_not_among_them() -> None:
    with (
        Broker(offsets_topic_num_partitions=1) as broker,
        Connection(broker.bootstrap_servers) as committer,
        Connection(broker.bootstrap_servers) as client,
    ):
        create_topic(committer, "t")
        coordinated(committer, "g")
        partition = shared(broker, GROUP_METADATA)
        offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        topic = OffsetCommitRequestTopic(name="t", partitions=[offset])
        committer.send(OffsetCommitRequest(group_id="g", topics=[topic]), OFFSET_COMMIT)
        until(broker, lambda: partition.log.end_offset == 1)
        # It waits for what the group has just been given to be committed.
        client.send(ListGroupsRequest(), LIST_GROUPS)
        node = running(broker).server.node
        (runner,) = on_loop(broker, lambda: list(node.groups))
        until(broker, lambda: len(runner._held) == 2)
        lose_all_roles(broker)
        _, listed = client.receive(ListGroupsResponse, LIST_GROUPS)
        assert (listed.error_code, listed.groups) == (ErrorCode.NONE, [])


def test_a_follower_says_first_whether_the_epoch_is_the_present_one(broker: Broker) -> None:
    with Connection(broker.bootstrap_servers) as client:
        create_topic(client, "t")
        lose_all_roles(broker)
        partition = on_loop(broker, lambda: running(broker).server.node.partitions.get("t", 0))
        assert partition is not None
        epoch = partition.leader_epoch
        for asked, code in (
            (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (epoch, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            assert list_offset(client, "t", LATEST, leader_epoch=asked).error_code == code
            assert fetch(client, From("t", leader_epoch=asked)).error_code == code


def test_a_follower_knows_the_producers_of_its_partition(broker: Broker) -> None:
    with Connection(broker.bootstrap_servers) as client:
        create_topic(client, "t")
        producer_id, producer_epoch = new_producer(client)
        batch = encode_batch(
            [Record(0, 1, None, b"x")],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,
        )
        assert produce(client, "t", batch).error_code == ErrorCode.NONE
        lose_all_roles(broker)
        wanted = TopicRequest(name="t", partition_indexes=[0, 7])
        request = DescribeProducersRequest(topics=[wanted])
        told = client.ask(request, DescribeProducersResponse, 0).topics[0].partitions
        assert [each.error_code for each in told] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert [each.producer_id for each in told[0].active_producers] == [producer_id]


def test_the_role_is_given_up_before_anyone_is_notified(broker: Broker) -> None:
    with Connection(broker.bootstrap_servers) as client:
        create_topic(client, "t")
    partition = shared(broker, "t")
    node = running(broker).server.node
    led: list[bool] = []

    def wait() -> None:
        partition.when_committed(1, lambda: None, lambda: led.append(partition.leads))

    on_loop(broker, wait)
    lose_all_roles(broker)
    assert led == [False]
    assert on_loop(broker, lambda: node.partitions.get("t", 0)) is partition
