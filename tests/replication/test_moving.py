"""Moving replicas and leaders between three real brokers."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from testkit.cluster import ClusterProcesses
from testkit.raw import Connection
from testkit.waiting import stretched, until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("cluster")) as brokers:
        yield brokers


def move(
    cluster: ClusterProcesses, topic: str, replicas: list[int] | None, *, of: int | None = None
) -> int:
    """Ask a broker for other replicas of partition 0; the error code."""
    broker = cluster.any_alive() if of is None else cluster.brokers[of]
    with Connection(broker.bootstrap) as connection:
        answer = connection.ask(
            AlterPartitionReassignmentsRequest(
                topics=[
                    ReassignableTopic(
                        name=topic,
                        partitions=[ReassignablePartition(partition_index=0, replicas=replicas)],
                    )
                ]
            ),
            AlterPartitionReassignmentsResponse,
            1,
        )
    assert answer.error_code == 0
    return answer.responses[0].partitions[0].error_code


def moving(cluster: ClusterProcesses) -> int:
    with Connection(cluster.any_alive().bootstrap) as connection:
        answer = connection.ask(
            ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse, 0
        )
    return len(answer.topics)


def test_a_partition_moves_to_another_broker_with_its_records(cluster: ClusterProcesses) -> None:
    topic = cluster.create("moved", replicas=1)
    before = cluster.partition(topic).leader_id
    after = (before + 1) % 3
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(200):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0
    data = cluster.log_bytes(before, topic)
    assert move(cluster, topic, [after]) == 0
    until(lambda: cluster.partition(topic).leader_id == after, "the target leads")
    until(lambda: cluster.partition(topic).replica_nodes == [after], "the old replica is gone")
    until(lambda: moving(cluster) == 0, "nothing is moving")
    assert cluster.log_bytes(after, topic) == data
    until(
        lambda: not (cluster.brokers[before].data / f"{topic}-0").exists(),
        "the old broker has removed its copy",
    )
    producer.produce(topic, b"more")
    assert producer.flush(30) == 0


def test_a_reassignment_to_unknown_brokers_changes_nothing(cluster: ClusterProcesses) -> None:
    topic = cluster.create("stays", replicas=2)
    before = cluster.partition(topic)
    assert move(cluster, topic, [0, 7]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert move(cluster, topic, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert move(cluster, "no-such-topic", [0]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.partition(topic) == before


def test_deleted_records_are_gone_on_every_replica(cluster: ClusterProcesses) -> None:
    topic = cluster.create("deleted-from")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(30):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0
    leader = cluster.partition(topic).leader_id
    with Connection(cluster.brokers[leader].bootstrap) as connection:
        answer = connection.ask(
            DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[DeleteRecordsPartition(partition_index=0, offset=20)],
                    )
                ],
                timeout_ms=10_000,
            ),
            DeleteRecordsResponse,
            2,
        )
    (result,) = answer.topics[0].partitions
    assert (result.error_code, result.low_watermark) == (0, 20)
    cluster.kill(leader)
    until(lambda: cluster.partition(topic).leader_id not in (-1, leader), "another one leads")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "of-deleted"})
    try:
        first, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), 20)
        assert first == 20
    finally:
        consumer.close()
    cluster.start(leader)
    cluster.until_in_sync(topic)


def test_the_cluster_describes_itself(cluster: ClusterProcesses) -> None:
    topic = cluster.create("described")
    gone = cluster.partition(topic).leader_id
    cluster.kill(gone)
    until(lambda: len(cluster.partition(topic).isr_nodes) == 2, "two replicas are left")
    command = [sys.executable, "-m", "ottla", "cluster", "describe", "--json"]
    done = subprocess.run(
        [*command, "--bootstrap", cluster.any_alive().bootstrap],
        capture_output=True,
        check=True,
        timeout=stretched(30),
    )
    told = json.loads(done.stdout)
    assert {broker["id"] for broker in told["brokers"]} == {0, 1, 2} - {gone}
    assert topic in {partition["topic"] for partition in told["under_replicated"]}
    cluster.start(gone)
    cluster.until_in_sync(topic)


def test_the_preferred_leader_is_elected_again(cluster: ClusterProcesses) -> None:
    topic = cluster.create("preferred")
    first = cluster.partition(topic).replica_nodes[0]
    cluster.kill(first)
    until(lambda: cluster.partition(topic).leader_id not in (-1, first), "another one leads")
    cluster.start(first)
    cluster.until_in_sync(topic)
    assert cluster.partition(topic).leader_id != first
    with Connection(cluster.any_alive().bootstrap) as connection:
        answer = connection.ask(
            ElectLeadersRequest(
                election_type=0, topic_partitions=[TopicPartitions(topic=topic, partitions=[0])]
            ),
            ElectLeadersResponse,
            2,
        )
    assert answer.error_code == 0
    assert answer.replica_election_results[0].partition_result[0].error_code == 0
    until(lambda: cluster.partition(topic).leader_id == first, "the preferred one leads")
    cluster.until_in_sync(topic)
