"""Who leads a partition when none of its in-sync replicas lived on."""

from uuid import UUID

import pytest

from ottla.metadata.claims import (
    claim,
    claim_all,
    is_unseen_loss,
    is_vacant,
    waits_for,
    withdraw,
)
from ottla.metadata.controller import Controller, take_role
from ottla.metadata.documents import PartitionState, Storage, encode, partition_key
from ottla.metadata.elect_leaders import ElectionType, elect_leaders
from ottla.metadata.elections import NO_LEADER, KeptIsr, kept, leads
from ottla.metadata.store import Conflict, Update

from .world import Cluster

KEY = ("t", 0)


def disk(broker: int, number: int = 0, epoch: int = 0) -> Storage:
    return Storage(f"disk {number} of {broker}", epoch)


class Died(Cluster):
    """A partition with replicas 1, 2 and 3 whose brokers have all died."""

    def __init__(self, *, in_sync: tuple[int, ...] = (1, 2, 3)) -> None:
        super().__init__((9,))
        self.commit(take_role(self.image, 9, self.image.brokers[9].epoch))
        for broker in (1, 2, 3):
            self.up(broker, storage=disk(broker))
        self.create("t", [1, 2, 3])
        gone = [broker for broker in (1, 2, 3) if broker not in in_sync]
        if gone:
            self.down(*gone)
            self.settle()
        self.down(*in_sync)
        self.settle()
        assert (self.partition().leader, self.partition().isr) == (NO_LEADER, list(in_sync))

    def settle(self) -> None:
        controller = Controller()
        controller.began(self.image)
        while (ops := controller.next_commit(self.image)) is not None:
            self.commit(ops)

    def claim(self, broker: int, *, unclean: bool = False) -> bool:
        """A broker whose log is open looks at the partition; says whether it leads then."""
        claimed, ops = claim_all(self.image, [KEY], broker, lambda topic: unclean)
        assert bool(claimed) == bool(ops)
        if ops:
            self.commit(ops)
            self.settle()
            assert leads(self.partition(), broker, self.image.brokers[broker].epoch)
            assert self.partition().isr == [broker]
        return bool(ops)


def test_the_isr_knows_the_storage_of_its_members() -> None:
    assert Died().partition().isr_storage == [disk(1), disk(2), disk(3)]


def test_a_broker_that_was_only_killed_leads_at_once() -> None:
    cluster = Died()
    before = cluster.partition().leader_epoch
    epoch = cluster.up(2, storage=disk(2))
    assert cluster.claim(2)
    partition = cluster.partition()
    assert partition.leader_epoch == before + 1
    assert (partition.isr_epochs, partition.isr_storage) == ([epoch], [disk(2)])
    assert partition.unclean_epoch == -1
    cluster.up(1, storage=disk(1))
    assert not cluster.claim(1), "someone leads"


def test_the_only_replica_leads_again_in_a_new_term() -> None:
    cluster = Cluster((9,))
    cluster.commit(take_role(cluster.image, 9, *cluster.epochs(9)))
    cluster.up(1, storage=disk(1))
    cluster.create("t", [1])
    cluster.down(1)
    epoch = cluster.up(1, storage=disk(1))
    controller = Controller()
    controller.began(cluster.image)
    assert controller.next_commit(cluster.image) is None, "it takes one commit, the claim"
    cluster.commit(claim_all(cluster.image, [KEY], 1, lambda topic: False)[1])
    assert leads(cluster.partition(), 1, epoch)
    assert cluster.partition().leader_epoch == 1
    cluster.down(1)
    cluster.up(1, storage=disk(1, 1))
    controller.began(cluster.image)
    ops = controller.next_commit(cluster.image)
    assert ops is not None
    cluster.commit(ops)
    assert cluster.partition().leader == NO_LEADER, "its disk is new"
    assert claim_all(cluster.image, [KEY], 1, lambda topic: False)[1] == []


def test_a_claim_need_not_wait_for_the_controller() -> None:
    cluster = Died()
    cluster.up(2, storage=disk(2))
    assert cluster.claim(2)
    cluster.down(2)
    cluster.up(2, storage=disk(2))
    assert cluster.partition().leader == 2, "the controller has not seen it"
    assert cluster.claim(2)


def test_of_two_that_claim_one_leads() -> None:
    cluster = Died()
    cluster.up(1, storage=disk(1))
    cluster.up(2, storage=disk(2))
    _, late = claim_all(cluster.image, [KEY], 1, lambda topic: False)
    assert cluster.claim(2)
    with pytest.raises(Conflict):
        cluster.commit(late)


def test_a_member_with_another_disk_is_not_that_member() -> None:
    cluster = Died()
    cluster.up(1, storage=disk(1, 1))
    assert not cluster.claim(1)
    assert waits_for(cluster.partition(), cluster.image.brokers) == [1, 2, 3]
    cluster.up(2, storage=disk(2))
    assert not cluster.claim(1)
    assert cluster.claim(2)


def test_when_all_disks_are_new_there_is_no_leader() -> None:
    cluster = Died()
    for broker in (1, 2, 3):
        cluster.up(broker, storage=disk(broker, 1))
    assert not any(cluster.claim(broker) for broker in (1, 2, 3))
    assert cluster.claim(3, unclean=True)
    assert cluster.partition().unclean_epoch == cluster.partition().leader_epoch


