"""Replicas move to other brokers, and back."""

import pytest

from ottla.metadata.controller import Controller, take_role
from ottla.metadata.documents import PartitionState, encode, partition_key
from ottla.metadata.image import PartitionImage
from ottla.metadata.reassignments import Reassignment, alter_reassignments, reassignments
from ottla.metadata.store import Update
from ottla.replication.replicas import Leadership
from ottla.wire.errors import ErrorCode, KafkaError

from .world import Cluster

KEY = ("t", 0)


class Moving(Cluster):
    """Five brokers, and a topic on three of them."""

    def __init__(self) -> None:
        super().__init__((1, 2, 3, 4, 5))
        self.commit(take_role(self.image, 5, self.image.brokers[5].epoch))
        self.create("t", [1, 2, 3], [1, 2, 3])

    def move(self, target: list[int] | None, key: tuple[str, int] = KEY) -> ErrorCode:
        outcomes, ops = alter_reassignments(self.image, {key: target})
        self.commit(ops)
        outcome = outcomes[key]
        return ErrorCode.NONE if outcome is None else outcome.code

    def joins(self, *brokers: int) -> None:
        """The leader takes followers into the ISR."""
        old = self.partition()
        isr = [*old.isr, *brokers]
        state = PartitionState(
            old.topic_id,
            old.leader,
            old.leader_epoch,
            isr,
            old.partition_epoch + 1,
            self.epochs(*isr),
            old.adding,
            old.removing,
        )
        self.commit([Update(partition_key(*KEY), encode(state), old.version)])

    def settle(self) -> None:
        controller = Controller()
        controller.began(self.image)
        while (ops := controller.next_commit(self.image)) is not None:
            self.commit(ops)

    @property
    def replicas(self) -> list[int]:
        return self.image.topics["t"].assignment[0]


def leadership(state: PartitionImage, replicas: list[int]) -> Leadership:
    """What the leader of a state knows of its followers: nothing."""
    return Leadership(
        state.leader, state, replicas, log_end=10, high_watermark=10, min_isr=1, lag=100, now=0
    )


@pytest.fixture
def cluster() -> Moving:
    return Moving()


def test_replicas_come_before_others_go(cluster: Moving) -> None:
    assert cluster.move([4, 3, 2]) == ErrorCode.NONE
    cluster.settle()
    assert cluster.replicas == [4, 3, 2, 1]
    assert reassignments(cluster.image) == {KEY: Reassignment([4, 3, 2, 1], [4], [1])}
    assert cluster.partition().leader == 1
    assert cluster.image.topics["t"].assignment[1] == [1, 2, 3]


def test_a_reassignment_is_complete_when_the_target_is_in_sync(cluster: Moving) -> None:
    cluster.move([4, 5])
    cluster.joins(4)
    cluster.settle()
    assert cluster.replicas == [4, 5, 1, 2, 3]
    cluster.joins(5)
    cluster.settle()
    assert cluster.replicas == [4, 5]
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (4, 1, [4, 5])
    assert partition.isr_epochs == cluster.epochs(4, 5)
    assert reassignments(cluster.image) == {}


def test_a_leader_in_the_target_stays(cluster: Moving) -> None:
    cluster.move([4, 1])
    cluster.joins(4)
    cluster.settle()
    partition = cluster.partition()
    assert cluster.replicas == [4, 1]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 1, [4, 1])


def test_a_target_that_bounced_must_come_in_sync_again(cluster: Moving) -> None:
    cluster.move([4])
    cluster.joins(4)
    cluster.bounce(4)
    cluster.settle()
    assert cluster.replicas == [4, 1, 2, 3]
    assert cluster.partition().isr == [1, 2, 3]


def test_fewer_replicas_are_done_at_once(cluster: Moving) -> None:
    cluster.move([2, 1])
    cluster.settle()
    assert cluster.replicas == [2, 1]
    assert cluster.partition().leader == 1
    assert cluster.partition().isr == [2, 1]
    assert cluster.partition().leader_epoch == 1


