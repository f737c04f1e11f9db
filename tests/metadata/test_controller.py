"""What the controller does when brokers die, bounce, stop and come back."""

import pytest

from ottla.metadata import documents
from ottla.metadata.controller import (
    PARTITIONS_IN_ONE_COMMIT,
    Controller,
    hand_over,
    has_controller,
    is_controller,
    remaining,
    take_role,
)
from ottla.metadata.documents import PartitionState, Storage, encode, partition_key
from ottla.metadata.elections import NO_LEADER, leads
from ottla.metadata.store import Check, Conflict, Update
from ottla.metadata.topics import delete_topic

from .world import Cluster


class Controlled(Cluster):
    """A cluster whose controller is broker 9."""

    def __init__(self) -> None:
        super().__init__((1, 2, 3, 9))
        self.commit(take_role(self.image, 9, self.image.brokers[9].epoch))
        self.controller = Controller()

    def settle(self) -> int:
        """Let the controller do all it has to; how many commits it made."""
        self.controller.learned(self.image, self.delta)
        commits = 0
        while (ops := self.controller.next_commit(self.image)) is not None:
            commits += 1
            assert ops[0] == Check(documents.CONTROLLER, self.image.controller_version)
            assert all(isinstance(op, Check | Update) for op in ops)
            self.commit(ops)
            self.controller.learned(self.image, self.delta)
        return commits


@pytest.fixture
def cluster() -> Controlled:
    cluster = Controlled()
    cluster.create("t", [1, 2, 3])
    assert cluster.settle() == 0
    return cluster


def test_the_first_broker_takes_the_role() -> None:
    cluster = Cluster((1, 2))
    one, two = cluster.epochs(1, 2)
    assert not has_controller(cluster.image)
    cluster.commit(take_role(cluster.image, 1, one))
    assert cluster.image.controller == documents.ControllerInfo(1, 1, one)
    assert is_controller(cluster.image, 1, one)
    assert take_role(cluster.image, 2, two) == []


def test_of_two_brokers_one_takes_the_role() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.commit(take_role(cluster.image, 3, *cluster.epochs(3)))
    cluster.down(3)
    first = take_role(cluster.image, 1, *cluster.epochs(1))
    second = take_role(cluster.image, 2, *cluster.epochs(2))
    cluster.commit(second)
    with pytest.raises(Conflict):
        cluster.commit(first)
    controller = cluster.image.controller
    assert controller is not None
    assert (controller.broker, controller.epoch) == (2, 2)


def test_a_controller_that_bounced_is_none() -> None:
    cluster = Cluster((1, 2))
    (before,) = cluster.epochs(1)
    cluster.commit(take_role(cluster.image, 1, before))
    after = cluster.bounce(1)
    assert not has_controller(cluster.image)
    assert not is_controller(cluster.image, 1, after)
    cluster.commit(take_role(cluster.image, 1, after))
    assert is_controller(cluster.image, 1, after)
    assert not is_controller(cluster.image, 1, before)


def test_a_broker_that_is_not_registered_takes_no_role() -> None:
    assert take_role(Cluster(()).image, 1, 5) == []


def test_what_a_deposed_controller_decided_is_refused(cluster: Controlled) -> None:
    cluster.down(1)
    cluster.controller.learned(cluster.image, cluster.delta)
    late = cluster.controller.next_commit(cluster.image)
    assert late is not None
    cluster.down(9)
    cluster.commit(take_role(cluster.image, 2, *cluster.epochs(2)))
    with pytest.raises(Conflict) as refused:
        cluster.commit(late)
    assert refused.value.key == documents.CONTROLLER


def test_what_was_decided_for_a_deleted_topic_does_not_touch_its_successor(
    cluster: Controlled,
) -> None:
    cluster.down(1)
    cluster.controller.learned(cluster.image, cluster.delta)
    late = cluster.controller.next_commit(cluster.image)
    assert late is not None
    cluster.commit(delete_topic(cluster.image, "t"))
    cluster.create("t", [2, 3])
    assert cluster.partition().version == 0
    with pytest.raises(Conflict):
        cluster.commit(late)


def test_a_dead_leaders_successor_is_the_next_in_the_assignment(cluster: Controlled) -> None:
    cluster.down(1)
    cluster.settle()
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch) == (2, 1)
    assert partition.isr == [2, 3]
    assert partition.isr_epochs == cluster.epochs(2, 3)
    assert partition.partition_epoch == 1


def test_a_dead_follower_leaves_the_isr_and_the_leader_stays(cluster: Controlled) -> None:
    cluster.down(3)
    cluster.settle()
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 0, [1, 2])


def test_without_a_live_member_there_is_no_leader_and_the_isr_stays(cluster: Controlled) -> None:
    for broker in (1, 2, 3):
        cluster.down(broker)
        cluster.settle()
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (NO_LEADER, 3, [3])
    for broker in (1, 2, 3):  # who comes back claims it: see test_claims.py
        cluster.up(broker, storage=Storage(f"disk {broker}"))
    assert cluster.settle() == 0


def test_members_of_an_older_version_do_not_claim_and_are_elected(cluster: Controlled) -> None:
    cluster.down(1, 2, 3)
    cluster.settle()
    cluster.up(2)
    cluster.settle()
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 2, [2])
    assert partition.unclean_epoch == -1


def test_the_only_replica_of_an_older_version_is_elected() -> None:
    cluster = Controlled()
    cluster.create("t", [1])
    cluster.bounce(1)
    cluster.settle()
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 1, [1])
    assert partition.isr_epochs == cluster.epochs(1)


