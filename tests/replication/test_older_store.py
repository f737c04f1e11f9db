"""Metadata that are suddenly older, another cluster's or gone cost no record."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient  # type: ignore[import-untyped]  # it has no types
from kazoo.exceptions import NotEmptyError  # type: ignore[import-untyped]  # as above

from faults.backups import Backups
from testkit.cluster import ClusterProcesses
from testkit.waiting import until
from testkit.zookeeper_servers import Ensemble, running_ensemble

from .writing import Writer, read_all

QUICK = {"broker.heartbeat.interval.ms": "500", "broker.session.timeout.ms": "3000"}
REFUSAL = "holds different metadata from what this broker had"
NEWER = "log has a newer leader epoch than the metadata"
CHROOT = "/brokers"


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[Ensemble]:
    (tmp_path / "zookeeper").mkdir()
    with running_ensemble(tmp_path / "zookeeper") as ensemble:
        yield ensemble


@pytest.fixture
def cluster(zookeeper: Ensemble, tmp_path: Path) -> Iterator[ClusterProcesses]:
    store = zookeeper.address(CHROOT)
    with ClusterProcesses(tmp_path / "cluster", settings=QUICK, store=store) as brokers:
        yield brokers


def written(cluster: ClusterProcesses, topic: str) -> str:
    """A topic with 100 records on every broker."""
    cluster.create(topic, min_insync_replicas="2")
    writer = Writer(cluster)
    writer.write(topic, 100)
    writer.flush()
    assert not writer.failed
    cluster.until_in_sync(topic)
    return topic


def logs(cluster: ClusterProcesses, topic: str) -> list[bytes]:
    return [cluster.log_bytes(number, topic) for number in range(3)]


@contextmanager
def raw_client(zookeeper: Ensemble) -> Iterator[KazooClient]:
    client = KazooClient(f"127.0.0.1:{zookeeper.servers[0].port}")
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def overtake(zookeeper: Ensemble) -> None:
    """A ZooKeeper that is behind sends clients away; it lets them in once others have used it."""
    with raw_client(zookeeper) as client:
        for number in range(500):
            client.create(f"/others-{number}")


def until_refused(cluster: ClusterProcesses) -> None:
    until(
        lambda: all(REFUSAL in broker.log_text() for broker in cluster.brokers),
        "every broker refuses the store",
    )


def test_zookeeper_from_an_older_backup_deletes_nothing_and_is_left_when_the_newer_is_back(
    zookeeper: Ensemble, cluster: ClusterProcesses, tmp_path: Path
) -> None:
    early = written(cluster, "early")
    backups = Backups(zookeeper, tmp_path / "backups")
    backups.take_first()
    late = written(cluster, "late")
    before = logs(cluster, early), logs(cluster, late)
    backups.put_older(newest=False)
    overtake(zookeeper)
    until_refused(cluster)
    assert (logs(cluster, early), logs(cluster, late)) == before
    backups.put_current()
    for topic in (early, late):
        cluster.until_in_sync(topic)
        assert read_all(cluster, topic, 100) == [b"%d" % number for number in range(100)]
    for broker in cluster.brokers:
        assert not [*broker.data.glob("*-stray"), *broker.data.glob("*-delete")]


def test_a_removed_chroot_deletes_nothing(zookeeper: Ensemble, cluster: ClusterProcesses) -> None:
    topic = written(cluster, "kept")
    before = logs(cluster, topic)

    def is_gone() -> bool:
        try:
            client.delete(CHROOT, recursive=True)
        except NotEmptyError:  # a broker has just written to it
            return False
        return True

    with raw_client(zookeeper) as client:
        until(is_gone, "the chroot is removed")
    until_refused(cluster)
    assert logs(cluster, topic) == before


def test_brokers_that_start_on_an_older_backup_set_aside_what_it_lacks(
    zookeeper: Ensemble, cluster: ClusterProcesses, tmp_path: Path
) -> None:
    early = written(cluster, "early")
    backups = Backups(zookeeper, tmp_path / "backups")
    backups.take_first()
    late = written(cluster, "late")
    before = logs(cluster, late)
    cluster.kill_all()
    backups.put_older(newest=False)
    for number in range(3):
        cluster.start(number)
    cluster.until_in_sync(early)
    assert read_all(cluster, early, 100) == [b"%d" % number for number in range(100)]
    strays = [sorted(broker.data.glob("late-0.*-stray")) for broker in cluster.brokers]
    for (stray,), broker, content in zip(strays, cluster.brokers, before, strict=True):
        assert (stray / f"{0:020d}.log").read_bytes() == content
        assert not (broker.data / "late-0").exists()
    for (stray,) in strays:
        shutil.rmtree(stray)


def test_a_broker_deletes_at_start_what_was_deleted_while_it_was_down(
    cluster: ClusterProcesses,
) -> None:
    topic = written(cluster, "deleted")
    cluster.kill(2)
    cluster.delete(topic)
    cluster.brokers[2].start()
    until(
        lambda: not [*cluster.brokers[2].data.glob("deleted-0*")],
        "the folder of the deleted topic is gone",
    )


def test_a_replica_does_not_serve_in_an_older_leader_epoch_than_its_log_has(
    zookeeper: Ensemble, cluster: ClusterProcesses, tmp_path: Path
) -> None:
    """All restart on an older copy that gives out epochs again; nothing is truncated by it."""
    topic = written(cluster, "terms")
    backups = Backups(zookeeper, tmp_path / "backups")
    backups.take_first()
    writer = Writer(cluster)
    for _ in range(2):
        leader = cluster.partition(topic).leader_id
        cluster.kill(leader)
        writer.write(topic, 10)
        writer.flush()
        cluster.start(leader)
        cluster.until_in_sync(topic)
    assert not writer.failed
    until(lambda: len(set(logs(cluster, topic))) == 1, "all replicas are the same")
    before = logs(cluster, topic)
    cluster.kill_all()
    backups.put_older(newest=False)
    for number in range(3):
        cluster.start(number)
    until(
        lambda: any(NEWER in broker.log_text() for broker in cluster.brokers),
        "a replica refuses its role",
    )
    assert logs(cluster, topic) == before
    cluster.kill_all()
    backups.put_current()
    for number in range(3):
        cluster.start(number)
    cluster.until_in_sync(topic)
    expected = [b"%d" % number for number in [*range(100), *range(20)]]
    assert read_all(cluster, topic, 120) == expected