def test_another_order_needs_no_move(cluster: Moving) -> None:
    cluster.move([3, 2, 1])
    cluster.settle()
    assert cluster.replicas == [3, 2, 1]
    assert reassignments(cluster.image) == {}
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (1, 0)


def test_replicas_that_are_only_added_leave_the_leader_epoch(cluster: Moving) -> None:
    cluster.move([1, 2, 3, 4])
    cluster.joins(4)
    cluster.settle()
    assert cluster.replicas == [1, 2, 3, 4]
    assert cluster.partition().leader_epoch == 0


def test_a_cancelled_removal_leaves_the_leader_epoch(cluster: Moving) -> None:
    """A replica that was about to go stays, and has not deleted its log."""
    cluster.down(2)
    cluster.settle()
    cluster.move([1, 3])
    cluster.up(2)
    before = cluster.partition().leader_epoch
    cluster.move([1, 2, 3])
    assert cluster.partition().removing == []
    assert cluster.partition().leader_epoch == before


def test_a_replica_that_is_removed_and_added_again_is_unknown_to_its_leader(
    cluster: Moving,
) -> None:
    """The leader sees the first and the last state only, and they look the same otherwise."""
    cluster.move([1, 2, 3, 4, 5])
    before = cluster.partition()
    epoch = cluster.image.brokers[4].epoch
    term = leadership(before, cluster.replicas)
    term.check_fetch(4, epoch, before.leader_epoch)
    term.fetched(4, epoch, 10, 0, 1)
    assert term.may_join(4, cluster.image.brokers, 1)
    cluster.move(None)
    cluster.move([1, 2, 3, 4, 5])
    after = cluster.partition()
    assert (after.leader, after.isr, after.adding) == (before.leader, before.isr, before.adding)
    assert after.leader_epoch > before.leader_epoch
    again = leadership(after, cluster.replicas)
    assert not again.may_join(4, cluster.image.brokers, 1)
    with pytest.raises(KafkaError) as refused:  # sent before the log was deleted
        again.check_fetch(4, epoch, before.leader_epoch)
    assert refused.value.code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_cancelled_reassignment_leaves_the_replicas_from_before(cluster: Moving) -> None:
    cluster.move([4, 5])
    cluster.joins(4)
    assert cluster.move(None) == ErrorCode.NONE
    cluster.settle()
    assert sorted(cluster.replicas) == [1, 2, 3]
    assert cluster.partition().isr == [1, 2, 3]
    assert reassignments(cluster.image) == {}


def test_cancelling_a_changed_reassignment_goes_back_to_before_the_first(cluster: Moving) -> None:
    cluster.move([1, 4])
    cluster.move([4, 5])
    assert cluster.partition().adding == [4, 5]
    cluster.move(None)
    assert sorted(cluster.replicas) == [1, 2, 3]


def test_a_reassignment_that_is_not_there_cannot_be_cancelled(cluster: Moving) -> None:
    assert cluster.move(None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_cancelling_does_not_lose_the_only_replica_in_sync(cluster: Moving) -> None:
    cluster.move([4, 1])
    cluster.joins(4)
    cluster.down(1, 2, 3)
    cluster.settle()
    assert (cluster.partition().leader, cluster.partition().isr) == (4, [4])
    assert cluster.move(None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("target", [[], [1, 1], [1, 77]])
def test_a_bad_target_changes_nothing(cluster: Moving, target: list[int]) -> None:
    before = cluster.model.snapshot()
    assert cluster.move(target) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.model.snapshot() == before


def test_an_unknown_partition_cannot_move(cluster: Moving) -> None:
    assert cluster.move([1], ("t", 9)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.move([1], ("no", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_same_target_again_changes_nothing(cluster: Moving) -> None:
    cluster.move([4, 5])
    _, ops = alter_reassignments(cluster.image, {KEY: [4, 5]})
    assert ops == []
