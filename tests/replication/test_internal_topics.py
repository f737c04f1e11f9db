"""Internal topics that a broker made while it was alone get their replicas when others join."""

from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from testkit.cluster import ClusterProcesses
from testkit.waiting import until

from .test_coordinators_move import GROUP, QUICK, TRANSACTION, coordinator_of, transactional

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def committed(cluster: ClusterProcesses, position: TopicPartition | None = None) -> int:
    """The group's position, after committing one if it is given."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "early", **QUICK})
    try:
        if position is not None:
            consumer.commit(offsets=[position], asynchronous=False)
        (found,) = consumer.committed([TopicPartition("kept", 0)], 30)
        return found.offset
    finally:
        consumer.close()


def test_what_one_broker_kept_survives_its_death_once_others_have_joined(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path)
    try:
        cluster.start(0)
        cluster.create("kept", replicas=1)
        assert committed(cluster, TopicPartition("kept", 0, 7)) == 7
        producer = transactional(cluster, "early")
        producer.init_transactions(30)
        for topic in (OFFSETS, TRANSACTIONS):
            assert cluster.partition(topic).replica_nodes == [0]
        cluster.start(1)
        cluster.start(2)
        for topic in (OFFSETS, TRANSACTIONS):
            cluster.until_in_sync(topic)
            partitions = cluster.metadata(topic).topics[0].partitions
            assert {each.replica_nodes[0] for each in partitions} == {0, 1, 2}
        cluster.kill(0)
        until(
            lambda: (
                coordinator_of(cluster, "early", GROUP) != 0
                and coordinator_of(cluster, "early", TRANSACTION) != 0
            ),
            "others coordinate",
        )
        assert committed(cluster) == 7
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition("kept", 0, 9)], _metadata(cluster), 30)
        producer.commit_transaction(30)
        assert committed(cluster) == 9
    finally:
        cluster.kill_all()


def _metadata(cluster: ClusterProcesses) -> object:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "early", **QUICK})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()
