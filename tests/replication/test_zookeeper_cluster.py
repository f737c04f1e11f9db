"""Three real brokers over a real ZooKeeper: silence, pauses, and a ZooKeeper that is gone."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from compat.cluster import ClusterProcesses, until
from ottla.wire.errors import ErrorCode
from tests.cluster.zookeeper_servers import Ensemble, running_ensemble

from .writing import Writer, produce_to, read_all

SESSION_SECONDS = 3.0
QUICK = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
}
STALE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running_ensemble(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


@pytest.fixture(scope="module")
def cluster(
    zookeeper: Ensemble, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterProcesses]:
    folder = tmp_path_factory.mktemp("cluster")
    store = zookeeper.address("/brokers")
    with ClusterProcesses(folder, settings=QUICK, store=store) as brokers:
        yield brokers


def test_nothing_acknowledged_is_lost_when_the_leader_is_killed(
    cluster: ClusterProcesses,
) -> None:
    topic = cluster.create("failover", min_insync_replicas="2")
    writer = Writer(cluster)
    writer.write(topic, 100)
    writer.flush()
    leader = cluster.partition(topic).leader_id
    writer.write(topic, 100)
    cluster.kill(leader)
    began = time.monotonic()
    writer.write(topic, 100)
    writer.flush()
    assert time.monotonic() - began < SESSION_SECONDS + 4
    assert not writer.failed
    assert read_all(cluster, topic, 300) == [b"%d" % number for number in range(300)]
    cluster.start(leader)
    cluster.until_in_sync(topic)


def test_a_leader_that_wakes_up_acknowledges_nothing(cluster: ClusterProcesses) -> None:
    topic = cluster.create("paused", min_insync_replicas="2")
    writer = Writer(cluster)
    writer.write(topic, 50)
    writer.flush()
    number = cluster.partition(topic).leader_id
    paused = cluster.brokers[number]
    other = cluster.brokers[(number + 1) % 3]
    os.kill(paused.pid, signal.SIGSTOP)
    try:
        until(
            lambda: cluster.partition(topic, of=other).leader_id not in (-1, number),
            "another one leads",
        )
        writer.write(topic, 50)
        writer.flush()
    finally:
        os.kill(paused.pid, signal.SIGCONT)
    for acks in (1, -1):
        result, _ = produce_to(paused, topic, acks=acks, timeout_ms=1000)
        assert result.error_code in STALE
    assert not writer.failed
    cluster.until_in_sync(topic)
    until(
        lambda: len({cluster.log_bytes(each, topic) for each in range(3)}) == 1,
        "all replicas are the same",
    )
    assert read_all(cluster, topic, 100) == [b"%d" % each for each in range(100)]


def test_writes_and_reads_go_on_without_zookeeper(
    cluster: ClusterProcesses, zookeeper: Ensemble
) -> None:
    topic = cluster.create("alone", min_insync_replicas="2")
    writer = Writer(cluster)
    writer.write(topic, 50)
    writer.flush()
    leader = cluster.brokers[cluster.partition(topic).leader_id]
    zookeeper.servers[0].pause()
    try:
        until(
            lambda: produce_to(leader, topic, acks=1)[0].error_code,
            "the lease for acks=1 is over",
            SESSION_SECONDS + 2,
        )
        writer.write(topic, 50)
        writer.flush()
        assert not writer.failed
        found = read_all(cluster, topic, 1_000_000, misses=3)
        assert {b"%d" % each for each in range(100)} <= set(found)
    finally:
        zookeeper.servers[0].resume()
    cluster.until_in_sync(topic)
    until(
        lambda: (
            produce_to(cluster.brokers[max(0, cluster.partition(topic).leader_id)], topic, acks=1)[
                0
            ].error_code
            == 0
        ),
        "acks=1 is served again",
    )
