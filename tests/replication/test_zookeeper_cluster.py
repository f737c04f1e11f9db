"""Three real brokers over a real ZooKeeper: silence, pauses, and a ZooKeeper that is gone."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.produce import ProduceResponse
from testkit.batches import values
from testkit.cluster import ClusterProcesses
from testkit.process import BrokerProcess
from testkit.raw import ClosedError, Connection
from testkit.server import free_port
from testkit.waiting import stretched, until
from testkit.zookeeper_servers import Ensemble, running_ensemble
from tests.e2e.asking import (
    FETCH,
    PRODUCE,
    From,
    fetch_request,
    partitions_of,
    produce_request,
)

from .writing import Writer, metric, paused, produce_to, read_all

SESSION_SECONDS = 3.0
QUICK = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
}
REFUSED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
)


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
    brokers = ClusterProcesses(folder, settings=QUICK, store=store)
    for broker in brokers.brokers:
        broker.settings["ottla.metrics.port"] = str(free_port())
    with brokers:
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
    assert time.monotonic() - began < stretched(SESSION_SECONDS + 4)
    assert not writer.failed
    assert read_all(cluster, topic, 300) == [b"%d" % number for number in range(300)]
    cluster.start(leader)
    cluster.until_in_sync(topic)


def test_a_leader_that_wakes_up_acknowledges_nothing_and_shows_nothing_uncommitted(
    cluster: ClusterProcesses,
) -> None:
    # The controller leads one of the partitions, so both roles are taken from the paused broker.
    topic = cluster.create("paused", partitions=3, min_insync_replicas="2")
    told = cluster.metadata(topic)
    number = told.controller_id
    index = next(
        each.partition_index for each in told.topics[0].partitions if each.leader_id == number
    )
    others = [other for other in range(3) if other != number]
    old, new = cluster.brokers[number], cluster.brokers[others[0]]
    writer = Writer(cluster)
    writer.write(topic, 50, index)
    writer.flush()
    with paused(cluster, *others):  # not for long: their sessions live on
        until(
            lambda: metric(old, "kafka_server_delayedoperationpurgatory_purgatorysize") == 0,
            "no follower's fetch waits for the record",
        )
        result, _ = produce_to(old, topic, acks=1, partition=index)
        assert (result.error_code, result.base_offset) == (0, 50), "only the leader has it"
        os.kill(old.pid, signal.SIGSTOP)
    try:
        until(
            lambda: cluster.partition(topic, index, of=new).leader_id not in (-1, number),
            "another one leads",
        )
        assert cluster.metadata(topic, of=new).controller_id != number
        # What is asked while it sleeps is what it sees first when it wakes up.
        with (
            Connection(old.bootstrap) as all_acks,
            Connection(old.bootstrap) as one_ack,
            Connection(old.bootstrap) as reader,
        ):
            for connection, acks in ((all_acks, -1), (one_ack, 1)):
                request = produce_request(topic, values(b"late"), index, acks=acks, timeout_ms=2000)
                connection.send(request, PRODUCE)
            reader.send(fetch_request(From(topic, 50, index)), FETCH)
            os.kill(old.pid, signal.SIGCONT)
            # One that finds itself outside of the cluster hangs up, which says the same.
            for connection in (all_acks, one_ack):
                with suppress(ClosedError):
                    _, answer = connection.receive(ProduceResponse, PRODUCE)
                    assert answer.responses[0].partition_responses[0].error_code in REFUSED
            with suppress(ClosedError):
                _, seen = reader.receive(FetchResponse, FETCH)
                (data,) = partitions_of(seen)
                assert not data.records
                assert data.error_code or data.high_watermark <= 50
    finally:
        os.kill(old.pid, signal.SIGCONT)
    writer.write(topic, 50, index)
    writer.flush()
    assert not writer.failed
    cluster.until_in_sync(topic)
    assert cluster.metadata(topic, of=old).controller_id != number
    until(
        lambda: len({cluster.log_bytes(each, topic, index) for each in range(3)}) == 1,
        "all replicas are the same",
    )
    assert read_all(cluster, topic, 100, partition=index) == [b"%d" % each for each in range(100)]


def test_writes_and_reads_continue_without_zookeeper(
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
    until(lambda: takes_a_record(cluster, topic), "acks=1 is served again")


def test_a_change_without_zookeeper_is_one_clear_error_and_changes_nothing(
    cluster: ClusterProcesses, zookeeper: Ensemble
) -> None:
    until(
        lambda: all(len(cluster.metadata("", of=each).brokers) == 3 for each in cluster.brokers),
        "the broker that lost its session has another one",
    )
    until(lambda: is_created(cluster, "known"), "changes are made")
    zookeeper.servers[0].kill()
    try:
        refused = create(cluster, "unknown")
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "ZooKeeper has not answered" in (refused.error_message or "")
        assert not cluster.metadata("unknown").topics[0].partitions
    finally:
        zookeeper.servers[0].restart()
    until(lambda: is_created(cluster, "later"), "changes are made again")
    assert not cluster.metadata("unknown").topics[0].partitions
    assert cluster.metadata("known").topics[0].partitions


def takes_a_record(cluster: ClusterProcesses, topic: str) -> bool:
    """Write with acks=1; False as well where the broker is on its way back into the cluster."""
    try:
        leader = cluster.brokers[max(0, cluster.partition(topic).leader_id)]
        return produce_to(leader, topic, acks=1)[0].error_code == ErrorCode.NONE
    except (ClosedError, ConnectionError):
        return False


def is_created(cluster: ClusterProcesses, name: str) -> bool:
    """Ask for a topic; False as well where the broker is on its way back into the cluster."""
    try:
        told = create(cluster, name).error_code
    except (ClosedError, ConnectionError):
        return False
    return told in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def create(cluster: ClusterProcesses, name: str) -> CreatableTopicResult:
    """Ask for a topic; what the broker says."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    with Connection(cluster.any_alive().bootstrap) as connection:
        answer = connection.ask(
            CreateTopicsRequest(topics=[topic], timeout_ms=10_000), CreateTopicsResponse, 7
        )
    return answer.topics[0]


def test_a_broker_that_starts_before_zookeeper_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "zookeeper").mkdir()
    ensemble = Ensemble(tmp_path / "zookeeper")
    settings = QUICK | {"ottla.store": ensemble.address("/early")}
    broker = BrokerProcess(tmp_path / "broker", settings)
    broker.launch()
    try:
        until(lambda: "ZooKeeper unreachable; retrying" in broker.log_text(), "it waits")
        ensemble.start()
        until(lambda: "broker started" in broker.log_text(), "it has started")
    finally:
        broker.kill()
        ensemble.stop()
