"""Groups and transactions on three real brokers, whichever of them dies."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from testkit.cluster import ClusterProcesses
from testkit.process import BrokerProcess
from testkit.raw import Connection
from testkit.waiting import stretched, until

GROUP, TRANSACTION = 0, 1
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
QUICK = {"topic.metadata.refresh.interval.ms": 500, "reconnect.backoff.max.ms": 200}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("cluster")) as brokers:
        yield brokers


def coordinator_of(cluster: ClusterProcesses, key: str, kind: int) -> int:
    """The broker that coordinates, once there is one."""
    found: list[int] = []

    def known() -> bool:
        with Connection(cluster.any_alive().bootstrap) as connection:
            answer = connection.ask(
                FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]),
                FindCoordinatorResponse,
                6,
            )
        found[:] = [answer.coordinators[0].node_id]
        return found[0] >= 0

    until(known, f"{key} has a coordinator")
    return found[0]


def transactional(cluster: ClusterProcesses, name: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": name,
            "linger.ms": 0,
            **QUICK,
        }
    )


def read_committed(cluster: ClusterProcesses, topic: str, count: int) -> set[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"reader-of-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            **QUICK,
        }
    )
    found: list[bytes] = []
    try:
        consumer.subscribe([topic])
        misses = 0
        while len(found) < count and misses < 20:
            batch = consumer.consume(500, 1.0)
            misses += not batch
            found += [each.value() or b"" for each in batch if not each.error()]
    finally:
        consumer.close()
    assert len(found) == len(set(found))
    return set(found)


def test_a_transaction_spans_leaders_and_survives_its_coordinator(
    cluster: ClusterProcesses,
) -> None:
    topic = cluster.create("spanned", partitions=6, min_insync_replicas="2")
    producer = transactional(cluster, "spanning")
    producer.init_transactions(30)
    wanted: set[bytes] = set()
    killed = None
    for number in range(12):
        producer.begin_transaction()
        values = {b"%d-%d" % (number, partition) for partition in range(6)}
        for value in values:
            producer.produce(topic, value, partition=int(value[-1:]))
        producer.flush(30)
        if number == 6:
            killed = coordinator_of(cluster, "spanning", TRANSACTION)
            cluster.kill(killed)
        if number % 3 == 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
            wanted |= values
    assert read_committed(cluster, topic, len(wanted)) == wanted
    assert killed is not None
    cluster.start(killed)
    cluster.until_in_sync(topic)


def test_offsets_committed_in_a_transaction_count_with_any_coordinator(
    cluster: ClusterProcesses,
) -> None:
    topic = cluster.create("positions")
    producer = transactional(cluster, "positioning")
    producer.init_transactions(30)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "positions", **QUICK})
    try:
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.1) is None and consumer.assignment(), "assigned")
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, 7)], consumer.consumer_group_metadata(), 30
        )
        producer.commit_transaction(30)
        (found,) = consumer.committed([TopicPartition(topic, 0)], 30)
        assert found.offset == 7
    finally:
        consumer.close()


def test_a_group_continues_when_its_coordinator_is_killed(cluster: ClusterProcesses) -> None:
    topic = cluster.create("grouped", partitions=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **QUICK})
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "moving",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            **QUICK,
        }
    )
    seen: list[bytes] = []

    def read_to(count: int) -> None:
        def enough() -> bool:
            batch = consumer.consume(100, 0.2)
            seen.extend(each.value() or b"" for each in batch if not each.error())
            return len(seen) >= count

        until(enough, f"{count} records are read")
        consumer.commit(asynchronous=False)

    try:
        consumer.subscribe([topic])
        for number in range(60):
            producer.produce(topic, b"%d" % number, partition=number % 3)
        producer.flush(30)
        read_to(60)
        before = coordinator_of(cluster, "moving", GROUP)
        cluster.kill(before)
        for number in range(60, 120):
            producer.produce(topic, b"%d" % number, partition=number % 3)
        assert producer.flush(60) == 0
        read_to(120)
        assert sorted(seen, key=int) == [b"%d" % number for number in range(120)]
        assert coordinator_of(cluster, "moving", GROUP) != before
        committed = consumer.committed([TopicPartition(topic, each) for each in range(3)], 30)
        assert [each.offset for each in committed] == [40, 40, 40]
    finally:
        consumer.close()
    cluster.start(before)
    cluster.until_in_sync(topic)


def test_too_few_replicas_refuse_a_transaction_at_once(cluster: ClusterProcesses) -> None:
    last = coordinator_of(cluster, "refused", TRANSACTION)
    cluster.until_in_sync("__transaction_state")
    others = [number for number in range(3) if number != last]
    for number in others:
        cluster.kill(number)
    until(
        lambda: len(cluster.partition("__transaction_state").isr_nodes) == 1, "one replica is left"
    )
    began = time.monotonic()
    assert init_producer_id(cluster.brokers[last], "refused") == NOT_AVAILABLE
    assert time.monotonic() - began < stretched(2), "it did not wait for offsets.commit.timeout.ms"
    for number in others:
        cluster.start(number)
    until(lambda: init_producer_id(cluster.brokers[last], "refused") == 0, "it is served again")


def init_producer_id(broker: BrokerProcess, transactional_id: str) -> int:
    """Ask a coordinator for a producer's id; the error code."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=10_000
    )
    with Connection(broker.bootstrap) as connection:
        return connection.ask(request, InitProducerIdResponse, 4).error_code
