"""Elections on request: the ElectLeaders API, and the balance of leaders. Pure.

1. A preferred election moves leadership to the first replica of the assignment, if that one is a
   fresh member of the ISR. The ISR does not change, so nothing can be lost.
2. An unclean election gives a partition without a leader to the live replica that has kept most of
   its log, in sync or not. Records may be lost: that was requested. It is recorded.
3. Leadership is balanced broker by broker: where more than `leader.imbalance.per.broker.percentage`
   of the partitions that should be led by a broker are led by another, preferred elections are held
   for them.

The operations expect the image they were decided on, the controller's document included, and may be
committed by any broker.
"""

from collections.abc import Iterable
from enum import IntEnum

from ottla.metadata.controller import change_partition, check_role, check_topics, topic_of
from ottla.metadata.documents import PartitionState
from ottla.metadata.elections import (
    NO_LEADER,
    KeptIsr,
    available,
    changed,
    is_fresh,
    kept,
    leads,
)
from ottla.metadata.image import BrokerImage, Image, PartitionImage, PartitionKey
from ottla.metadata.store import Op
from ottla.wire.errors import ErrorCode, KafkaError


class ElectionType(IntEnum):
    """What an ElectLeaders request asks for."""

    PREFERRED = 0
    UNCLEAN = 1


Outcomes = dict[PartitionKey, KafkaError | None]
NOT_NEEDED = "Leader election not needed for topic partition."


def elect_leaders(
    image: Image, kind: ElectionType, wanted: Iterable[PartitionKey] | None
) -> tuple[Outcomes, list[Op]]:
    """For each partition why it gets no new leader, or None; and the operations that elect.

    Where all partitions are asked for (None), those that need no election are left out.
    """
    outcomes: Outcomes = {}
    chosen: list[tuple[PartitionImage, PartitionState]] = []
    for key in image.partitions if wanted is None else dict.fromkeys(wanted):
        try:
            chosen.append(_elect(image, kind, key))
        except KafkaError as problem:
            if wanted is not None or problem.code != ErrorCode.ELECTION_NOT_NEEDED:
                outcomes[key] = problem.with_traceback(None)  # whose frames have `outcomes`
        else:
            outcomes[key] = None
    return outcomes, _ops(image, chosen)


def rebalance(image: Image, percentage: int, limit: int) -> list[Op]:
    """Preferred elections for at most `limit` partitions of brokers that lead too few."""
    preferred: dict[int, list[PartitionKey]] = {}
    astray: dict[int, list[PartitionKey]] = {}
    for key, partition in image.partitions.items():
        topic = topic_of(image, partition)
        if topic is None:
            continue
        first = topic.assignment[partition.index][0]
        preferred.setdefault(first, []).append(key)
        if partition.leader not in (first, NO_LEADER):
            astray.setdefault(first, []).append(key)
    wanted = [
        key
        for broker, keys in astray.items()
        if len(keys) * 100 > percentage * len(preferred[broker])
        for key in keys
        if _fit(image, image.partitions[key], broker)
    ]
    return elect_leaders(image, ElectionType.PREFERRED, wanted[:limit])[1]


def _elect(
    image: Image, kind: ElectionType, key: PartitionKey
) -> tuple[PartitionImage, PartitionState]:
    partition = image.partitions.get(key)
    topic = None if partition is None else topic_of(image, partition)
    if partition is None or topic is None:
        what = f"partition as {key[0]}-{key[1]}" if key[0] in image.topics else f"topic as {key[0]}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {what}")
    replicas = topic.assignment[partition.index]
    if kind is ElectionType.PREFERRED:
        if partition.leader == replicas[0]:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED)
        if not _fit(image, partition, replicas[0]):
            raise KafkaError(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
            )
        leader, isr, epochs = replicas[0], partition.isr, partition.isr_epochs
        unclean = False
    else:
        if partition.leader != NO_LEADER:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED)
        live = [one for one in replicas if available(one, image.brokers)]
        if not live:
            raise KafkaError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                "Eligible topic partition leaders are not available.",
            )
        leader = max(live, key=lambda one: _better(partition, image.brokers[one]))
        isr, epochs = [leader], [image.brokers[leader].epoch]
        unclean = kept(partition, image.brokers[leader]) is not KeptIsr.EVERYTHING
    state = changed(partition, leader, isr, epochs, image.brokers, unclean=unclean)
    assert state is not None, "a new leader changes the state"
    return partition, state


def _better(partition: PartitionImage, broker: BrokerImage) -> tuple[KeptIsr, bool]:
    """The replica that kept most of its log leads; of those with nothing, one that only lags.

    A member of the ISR with another disk begins empty; a replica outside of the ISR only lags.
    """
    return kept(partition, broker), broker.id not in partition.isr


def _fit(image: Image, partition: PartitionImage, leader: int) -> bool:
    """Whether a broker may be given a partition that another leads."""
    in_sync = is_fresh(partition, leader, image.brokers) and available(leader, image.brokers)
    # A partition whose leader has just gone is the controller's to settle first.
    led = image.brokers.get(partition.leader)
    return in_sync and led is not None and leads(partition, led.id, led.epoch)


def _ops(image: Image, chosen: list[tuple[PartitionImage, PartitionState]]) -> list[Op]:
    if not chosen:
        return []
    topics = check_topics(image, (partition.topic_id for partition, _ in chosen))
    return [check_role(image), *topics, *(change_partition(*one) for one in chosen)]
