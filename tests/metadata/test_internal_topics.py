"""Internal topics grow with the cluster, up to the replicas that they should have."""

from collections import Counter

from ottla.metadata.controller import Controller, take_role
from ottla.metadata.documents import PartitionState, encode, partition_key
from ottla.metadata.internal_topics import raise_replicas
from ottla.metadata.reassignments import reassignments
from ottla.metadata.store import Update

from .world import Cluster

OFFSETS = "__consumer_offsets"
WANTED = {OFFSETS: 3}


class Growing(Cluster):
    """A cluster whose first broker was alone for a while."""

    def __init__(self, partitions: int = 6) -> None:
        super().__init__((1,))
        self.commit(take_role(self.image, 1, self.image.brokers[1].epoch))
        self.create(OFFSETS, *([1] for _ in range(partitions)))

    def grow(self, limit: int = 100) -> int:
        """Begin what is due; the number of partitions that are moving then."""
        self.commit(raise_replicas(self.image, WANTED, limit))
        return len(reassignments(self.image))

    def complete(self) -> None:
        """Followers catch up with what moves, and the controller completes it."""
        for (topic, index), moving in reassignments(self.image).items():
            old = self.partition(topic, index)
            isr = [*old.isr, *moving.adding]
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
            self.commit([Update(partition_key(topic, index), encode(state), old.version)])
        controller = Controller()
        controller.began(self.image)
        while (ops := controller.next_commit(self.image)) is not None:
            self.commit(ops)

    @property
    def replicas(self) -> list[list[int]]:
        return self.image.topics[OFFSETS].assignment


def test_nothing_moves_while_a_broker_is_alone() -> None:
    assert Growing().grow() == 0


def test_a_topic_grows_with_each_broker_that_joins() -> None:
    cluster = Growing()
    for broker, factor in ((2, 2), (3, 3)):
        cluster.up(broker)
        assert cluster.grow() == 6
        cluster.complete()
        assert {len(replicas) for replicas in cluster.replicas} == {factor}
        assert cluster.grow() == 0
    cluster.up(4)
    assert cluster.grow() == 0, "it has what it should have"


def test_leaders_stay_and_the_preferred_ones_are_spread() -> None:
    cluster = Growing()
    cluster.up(2)
    cluster.up(3)
    cluster.grow()
    cluster.complete()
    assert {cluster.partition(OFFSETS, index).leader for index in range(6)} == {1}
    assert Counter(replicas[0] for replicas in cluster.replicas) == {1: 2, 2: 2, 3: 2}
    assert all(1 in replicas for replicas in cluster.replicas), "what has the records keeps them"


def test_new_replicas_are_shared_by_all_brokers() -> None:
    cluster = Growing(partitions=8)
    for broker in (2, 3, 4, 5):
        cluster.up(broker)
    cluster.grow()
    load = Counter(one for replicas in cluster.replicas for one in replicas)
    assert load == {1: 8, 2: 4, 3: 4, 4: 4, 5: 4}


def test_racks_without_a_replica_come_first() -> None:
    cluster = Cluster(())
    for broker, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "c")):
        cluster.up(broker, rack)
    cluster.commit(take_role(cluster.image, 1, cluster.image.brokers[1].epoch))
    cluster.create(OFFSETS, [1], [1])
    cluster.commit(raise_replicas(cluster.image, WANTED, 10))
    assert [sorted(one) for one in cluster.image.topics[OFFSETS].assignment] == [[1, 3, 4]] * 2


def test_a_partition_that_moves_or_has_a_dead_replica_waits() -> None:
    cluster = Growing(partitions=1)
    cluster.up(2)
    cluster.grow()
    cluster.up(3)
    assert raise_replicas(cluster.image, WANTED, 10) == [], "it is moving"
    cluster.complete()
    cluster.down(2)
    cluster.up(4)
    assert raise_replicas(cluster.image, WANTED, 10) == [], "2 is down"
    cluster.up(2)
    assert cluster.grow() == 1


def test_a_broker_that_is_about_to_stop_gets_nothing() -> None:
    cluster = Growing()
    cluster.up(2)
    cluster.shut_down(2)
    assert cluster.grow() == 0


def test_many_partitions_are_raised_some_at_a_time() -> None:
    cluster = Growing()
    cluster.up(2)
    assert cluster.grow(limit=4) == 4
    assert cluster.grow(limit=4) == 6


def test_other_topics_stay_as_they_are() -> None:
    cluster = Growing()
    cluster.create("t", [1])
    cluster.up(2)
    cluster.grow()
    assert cluster.image.topics["t"].assignment == [[1]]
