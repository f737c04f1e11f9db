"""A change that was decided for a topic leaves another topic of the same name alone."""

from collections.abc import Callable

import pytest

from ottla.config.dynamic import Alteration, AlterOp
from ottla.metadata.controller import Controller, change_isr, hand_over, take_role
from ottla.metadata.documents import PartitionState, topic_id_key
from ottla.metadata.elect_leaders import ElectionType, elect_leaders
from ottla.metadata.image import Image
from ottla.metadata.isr_proposal import Proposal
from ottla.metadata.reassignments import alter_reassignments
from ottla.metadata.store import Conflict, Delete, Op
from ottla.metadata.topics import (
    add_partitions,
    alter_topic_configs,
    delete_topic,
    replace_topic_configs,
)
from ottla.wire.errors import ErrorCode, KafkaError

from .world import Cluster

KEY = ("t", 0)
Decide = Callable[[Image], list[Op]]


def shrunk(cluster: Cluster) -> Proposal:
    """What the leader of the partition proposes that loses its last follower."""
    partition = cluster.partition()
    isr, epochs = partition.isr[:-1], partition.isr_epochs[:-1]
    state = PartitionState(partition.topic_id, partition.leader, 0, isr, 1, epochs)
    return Proposal(dict(zip(isr, epochs, strict=True)), state, partition.version)


def controller_of(image: Image) -> list[Op]:
    controller = Controller()
    controller.began(image)
    return controller.next_commit(image) or []


CHANGES: dict[str, Decide] = {
    "configs": lambda image: alter_topic_configs(
        image, "t", [Alteration("retention.ms", AlterOp.SET, "1")]
    ),
    "all configs": lambda image: replace_topic_configs(image, "t", {"retention.ms": "1"}),
    "partitions": lambda image: add_partitions(image, "t", 2, None, start=0)[1],
    "reassignment": lambda image: alter_reassignments(image, {KEY: [1, 2]})[1],
    "hand-over": lambda image: hand_over(image, KEY, image.partitions[KEY].topic_id, 1),
    "deletion": lambda image: delete_topic(image, "t"),
}


@pytest.fixture(params=[True, False], ids=["with id documents", "without"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Topic `t` in a store of today, or in one that brokers wrote before ids had documents."""
    cluster = Cluster()
    cluster.commit(take_role(cluster.image, 3, cluster.image.brokers[3].epoch))
    cluster.create("t", [1, 2, 3])
    if not request.param:
        cluster.commit([Delete(topic_id_key(cluster.partition().topic_id))])
        longer = [Alteration("retention.ms", AlterOp.SET, "2")]
        cluster.commit(alter_topic_configs(cluster.image, "t", longer))  # version 1
    return cluster


def recreate(cluster: Cluster) -> None:
    cluster.commit(delete_topic(cluster.image, "t"))
    cluster.create("t", [3, 2, 1])


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_on_its_way_conflicts_when_the_topic_is_recreated(
    cluster: Cluster, change: str
) -> None:
    ops = CHANGES[change](cluster.image)
    recreate(cluster)
    before = cluster.model.snapshot()
    with pytest.raises(Conflict):
        cluster.commit(ops)
    assert cluster.model.snapshot() == before


def test_an_election_on_its_way_conflicts_when_the_topic_is_recreated(cluster: Cluster) -> None:
    cluster.down(1)
    ops = controller_of(cluster.image)
    assert ops
    cluster.up(1)
    recreate(cluster)
    with pytest.raises(Conflict):
        cluster.commit(ops)
    assert cluster.partition().leader == 3


def test_a_preferred_election_on_its_way_conflicts_when_the_topic_is_recreated(
    cluster: Cluster,
) -> None:
    topic_id = cluster.partition().topic_id
    cluster.commit(hand_over(cluster.image, KEY, topic_id, 2))
    cluster.commit(alter_reassignments(cluster.image, {KEY: [3, 1, 2]})[1])
    ops = elect_leaders(cluster.image, ElectionType.PREFERRED, [KEY])[1]
    assert ops
    recreate(cluster)
    with pytest.raises(Conflict):
        cluster.commit(ops)


@pytest.mark.parametrize("is_known", [True, False], ids=["deletion is known", "not yet"])
def test_a_queued_change_of_the_isr_conflicts_when_the_topic_is_recreated(
    cluster: Cluster, is_known: bool
) -> None:
    """It waits in a queue, so its operations may be made when the image has the new topic."""
    proposal = shrunk(cluster)
    ops = change_isr(cluster.image, KEY, proposal)
    recreate(cluster)
    if is_known:
        ops = change_isr(cluster.image, KEY, proposal)
    with pytest.raises(Conflict):
        cluster.commit(ops)
    assert cluster.partition().isr == [3, 2, 1]


def test_a_failed_disk_of_a_deleted_topic_takes_no_replica_from_its_successor(
    cluster: Cluster,
) -> None:
    topic_id = cluster.partition().topic_id
    recreate(cluster)
    assert hand_over(cluster.image, KEY, topic_id, 1) == []


def test_a_deletion_by_id_does_not_delete_a_successor_of_the_same_name(cluster: Cluster) -> None:
    topic_id = cluster.partition().topic_id
    recreate(cluster)
    with pytest.raises(KafkaError) as refused:
        delete_topic(cluster.image, "t", topic_id)
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_ID


def test_changes_of_the_topic_itself_are_made(cluster: Cluster) -> None:
    cluster.commit(change_isr(cluster.image, KEY, shrunk(cluster)))
    assert cluster.partition().isr == [1, 2]
    for change in ("all configs", "partitions", "reassignment", "deletion"):
        cluster.commit(CHANGES[change](cluster.image))
    assert "t" not in cluster.image.topics
