"""Three real brokers over one SQLite file: copies, failover, controlled stops, bounces."""

from collections.abc import Iterator

import pytest

from ottla.wire.errors import ErrorCode
from testkit.cluster import ClusterProcesses
from testkit.waiting import until

from .writing import Writer, produce_to, read_all


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("cluster")) as brokers:
        yield brokers


def test_leaders_are_spread_and_every_broker_tells_the_same(cluster: ClusterProcesses) -> None:
    topic = cluster.create("spread", partitions=6)
    told = [cluster.metadata(topic, of=broker) for broker in cluster.brokers]
    assert len(told[0].brokers) == 3
    leaders = {each.partition_index: each.leader_id for each in told[0].topics[0].partitions}
    assert set(leaders.values()) == {0, 1, 2}
    for answer in told:
        assert {e.partition_index: e.leader_id for e in answer.topics[0].partitions} == leaders
        assert answer.controller_id == told[0].controller_id


def test_followers_copy_byte_for_byte(cluster: ClusterProcesses) -> None:
    topic = cluster.create("copied")
    writer = Writer(cluster)
    writer.write(topic, 500)
    writer.flush()
    assert len(writer.acknowledged) == 500
    logs = [cluster.log_bytes(number, topic) for number in range(3)]
    assert logs[0]
    assert logs[0] == logs[1] == logs[2]


def test_a_broker_that_does_not_lead_names_the_leader(cluster: ClusterProcesses) -> None:
    topic = cluster.create("hinted")
    leader = cluster.partition(topic).leader_id
    other = cluster.brokers[(leader + 1) % 3]
    result, answer = produce_to(other, topic)
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert result.current_leader.leader_id == leader
    assert [each.port for each in answer.node_endpoints] == [cluster.brokers[leader].port]


def test_nothing_acknowledged_is_lost_when_the_leader_is_killed(
    cluster: ClusterProcesses,
) -> None:
    topic = cluster.create("failover", min_insync_replicas="2")
    writer = Writer(cluster)
    writer.write(topic, 200)
    writer.flush()
    before = cluster.partition(topic)
    writer.write(topic, 200)
    cluster.kill(before.leader_id)
    writer.write(topic, 200)
    writer.flush()
    after = cluster.partition(topic)
    assert after.leader_id not in (-1, before.leader_id)
    assert after.leader_epoch > before.leader_epoch
    assert not writer.failed
    assert len(writer.acknowledged) == 600
    assert read_all(cluster, topic, 600) == [b"%d" % number for number in range(600)]

    cluster.start(before.leader_id)
    cluster.until_in_sync(topic)
    until(
        lambda: len({cluster.log_bytes(number, topic) for number in range(3)}) == 1,
        "the bounced broker has what the others have",
    )


def test_a_stopping_broker_hands_its_leaders_over(cluster: ClusterProcesses) -> None:
    topic = cluster.create("handed", partitions=6)
    writer = Writer(cluster)
    for partition in range(6):
        writer.write(topic, 20, partition)
    writer.flush()
    assert cluster.brokers[1].stop() == 0
    for each in cluster.metadata(topic).topics[0].partitions:
        assert each.leader_id in (0, 2)
        assert 1 not in each.isr_nodes
    for partition in range(6):
        writer.write(topic, 20, partition)
    writer.flush()
    assert not writer.failed
    cluster.start(1)
    cluster.until_in_sync(topic)


def test_too_few_in_sync_replicas_refuse_a_write(cluster: ClusterProcesses) -> None:
    topic = cluster.create("too-few", min_insync_replicas="3")
    leader = cluster.partition(topic).leader_id
    gone = (leader + 1) % 3
    cluster.kill(gone)
    until(
        lambda: len(cluster.partition(topic, of=cluster.brokers[leader]).isr_nodes) == 2,
        "the dead one left the ISR",
    )
    result, _ = produce_to(cluster.brokers[leader], topic)
    assert result.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.start(gone)
    cluster.until_in_sync(topic)