def test_when_all_die_at_once_the_isr_has_all_of_them(cluster: Controlled) -> None:
    cluster.down(1, 2, 3)
    cluster.settle()
    partition = cluster.partition()
    assert (partition.leader, partition.isr) == (NO_LEADER, [1, 2, 3])


def test_a_leader_that_bounced_is_replaced(cluster: Controlled) -> None:
    before = cluster.partition()
    epoch = cluster.bounce(1)
    assert not leads(before, 1, epoch)
    cluster.settle()
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 1, [2, 3])


def test_a_follower_that_bounced_must_earn_its_place_again(cluster: Controlled) -> None:
    cluster.bounce(2)
    cluster.settle()
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 0, [1, 3])


def test_a_missed_bounce_is_detected_by_the_broker_epoch(cluster: Controlled) -> None:
    cluster.bounce(2)
    unaware = Controller()
    unaware.began(cluster.image)
    ops = unaware.next_commit(cluster.image)
    assert ops is not None
    cluster.commit(ops)
    assert cluster.partition().isr == [1, 3]


def test_a_bounced_broker_does_not_lead_while_a_fresh_member_is_live(cluster: Controlled) -> None:
    cluster.bounce(2)
    cluster.down(1)
    cluster.controller.began(cluster.image)
    cluster.settle()
    assert cluster.partition().leader == 3
    assert cluster.partition().isr == [3]


def test_a_broker_that_stops_hands_its_leaders_over_and_leaves_the_isr(
    cluster: Controlled,
) -> None:
    (epoch,) = cluster.epochs(1)
    cluster.shut_down(1)
    assert remaining(cluster.image, 1, epoch) == [("t", 0)]
    cluster.settle()
    assert remaining(cluster.image, 1, epoch) == []
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 1, [2, 3])


def test_a_broker_shutting_down_keeps_partitions_that_no_other_can_lead() -> None:
    cluster = Controlled()
    cluster.create("t", [1, 2])
    cluster.down(2)
    cluster.settle()
    cluster.shut_down(1)
    assert cluster.settle() == 0
    assert cluster.partition().leader == 1
    assert remaining(cluster.image, 1, *cluster.epochs(1)) == []


def test_a_broker_shutting_down_is_better_than_a_bounced_one(cluster: Controlled) -> None:
    cluster.shut_down(3)
    cluster.bounce(2)
    cluster.down(1)
    cluster.controller.began(cluster.image)
    cluster.settle()
    assert (cluster.partition().leader, cluster.partition().isr) == (3, [3])


def test_a_state_without_epochs_is_settled_once() -> None:
    cluster = Controlled()
    cluster.create("t", [1, 2])
    old = PartitionState(cluster.partition().topic_id, 1, 4, [1, 2])
    cluster.down(1, 2)
    for broker in (1, 2):
        cluster.up(broker, storage=Storage(f"disk {broker}"))
    cluster.commit([Update(partition_key("t", 0), encode(old), 0)])
    assert cluster.settle() == 1
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (NO_LEADER, 5, [1, 2])


def test_partitions_without_a_leader_come_first() -> None:
    cluster = Controlled()
    half = PARTITIONS_IN_ONE_COMMIT // 2
    cluster.create("followed", *[[2, 1]] * half)
    cluster.create("led", *[[1, 2]] * half, [1, 2])
    cluster.down(1)
    cluster.controller.learned(cluster.image, cluster.delta)
    ops = cluster.controller.next_commit(cluster.image)
    assert ops is not None
    cluster.commit(ops)
    assert all(one.leader == 2 for one in cluster.image.partitions.values())
    assert cluster.settle() == 1
    assert all(one.isr == [2] for one in cluster.image.partitions.values())


def test_a_conflict_is_decided_again_on_the_newer_image(cluster: Controlled) -> None:
    cluster.down(1)
    cluster.controller.learned(cluster.image, cluster.delta)
    ops = cluster.controller.next_commit(cluster.image)
    assert ops is not None
    faster = PartitionState(
        cluster.partition().topic_id, 1, 0, [1, 3], 1, [cluster.partition().isr_epochs[0], 3]
    )
    cluster.commit([Update(partition_key("t", 0), encode(faster), 0)])
    with pytest.raises(Conflict):
        cluster.commit(ops)
    cluster.settle()
    assert (cluster.partition().leader, cluster.partition().isr) == (3, [3])


def test_a_leader_whose_disk_failed_hands_over_to_an_in_sync_replica(cluster: Controlled) -> None:
    cluster.commit(hand_over(cluster.image, ("t", 0), cluster.partition().topic_id, 1))
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 1, [2, 3])
    assert hand_over(cluster.image, ("t", 0), cluster.partition().topic_id, 1) == []
    assert cluster.settle() == 0


def test_a_follower_whose_disk_failed_leaves_and_the_term_continues(cluster: Controlled) -> None:
    cluster.commit(hand_over(cluster.image, ("t", 0), cluster.partition().topic_id, 3))
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 0, [1, 2])
    assert hand_over(cluster.image, ("t", 0), cluster.partition().topic_id, 3) == []
    assert cluster.settle() == 0


def test_a_leader_whose_disk_failed_stays_where_no_other_is_in_sync(cluster: Controlled) -> None:
    cluster.down(2, 3)
    cluster.settle()
    assert hand_over(cluster.image, ("t", 0), cluster.partition().topic_id, 1) == []
