"""A client may ask another broker for each change: none refuses because it has not heard yet."""

from pathlib import Path

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from testkit.cluster import ClusterProcesses
from testkit.raw import Connection


def create(broker: Connection, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    return broker.ask(request, CreateTopicsResponse, 7).topics[0].error_code


def delete(broker: Connection, name: str) -> int:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=5000)
    return broker.ask(request, DeleteTopicsResponse, 6).responses[0].error_code


def test_what_one_broker_created_another_deletes_and_a_third_creates_again(
    tmp_path: Path,
) -> None:
    with ClusterProcesses(tmp_path, 3) as cluster:
        brokers = [Connection(each.bootstrap) for each in cluster.brokers]
        for turn in range(15):
            one, other = brokers[turn % 3], brokers[(turn + 1) % 3]
            assert create(one, "t") == ErrorCode.NONE
            assert create(other, "t") == ErrorCode.TOPIC_ALREADY_EXISTS
            assert delete(other, "t") == ErrorCode.NONE
        for each in brokers:
            each.close()
