"""Who may lead a partition that has no live in-sync replica, and when. Pure.

Where a member of the ISR is live, the controller elects it (`elections.py`). Where none is, the
partition has no leader, its ISR stays as it was, and brokers that come back *claim* it: only a
broker itself knows that it could open its log. So a corrupt log never leads.

What a member of the ISR that comes back has kept:

| storage in the ISR and now             | kept       | because                                   |
|----------------------------------------|------------|-------------------------------------------|
| the same, or not known (older version) | EVERYTHING | a killed process loses nothing it wrote   |
| the same directory, a higher epoch     | UNFLUSHED  | the machine restarted: the end of the log |
|                                        | IS GONE    | may be gone (Kafka: unclean shutdown)     |
| another directory                      | NOTHING    | it is another disk                        |

Rules kept here:
1. A member that kept everything claims at once, the first one back: it has all that was committed,
   and a cluster that was killed as a whole comes back by itself.
2. A member that may lack the end of its log claims only when every other member is registered and
   none of them kept everything: no better one will come. The election is recorded as unclean.
3. A member with another disk does not count. Where all have one the partition waits for an
   operator.
4. With `unclean.leader.election.enable` any replica claims, when no live member of the
   ISR has kept more than it has. That is recorded as unclean.
5. A member whose log is damaged or missing does not claim. It leaves the ISR, unless it is the last
   one in it: then no other is known to have more.
   The same holds for a log that ends before what its broker knew as committed, though no page cache
   was lost: it is short. As the last one it claims, and that is recorded as unclean.
6. A claim names the version of the partition's document: of two, one wins.
"""

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from ottla.metadata.controller import (
    Unclean,
    change_partition,
    check_role,
    check_topics,
    topic_of,
)
from ottla.metadata.documents import PartitionState
from ottla.metadata.elections import (
    NO_LEADER,
    Brokers,
    KeptIsr,
    available,
    changed,
    is_fresh,
    kept,
)
from ottla.metadata.image import Image, PartitionImage, PartitionKey
from ottla.metadata.store import Op


def is_vacant(partition: PartitionImage, brokers: Brokers) -> bool:
    """Whether there is no leader, and no live member of the ISR that could be elected."""
    return not any(is_fresh(partition, member, brokers) for member in partition.isr)


def claim(
    partition: PartitionImage,
    replicas: Sequence[int],
    brokers: Brokers,
    me: int,
    *,
    unclean: bool,
    is_short: bool = False,
) -> PartitionState | None:
    """The state in which this broker, whose log is open, leads; None if it must not."""
    if not available(me, brokers) or not is_vacant(partition, brokers):
        return None
    mine = kept(partition, brokers[me])
    if is_short:
        mine = min(mine, KeptIsr.FLUSHED)
    others = [
        kept(partition, brokers[member]) if available(member, brokers) else None
        for member in partition.isr
        if member != me
    ]
    best = max((each for each in others if each is not None), default=KeptIsr.NOTHING)
    is_clean = mine is KeptIsr.EVERYTHING
    is_last = mine is KeptIsr.FLUSHED and None not in others and best < KeptIsr.EVERYTHING
    is_allowed = unclean and best <= mine
    is_allowed = is_allowed and not _another_lags(partition, replicas, brokers, me)
    if not (is_clean or is_last or is_allowed):
        return None
    return changed(partition, me, [me], [brokers[me].epoch], brokers, unclean=not is_clean)


def _another_lags(
    partition: PartitionImage, replicas: Sequence[int], brokers: Brokers, me: int
) -> bool:
    """Whether this is a member with a new disk, while a replica is there that only lags."""
    return kept(partition, brokers[me]) is KeptIsr.NOTHING and (
        me in partition.isr
        and any(available(one, brokers) for one in replicas if one not in partition.isr)
    )


def claim_all(
    image: Image,
    keys: Iterable[PartitionKey],
    me: int,
    unclean: Unclean,
    is_short: Callable[[PartitionKey], bool] = lambda key: False,
) -> tuple[list[PartitionKey], list[Op]]:
    """The partitions among some that this broker takes, and the operations for it."""
    taken: list[tuple[PartitionImage, PartitionState]] = []
    for key in keys:
        partition = image.partitions.get(key)
        topic = None if partition is None else topic_of(image, partition)
        if partition is None or topic is None or me not in topic.assignment[partition.index]:
            continue
        replicas = topic.assignment[partition.index]
        state = claim(
            partition,
            replicas,
            image.brokers,
            me,
            unclean=unclean(topic),
            is_short=is_short(key),
        )
        if state is not None:
            taken.append((partition, state))
    if not taken:
        return [], []
    topics = check_topics(image, (partition.topic_id for partition, _ in taken))
    ops = [check_role(image), *topics, *(change_partition(*each) for each in taken)]
    return [(partition.topic, partition.index) for partition, _ in taken], ops


def is_unseen_loss(image: Image, key: PartitionKey, me: int) -> bool:
    """Whether this broker, whose log is short, counts as one that has kept everything."""
    partition = image.partitions.get(key)
    return (
        partition is not None
        and me in image.brokers
        and is_vacant(partition, image.brokers)
        and kept(partition, image.brokers[me]) is KeptIsr.EVERYTHING
    )


def waits_for(partition: PartitionImage, brokers: Brokers) -> list[int]:
    """The members of the ISR that are not registered, or have another disk."""
    return [
        member
        for member in partition.isr
        if member not in brokers or kept(partition, brokers[member]) is KeptIsr.NOTHING
    ]


def withdraw(image: Image, key: PartitionKey, topic_id: UUID, me: int) -> list[Op]:
    """What a member of a vacant partition commits that has lost its log: it leaves the ISR."""
    partition = image.partitions.get(key)
    topic = None if partition is None else topic_of(image, partition)
    if partition is None or topic is None or topic.id != topic_id or me not in partition.isr:
        return []
    rest = [member for member in partition.isr if member != me]
    if not rest or not is_vacant(partition, image.brokers):
        return []
    epochs = [partition.isr_epoch(member) for member in rest]
    state = changed(partition, NO_LEADER, rest, epochs, image.brokers)
    assert state is not None, "a member leaves"
    topics = check_topics(image, [partition.topic_id])
    return [check_role(image), *topics, change_partition(partition, state)]
