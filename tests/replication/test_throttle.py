"""Throttled replication: which replicas, and how much; and a follower that is really held back."""

from collections.abc import Iterator
from time import monotonic

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from ottla.replication.throttle import ReplicationQuota, names_replica
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from testkit.cluster import ClusterProcesses
from testkit.raw import Connection
from testkit.waiting import until

from .test_moving import move

TOPIC, BROKER = 2, 4
ALL = ""


@pytest.mark.parametrize(
    ("replicas", "is_named"),
    [("", False), ("*", True), ("3:7", True), ("3:8,3:7", True), ("3:8", False), ("2:7", False)],
)
def test_a_topic_names_its_throttled_replicas(replicas: str, is_named: bool) -> None:
    assert names_replica(replicas, 3, 7) is is_named


@given(
    st.integers(1, 10_000),
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 5_000)), min_size=1, max_size=40),
)
def test_a_rate_holds_on_the_average(rate: int, steps: list[tuple[float, int]]) -> None:
    quota, now, sent = ReplicationQuota(), 100.0, 0
    largest = 0
    for passed, amount in steps:
        now += passed
        if quota.wait(rate, now) == 0:
            quota.used(amount, rate, now)
            sent += amount
            largest = max(largest, amount)
    assert sent <= rate * (now - 100.0 + 1) + largest + 1


def test_who_waits_gets_on() -> None:
    quota = ReplicationQuota()
    quota.used(5_000, 1_000, 0.0)
    now = 0.0
    while wait := quota.wait(1_000, now):
        assert 0 < wait <= 1
        now += wait
    assert 3.9 < now < 5.1


def test_a_rate_of_nothing_lets_nothing_more_pass() -> None:
    quota = ReplicationQuota()
    assert quota.wait(0, 0.0) == quota.wait(0, 1e6) == 1.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("throttled")) as brokers:
        yield brokers


def _set(cluster: ClusterProcesses, kind: int, name: str, **configs: str) -> None:
    wanted = [
        AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=wanted)
    with Connection(cluster.any_alive().bootstrap) as connection:
        answer = connection.ask(
            IncrementalAlterConfigsRequest(resources=[resource]),
            IncrementalAlterConfigsResponse,
            1,
        )
    assert answer.responses[0].error_code == 0, answer.responses[0].error_message


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_move_takes_as_long_as_the_throttle_says(cluster: ClusterProcesses, side: str) -> None:
    first, second = 0, 1
    topic = f"moved-{side}"
    cluster.create(topic, replicas=1)
    assert move(cluster, topic, [first]) == 0
    until(lambda: cluster.partition(topic).leader_id == first, "the first leads")
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for _ in range(300):
        producer.produce(topic, b"x" * 10_000)
    assert producer.flush(60) == 0
    _set(cluster, TOPIC, topic, **{f"{side}_replication_throttled_replicas": "*"})
    _set(cluster, BROKER, ALL, **{f"{side}_replication_throttled_rate": "500000"})
    begun = monotonic()
    assert move(cluster, topic, [second]) == 0
    until(lambda: cluster.partition(topic).leader_id == second, "the second leads")
    # 3 MB at 0.5 MB/s, but for a second's worth and what one fetch has.
    assert monotonic() - begun > 2
