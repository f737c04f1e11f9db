"""Brokers that come back without what they had: a new disk, a removed folder, a damaged log.

Whatever one of them lost, the others have it: nothing acknowledged may be lost, and who lacks
records neither leads nor counts as in sync before it has copied them.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.cluster import ClusterProcesses
from testkit.process import BrokerProcess
from testkit.server import free_port
from testkit.waiting import until

from .writing import Writer, metric, read_all

NOBODY = -1


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path) as brokers:
        yield brokers


def written(cluster: ClusterProcesses, topic: str, count: int = 300) -> list[bytes]:
    """The records of a new topic, all of them acknowledged by all replicas."""
    cluster.create(topic, min_insync_replicas="2")
    writer = Writer(cluster)
    writer.write(topic, count)
    writer.flush()
    assert len(writer.acknowledged) == count
    return writer.acknowledged


def kill_all(cluster: ClusterProcesses) -> None:
    cluster.kill_all()
    for number in range(len(cluster.brokers)):
        cluster.declare_dead(number)


def launch(cluster: ClusterProcesses, number: int) -> None:
    """Start a broker that may have nothing to lead, and wait until it is registered and open."""
    broker = cluster.brokers[number]
    broker.forget_log()
    broker.launch()
    until(lambda: "broker started" in broker.log_text(), "it has started")
    until(lambda: leader(cluster, number, "__none__") is None, "it answers")


def leader(cluster: ClusterProcesses, number: int, topic: str) -> int | None:
    """Who leads, as one broker sees it; None where it knows no such topic."""
    found = cluster.metadata(topic, of=cluster.brokers[number]).topics[0]
    return found.partitions[0].leader_id if found.partitions else None


def all_are_equal(cluster: ClusterProcesses, topic: str) -> None:
    cluster.until_in_sync(topic)
    logs = [cluster.log_bytes(number, topic) for number in range(3)]
    assert logs[0]
    assert logs[0] == logs[1] == logs[2]


def test_the_first_broker_back_does_not_lead_with_a_new_disk(cluster: ClusterProcesses) -> None:
    topic = "disks"
    records = written(cluster, topic)
    kill_all(cluster)
    shutil.rmtree(cluster.brokers[0].data)
    launch(cluster, 0)
    assert leader(cluster, 0, topic) == NOBODY
    assert "no replica with its records is online" in cluster.brokers[0].log_text()
    cluster.start(1)
    until(lambda: leader(cluster, 0, topic) == 1, "one that has the records leads")
    cluster.start(2)
    all_are_equal(cluster, topic)
    assert read_all(cluster, topic, len(records)) == records


def test_brokers_that_were_killed_come_back_in_any_order(cluster: ClusterProcesses) -> None:
    topic = "killed"
    records = written(cluster, topic)
    kill_all(cluster)
    launch(cluster, 2)
    until(lambda: leader(cluster, 2, topic) == 2, "the first one back leads")
    cluster.start(0)
    cluster.start(1)
    all_are_equal(cluster, topic)
    assert read_all(cluster, topic, len(records)) == records


def reboot(cluster: ClusterProcesses, number: int) -> None:
    """As if the machine had started again since: what it had not flushed may be gone."""
    file = cluster.brokers[number].data / "storage.properties"
    lines = file.read_text().splitlines()
    file.write_text(
        "\n".join("boot.id=another" if line.startswith("boot.id=") else line for line in lines)
        + "\n"
    )


def test_a_replica_that_may_have_lost_its_page_cache_does_not_lead_before_others(
    cluster: ClusterProcesses,
) -> None:
    topic = "rebooted"
    records = written(cluster, topic)
    kill_all(cluster)
    reboot(cluster, 0)
    launch(cluster, 0)
    assert leader(cluster, 0, topic) == NOBODY
    # Nor after another restart, which finds the same boot id.
    cluster.kill(0)
    launch(cluster, 0)
    assert leader(cluster, 0, topic) == NOBODY
    cluster.start(1)
    until(lambda: leader(cluster, 0, topic) == 1, "one that was only killed leads")
    cluster.start(2)
    all_are_equal(cluster, topic)
    assert read_all(cluster, topic, len(records)) == records


def test_when_all_machines_were_rebooted_the_last_one_back_lets_one_lead(
    cluster: ClusterProcesses,
) -> None:
    topic = "blackout"
    records = written(cluster, topic)
    kill_all(cluster)
    for number in range(3):
        reboot(cluster, number)
    launch(cluster, 0)
    launch(cluster, 1)
    assert leader(cluster, 0, topic) == leader(cluster, 1, topic) == NOBODY
    launch(cluster, 2)
    until(lambda: leader(cluster, 0, topic) != NOBODY, "no better one will come")
    all_are_equal(cluster, topic)
    assert read_all(cluster, topic, len(records)) == records


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_removed_folder_is_copied_from_its_beginning(
    cluster: ClusterProcesses, clean: bool
) -> None:
    """What docs/operations.md says about a damaged log, one broker after the other."""
    topic = "repaired"
    records = written(cluster, topic)
    for number in range(3):
        if clean:
            cluster.brokers[number].stop()
        else:
            cluster.kill(number)
        shutil.rmtree(cluster.brokers[number].data / f"{topic}-0")
        cluster.start(number)
        all_are_equal(cluster, topic)
    assert read_all(cluster, topic, len(records)) == records


@pytest.mark.parametrize("what", ["removed", "damaged"])
def test_the_first_broker_back_does_not_lead_without_its_log(
    cluster: ClusterProcesses, what: str
) -> None:
    topic = "lost"
    records = written(cluster, topic)
    for number in range(3):  # the checkpoints know of the records
        cluster.brokers[number].stop()
        cluster.start(number)
        cluster.until_in_sync(topic)
    kill_all(cluster)
    folder = cluster.brokers[0].data / f"{topic}-0"
    if what == "removed":
        shutil.rmtree(folder)
    else:
        (file,) = folder.glob("*.log")
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    launch(cluster, 0)
    assert leader(cluster, 0, topic) == NOBODY
    # It is not taken for an in-sync replica after another restart either.
    cluster.kill(0)
    launch(cluster, 0)
    assert leader(cluster, 0, topic) == NOBODY
    launch(cluster, 1)
    until(lambda: leader(cluster, 0, topic) == 1, "one that has the records leads")
    launch(cluster, 2)
    if what == "damaged":  # as docs/operations.md says
        cluster.kill(0)
        shutil.rmtree(folder)
        cluster.start(0)
    all_are_equal(cluster, topic)
    assert read_all(cluster, topic, len(records)) == records


def end_is_cut(cluster: ClusterProcesses, number: int, topic: str) -> None:
    """As when a disk was unmounted that had not written everything, without a reboot."""
    data = cluster.brokers[number].data
    (data / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    (file,) = (data / f"{topic}-0").glob("*.log")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def knows_what_is_committed(cluster: ClusterProcesses, topic: str) -> None:
    files = [broker.data / "replication-offset-checkpoint" for broker in cluster.brokers]
    until(
        lambda: all(file.exists() and f"{topic} 0 300" in file.read_text() for file in files),
        "the high watermark is on disk",
    )


def test_a_replica_with_a_short_log_does_not_lead_before_others(
    cluster: ClusterProcesses,
) -> None:
    topic = "shorter"
    records = written(cluster, topic)
    knows_what_is_committed(cluster, topic)
    kill_all(cluster)
    end_is_cut(cluster, 0, topic)
    launch(cluster, 0)
    assert leader(cluster, 0, topic) == NOBODY
    # Nor after another restart, when its checkpoint has forgotten it.
    cluster.brokers[0].stop()
    launch(cluster, 0)
    assert leader(cluster, 0, topic) == NOBODY
    launch(cluster, 1)
    until(lambda: leader(cluster, 0, topic) == 1, "one that has the records leads")
    launch(cluster, 2)
    all_are_equal(cluster, topic)
    assert read_all(cluster, topic, len(records)) == records


def test_when_all_lack_what_was_committed_the_last_one_back_leads(
    cluster: ClusterProcesses,
) -> None:
    topic = "all-shorter"
    written(cluster, topic)
    knows_what_is_committed(cluster, topic)
    kill_all(cluster)
    for number in range(3):
        end_is_cut(cluster, number, topic)
    for number in range(3):
        launch(cluster, number)
    cluster.until_in_sync(topic)


def test_a_follower_keeps_its_records_where_its_leader_lost_them(tmp_path: Path) -> None:
    """A leader whose folders and checkpoints are gone, unseen: the others do not follow it."""
    topic, checkpoint = "kept", "replication-offset-checkpoint"
    ports = [free_port() for _ in range(3)]

    def metrics(number: int) -> dict[str, str]:
        return {"ottla.metrics.port": str(ports[number])}

    def is_on_disk(broker: BrokerProcess) -> bool:
        file = broker.data / checkpoint
        return file.exists() and f"{topic} 0 300" in file.read_text()

    brokers: list[BrokerProcess] = []

    def has_halted(number: int) -> bool:
        return "leader lacks committed records" in brokers[number].log_text()

    with ClusterProcesses(tmp_path, each=metrics) as cluster:
        brokers = cluster.brokers
        written(cluster, topic)
        until(lambda: all(map(is_on_disk, cluster.brokers)), "the high watermark is on disk")
        before = cluster.log_bytes(1, topic)
        kill_all(cluster)
        for path in cluster.brokers[0].data.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif "checkpoint" in path.name:
                path.unlink()
        launch(cluster, 0)
        until(lambda: leader(cluster, 0, topic) == 0, "it leads")
        launch(cluster, 1)
        launch(cluster, 2)
        until(lambda: has_halted(1) and has_halted(2), "they do not truncate, and say so")
        for number in (1, 2):
            broker = cluster.brokers[number]
            assert metric(broker, "ottla_server_replicamanager_haltedreplicacount") >= 1
            assert cluster.log_bytes(number, topic) == before
        assert cluster.partition(topic, of=cluster.brokers[0]).isr_nodes == [0]
