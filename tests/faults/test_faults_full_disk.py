"""A disk that is full for a while: nothing is out of order after it, and others lead meanwhile.

The size of a broker's files is limited, as the harness does it where it may not mount.
"""

from pathlib import Path

from faults.disks import LimitedFiles
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from testkit.batches import Batch, Plain
from testkit.cluster import ClusterProcesses
from testkit.process import BrokerProcess
from testkit.raw import Connection
from testkit.waiting import until

TOPIC = "kept"
PRODUCER = 4242
LARGER_THAN_THE_STORE = 900_000
"""The limit is for all files of a process, and the metadata store is to be written."""


def produce(connection: Connection, sequence: int, size: int = 10) -> int:
    """Write the batch of a producer that has this sequence; the error."""
    batch = Batch(
        [Plain(b"x" * size)], producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence
    )
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=TOPIC,
                partition_data=[PartitionProduceData(index=0, records=batch.build())],
            )
        ],
    )
    answer = connection.ask(request, ProduceResponse, 12)
    return answer.responses[0].partition_responses[0].error_code


def test_what_is_behind_a_refused_batch_is_not_told_to_be_out_of_order(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, Connection(broker.bootstrap) as connection:
        disk = LimitedFiles(broker.data, lambda: broker.pid)
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        connection.ask(
            CreateTopicsRequest(topics=[topic], timeout_ms=10_000), CreateTopicsResponse, 7
        )
        assert produce(connection, 0) == ErrorCode.NONE
        disk.fill()
        for sequence in (1, 2, 3):
            assert produce(connection, sequence) == ErrorCode.KAFKA_STORAGE_ERROR
        disk.free()
        # Still in flight when the disk was freed: to be sent again behind the first, too.
        assert produce(connection, 2) == ErrorCode.KAFKA_STORAGE_ERROR
        for sequence in (1, 2, 3):
            assert produce(connection, sequence) == ErrorCode.NONE
        assert produce(connection, 9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert not broker.tracebacks()


def test_a_leader_with_a_full_disk_hands_over(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        cluster.create(TOPIC, min_insync_replicas="2")
        number = cluster.partition(TOPIC).leader_id
        full = cluster.brokers[number]
        other = cluster.brokers[(number + 1) % 3]
        disk = LimitedFiles(full.data, lambda: full.pid)
        with Connection(full.bootstrap) as connection:
            assert produce(connection, 0, LARGER_THAN_THE_STORE) == ErrorCode.NONE
            disk.fill()
            assert produce(connection, 1) == ErrorCode.KAFKA_STORAGE_ERROR
        until(
            lambda: cluster.partition(TOPIC, of=other).leader_id not in (-1, number),
            "another one leads",
        )
        leader = cluster.brokers[cluster.partition(TOPIC, of=other).leader_id]
        with Connection(leader.bootstrap) as connection:
            # The full one gets a place in sync while there is nothing to copy; with the first
            # record it leaves, long before `replica.lag.time.max.ms`.
            for sequence in (1, 2):
                assert produce(connection, sequence) == ErrorCode.NONE
        assert number not in cluster.partition(TOPIC, of=other).isr_nodes
        disk.free()
        cluster.until_in_sync(TOPIC)
        assert not full.tracebacks()
