"""What a cluster refuses, in one clear line, with nothing changed."""

import subprocess
from pathlib import Path

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from testkit.cluster import ClusterProcesses
from testkit.process import BrokerProcess, plain_environment
from testkit.raw import Connection
from testkit.waiting import stretched

from .writing import produce_to


def complaint(broker: BrokerProcess) -> str:
    """What a broker says that does not start."""
    done = subprocess.run(
        broker.command(),
        capture_output=True,
        text=True,
        timeout=stretched(60),
        check=False,
        env=plain_environment(),
    )
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("ottla")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder and what is in it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_folder_of_another_cluster_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "one", 2) as one:
        one.create("kept", replicas=1)
        for broker in one.brokers:
            broker.stop()
        folder = one.brokers[1].folder
    before = contents(folder / "data")
    with ClusterProcesses(tmp_path / "other", 1) as other:
        settings = other.brokers[0].settings | {"node.id": "1"}
        said = complaint(BrokerProcess(folder, settings))
        assert "belongs to node 1 of cluster" in said
        assert contents(folder / "data") == before
        assert [each.node_id for each in other.metadata("").brokers] == [0]


def test_a_store_that_is_none_is_refused(tmp_path: Path) -> None:
    for store in ("mysql://localhost", "zookeeper://", f"sqlite:{tmp_path}/no/such/folder/x"):
        broker = BrokerProcess(tmp_path / "broker", {"ottla.store": store})
        assert complaint(broker)


def test_an_unreachable_zookeeper_is_an_error(tmp_path: Path) -> None:
    settings = {
        "ottla.store": "zookeeper://127.0.0.1:1/brokers",
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "2000",
        "initial.broker.registration.timeout.ms": "2000",
    }
    assert "127.0.0.1:1" in complaint(BrokerProcess(tmp_path / "broker", settings))


def test_a_second_broker_with_the_same_id_is_refused(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, 2) as cluster:
        topic = cluster.create("kept", replicas=2)
        before = cluster.partition(topic)
        twin = BrokerProcess(tmp_path / "twin", cluster.brokers[1].settings)
        assert "another broker is registered with id 1" in complaint(twin)
        assert cluster.brokers[1].is_running
        assert cluster.partition(topic) == before
        assert produce_to(cluster.brokers[before.leader_id], topic)[0].error_code == 0


def test_more_replicas_than_brokers_are_refused(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, 2) as cluster:
        with Connection(cluster.any_alive().bootstrap) as connection:
            topic = CreatableTopic(name="wide", num_partitions=1, replication_factor=3)
            answer = connection.ask(
                CreateTopicsRequest(topics=[topic], timeout_ms=5000), CreateTopicsResponse, 7
            )
        assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert "only 2 broker(s) are registered" in (answer.topics[0].error_message or "")
        assert not cluster.metadata("wide").topics[0].partitions
