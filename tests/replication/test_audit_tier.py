"""The brokers' audit in a cluster: the leader counts, and nothing is counted twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.audit.events import AUDIT_TOPIC, Tier
from ottla.cli.audit import read_events
from ottla.client import Client
from testkit.cluster import ClusterProcesses
from testkit.waiting import until
from tests.audit.auditing import INTERVAL_MS, Audited, stored

from .writing import Writer

COUNTING = {"ottla.audit.enable": "true", "ottla.audit.interval.ms": str(INTERVAL_MS)}
PARTITIONS = 6


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path, settings=COUNTING) as brokers:
        yield brokers


def write(writer: Writer, topic: str, count: int) -> None:
    for partition in range(PARTITIONS):
        writer.write(topic, count, partition)
    writer.flush()


def until_counted(cluster: ClusterProcesses, topic: str, count: int) -> None:
    """Wait until the audit has counted so many records, all of them once and none unsure."""
    until(lambda: cluster.metadata(AUDIT_TOPIC).topics[0].partitions, "the audit has begun")
    audited = Audited(cluster.any_alive().bootstrap)
    report = audited.report_when(topic, lambda told: stored(told) >= count)
    assert stored(report) == count
    assert report.notes == []
    assert report.lost == 0
    with Client(audited.bootstrap) as client:
        events, _ = read_events(client, 0)
    ends: dict[str, int] = {}
    for event in events:
        if event.tier is Tier.BROKER and event.topic == topic:
            assert event.sequence == ends.get(event.instance, 0), "each continues where one ended"
            ends[event.instance] = event.next or 0
    assert sum(ends.values()) == count


def test_every_leader_counts_and_a_new_one_continues_from_there(cluster: ClusterProcesses) -> None:
    topic = cluster.create("counted", partitions=PARTITIONS)
    leaders = {each.leader_id for each in cluster.metadata(topic).topics[0].partitions}
    assert leaders == {0, 1, 2}
    writer = Writer(cluster)
    write(writer, topic, 50)
    until_counted(cluster, topic, 50 * PARTITIONS)
    # The leader of the audit topic itself goes, with all that it knew.
    gone = cluster.partition(AUDIT_TOPIC).leader_id
    cluster.kill(gone)
    write(writer, topic, 30)
    until_counted(cluster, topic, 80 * PARTITIONS)
    cluster.start(gone)
    cluster.until_in_sync(topic)
    # Back in its old place, it leads again without having counted what others did meanwhile.
    other = next(number for number in range(3) if number != gone)
    assert cluster.brokers[other].stop() == 0
    write(writer, topic, 20)
    until_counted(cluster, topic, 100 * PARTITIONS)
    cluster.start(other)
    assert not writer.failed


def test_the_audit_topic_gets_its_replicas(cluster: ClusterProcesses) -> None:
    topic = cluster.create("small")
    writer = Writer(cluster)
    writer.write(topic, 1)
    writer.flush()
    until(lambda: cluster.metadata(AUDIT_TOPIC).topics[0].partitions, "the audit has begun")
    cluster.until_in_sync(AUDIT_TOPIC)
