"""What a cluster refuses, in one clear line, with nothing changed."""

import subprocess
from pathlib import Path

from compat.cluster import ClusterProcesses, until
from compat.process import BrokerProcess, plain_environment
from compat.raw import Connection
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


def complaint(broker: BrokerProcess) -> str:
    """What a broker says that does not start."""
    done = subprocess.run(
        broker.command(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=plain_environment(),
    )
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("ottla")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


def test_a_folder_of_another_cluster_is_refused(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "one", 1) as one:
        folder = one.brokers[0].folder
    other = ClusterProcesses(tmp_path / "other", 1)
    with other:
        pass
    stranger = BrokerProcess(folder, other.brokers[0].settings)
    assert "cluster" in complaint(stranger)


def test_a_store_that_is_none_is_refused(tmp_path: Path) -> None:
    for store in ("mysql://localhost", "zookeeper://", f"sqlite:{tmp_path}/no/such/folder/x"):
        broker = BrokerProcess(tmp_path / "broker", {"ottla.store": store})
        assert complaint(broker)


def test_a_zookeeper_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    settings = {
        "ottla.store": "zookeeper://127.0.0.1:1/brokers",
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "2000",
    }
    assert "127.0.0.1:1" in complaint(BrokerProcess(tmp_path / "broker", settings))


def test_the_older_of_two_brokers_with_one_id_ends(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, 2) as cluster:
        older = cluster.brokers[1]
        twin = BrokerProcess(tmp_path / "twin", older.settings)
        with twin:
            until(lambda: not older.is_running, "the older one has ended")
            assert "another one has its id" in older.log_text()


def test_more_replicas_than_brokers_are_refused(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, 2) as cluster:
        with Connection(cluster.any_alive().bootstrap) as connection:
            topic = CreatableTopic(name="wide", num_partitions=1, replication_factor=3)
            answer = connection.ask(
                CreateTopicsRequest(topics=[topic], timeout_ms=5000), CreateTopicsResponse, 7
            )
        assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert not cluster.metadata("wide").topics[0].partitions