def test_a_replica_that_may_lack_the_end_of_its_log_waits_for_the_others() -> None:
    cluster = Died()
    cluster.up(1, storage=disk(1, epoch=1))
    assert kept(cluster.partition(), cluster.image.brokers[1]) is KeptIsr.FLUSHED
    assert not cluster.claim(1)
    cluster.up(2, storage=disk(2, epoch=1))
    assert not cluster.claim(1)
    assert not cluster.claim(2)
    cluster.up(3, storage=disk(3))
    assert not cluster.claim(1), "the third has everything"
    assert cluster.claim(3)
    assert cluster.partition().unclean_epoch == -1


@pytest.mark.parametrize("third", [disk(3, epoch=4), disk(3, 1)], ids=["restarted", "a new disk"])
def test_when_no_better_replica_will_come_one_that_may_lack_the_end_leads(third: Storage) -> None:
    cluster = Died()
    cluster.up(1, storage=disk(1, epoch=1))
    cluster.up(2, storage=disk(2, epoch=1))
    cluster.up(3, storage=third)
    assert cluster.claim(2)
    partition = cluster.partition()
    assert partition.unclean_epoch == partition.leader_epoch, "records may be lost: it is recorded"


def test_the_last_member_of_the_isr_need_not_wait() -> None:
    cluster = Died(in_sync=(3,))
    cluster.up(1, storage=disk(1))
    assert not cluster.claim(1)
    cluster.up(3, storage=disk(3, epoch=1))
    assert cluster.claim(3)


def test_a_replica_outside_the_isr_leads_only_where_that_is_allowed() -> None:
    cluster = Died(in_sync=(3,))
    cluster.up(1, storage=disk(1))
    assert not cluster.claim(1)
    assert cluster.claim(1, unclean=True)
    assert cluster.partition().unclean_epoch == cluster.partition().leader_epoch


def test_an_unclean_election_prefers_the_replica_that_kept_more() -> None:
    cluster = Died(in_sync=(2, 3))
    cluster.up(1, storage=disk(1))
    cluster.up(2, storage=disk(2, 1))
    cluster.up(3, storage=disk(3, epoch=1))
    assert not cluster.claim(1, unclean=True), "the third has what was flushed"
    cluster.down(3)
    assert not cluster.claim(2, unclean=True), "the first only lags, this one is empty"
    assert cluster.claim(1, unclean=True)


def test_a_person_gets_the_replica_that_has_most() -> None:
    cluster = Died(in_sync=(2, 3))
    cluster.up(1, storage=disk(1))
    cluster.up(2, storage=disk(2, 1))
    outcomes, ops = elect_leaders(cluster.image, ElectionType.UNCLEAN, [KEY])
    assert outcomes == {KEY: None}
    cluster.commit(ops)
    assert cluster.partition().leader == 1
    assert cluster.partition().unclean_epoch == cluster.partition().leader_epoch


def test_a_member_that_lost_its_log_leaves_the_isr_of_a_leaderless_partition() -> None:
    cluster = Died()
    cluster.up(1, storage=disk(1))
    cluster.commit(withdraw(cluster.image, KEY, UUID(int=1), 1))
    partition = cluster.partition()
    assert (partition.leader, partition.isr) == (NO_LEADER, [2, 3])
    assert partition.isr_storage == [disk(2), disk(3)]
    assert not cluster.claim(1)
    cluster.up(3, storage=disk(3))
    assert cluster.claim(3)
    assert withdraw(cluster.image, KEY, UUID(int=1), 3) == []


def test_the_last_member_stays_though_its_log_is_lost() -> None:
    cluster = Died(in_sync=(2,))
    cluster.up(2, storage=disk(2))
    assert withdraw(cluster.image, KEY, UUID(int=1), 2) == []


def test_documents_of_older_versions_are_trusted_as_before() -> None:
    cluster = Died()
    old = cluster.partition()
    state = PartitionState(old.topic_id, NO_LEADER, 7, [1, 2, 3], 8, old.isr_epochs)
    cluster.commit([Update(partition_key(*KEY), encode(state), old.version)])
    cluster.up(2, storage=disk(2, 5))
    assert cluster.claim(2)
    assert cluster.partition().isr_storage == [disk(2, 5)]


def test_brokers_of_older_versions_are_trusted_as_before() -> None:
    cluster = Died()
    cluster.up(2)
    assert cluster.claim(2)
    assert cluster.partition().isr_storage == []


def test_a_broker_shutting_down_claims_nothing() -> None:
    cluster = Died()
    cluster.up(2, storage=disk(2))
    cluster.shut_down(2)
    assert is_vacant(cluster.partition(), cluster.image.brokers)
    assert claim(cluster.partition(), [1, 2, 3], cluster.image.brokers, 2, unclean=True) is None


@pytest.mark.parametrize("in_sync", [(1, 2), (1,)])
def test_a_short_log_is_claimed_only_by_the_last_member(in_sync: tuple[int, ...]) -> None:
    """It ends before what its broker knew as committed, though its page cache was not lost."""
    died = Died(in_sync=in_sync)
    died.up(1, storage=disk(1))
    assert is_unseen_loss(died.image, KEY, 1)
    claimed, ops = claim_all(died.image, [KEY], 1, lambda topic: False, lambda key: True)
    assert bool(claimed) == (in_sync == (1,))
    if claimed:
        died.commit(ops)
        partition = died.partition()
        assert (partition.leader, partition.unclean_epoch) == (1, partition.leader_epoch)
        assert not is_unseen_loss(died.image, KEY, 1)
