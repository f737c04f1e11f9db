"""ElectLeaders and the balance of leaders; error codes are Apache Kafka's."""

import pytest

from ottla.metadata.controller import Controller, take_role
from ottla.metadata.documents import PartitionState, encode, partition_key
from ottla.metadata.elect_leaders import ElectionType, elect_leaders, rebalance
from ottla.metadata.elections import NO_LEADER
from ottla.metadata.store import Conflict, Update
from ottla.wire.errors import ErrorCode

from .world import Cluster

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


class Controlled(Cluster):
    """A cluster with a controller that has settled everything."""

    def __init__(self) -> None:
        super().__init__((1, 2, 3, 9))
        self.commit(take_role(self.image, 9, self.image.brokers[9].epoch))

    def settle(self) -> None:
        controller = Controller()
        controller.began(self.image)
        while (ops := controller.next_commit(self.image)) is not None:
            self.commit(ops)

    def elect(self, kind: ElectionType, *keys: tuple[str, int]) -> list[ErrorCode]:
        outcomes, ops = elect_leaders(self.image, kind, keys)
        self.commit(ops)
        return [ErrorCode.NONE if one is None else one.code for one in outcomes.values()]


@pytest.fixture
def cluster() -> Controlled:
    cluster = Controlled()
    cluster.create("t", [1, 2], [2, 1])
    cluster.shut_down(1)
    cluster.settle()
    cluster.down(1)
    cluster.up(1)
    return cluster


def rejoin(cluster: Controlled, broker: int) -> None:
    """A follower has caught up: the leader takes it into the ISR."""
    for index in (0, 1):
        old = cluster.partition("t", index)
        isr = [*old.isr, broker]
        state = PartitionState(
            old.topic_id, old.leader, old.leader_epoch, isr, 9, cluster.epochs(*isr)
        )
        cluster.commit([Update(partition_key("t", index), encode(state), old.version)])


def test_leadership_goes_back_to_the_preferred_replica(cluster: Controlled) -> None:
    rejoin(cluster, 1)
    before = cluster.partition()
    assert before.leader == 2
    assert cluster.elect(PREFERRED, ("t", 0)) == [ErrorCode.NONE]
    after = cluster.partition()
    assert (after.leader, after.leader_epoch) == (1, before.leader_epoch + 1)
    assert (after.isr, after.isr_epochs) == (before.isr, before.isr_epochs)


def test_a_preferred_replica_that_is_not_in_sync_is_not_available(cluster: Controlled) -> None:
    assert cluster.elect(PREFERRED, ("t", 0)) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    rejoin(cluster, 1)
    cluster.bounce(1)
    assert cluster.elect(PREFERRED, ("t", 0)) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]


def test_each_partition_gets_its_own_answer(cluster: Controlled) -> None:
    rejoin(cluster, 1)
    assert cluster.elect(PREFERRED, ("t", 0), ("t", 1), ("t", 2), ("no", 0)) == [
        ErrorCode.NONE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_asked_for_all_those_that_need_none_are_left_out(cluster: Controlled) -> None:
    rejoin(cluster, 1)
    outcomes, _ = elect_leaders(cluster.image, PREFERRED, None)
    assert outcomes == {("t", 0): None}


def test_an_unclean_election_takes_a_live_replica(cluster: Controlled) -> None:
    cluster.down(2)
    cluster.settle()
    assert cluster.partition().leader == NO_LEADER
    assert cluster.elect(UNCLEAN, ("t", 0)) == [ErrorCode.NONE]
    assert (cluster.partition().leader, cluster.partition().isr) == (1, [1])
    assert cluster.elect(UNCLEAN, ("t", 0)) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_an_unclean_election_needs_a_live_replica(cluster: Controlled) -> None:
    cluster.down(1, 2)
    cluster.settle()
    assert cluster.elect(UNCLEAN, ("t", 0)) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


def test_an_election_decided_under_another_controller_is_refused(cluster: Controlled) -> None:
    rejoin(cluster, 1)
    _, ops = elect_leaders(cluster.image, PREFERRED, [("t", 0)])
    cluster.down(9)
    cluster.commit(take_role(cluster.image, 2, *cluster.epochs(2)))
    with pytest.raises(Conflict):
        cluster.commit(ops)


def test_leaders_are_balanced_where_too_many_are_astray(cluster: Controlled) -> None:
    rejoin(cluster, 1)
    assert rebalance(cluster.image, percentage=100, limit=9) == []
    cluster.commit(rebalance(cluster.image, percentage=10, limit=9))
    assert [cluster.partition("t", index).leader for index in (0, 1)] == [1, 2]
    assert rebalance(cluster.image, percentage=0, limit=9) == []


def test_balancing_leaves_alone_what_cannot_move(cluster: Controlled) -> None:
    assert rebalance(cluster.image, percentage=0, limit=9) == []
