"""Moving replicas to other brokers: AlterPartitionReassignments and its listing. Pure.

1. While replicas move the assignment has the target replicas, in their order, and behind them those
   that will go; the partition's state says which come (`adding`) and which go (`removing`).
2. The controller completes a reassignment (elections, rule 7). No replica leads or leaves before
   every target replica is in sync, so a target broker that dies costs time and no data.
3. A reassignment may be changed while it is under way, or cancelled: then the replicas are those
   from before the first of them. What is in sync stays in sync.
   Whenever that removes a replica, a new leader epoch begins (elections, rule 4).
4. A target must name registered brokers, each once: or nothing changes.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ottla.metadata.controller import (
    change_assignment,
    change_partition,
    check_role,
    check_topics,
    topic_of,
)
from ottla.metadata.elections import (
    NO_LEADER,
    Settled,
    available,
    changed,
    is_fresh,
    same_term,
)
from ottla.metadata.image import Image, PartitionImage, PartitionKey, TopicImage
from ottla.metadata.store import Op
from ottla.metadata.topics import checked_assignment
from ottla.wire.errors import ErrorCode, KafkaError

Outcomes = dict[PartitionKey, KafkaError | None]


class Reassignment(msgspec.Struct, frozen=True):
    """A partition whose replicas are moving."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


def reassignments(
    image: Image, wanted: Iterable[PartitionKey] | None = None
) -> dict[PartitionKey, Reassignment]:
    """What is moving now, among some partitions or all of them."""
    found = {}
    for key in image.partitions if wanted is None else wanted:
        partition = image.partitions.get(key)
        topic = None if partition is None else topic_of(image, partition)
        if partition is not None and topic is not None and _is_moving(partition):
            replicas = topic.assignment[partition.index]
            found[key] = Reassignment(replicas, partition.adding, partition.removing)
    return found


def alter_reassignments(
    image: Image, targets: Mapping[PartitionKey, Sequence[int] | None]
) -> tuple[Outcomes, list[Op]]:
    """For each partition what is wrong, or None; and the operations. A target of None cancels."""
    outcomes: Outcomes = {}
    ops: list[Op] = []
    moved: dict[str, dict[int, list[int]]] = {}
    for key, target in targets.items():
        try:
            partition, topic = _existing(image, key)
            if target is None:
                settled = _cancelled(image, partition, topic.assignment[partition.index])
            else:
                settled = _started(image, partition, topic.assignment[partition.index], target)
        except KafkaError as problem:
            outcomes[key] = problem.with_traceback(None)  # whose frames have `outcomes`
            continue
        outcomes[key] = None
        if settled is not None:
            ops.append(change_partition(partition, settled.state))
            if settled.replicas is not None:
                moved.setdefault(topic.name, {})[partition.index] = settled.replicas
    if not ops:
        return outcomes, []
    ops += [change_assignment(image.topics[name], replicas) for name, replicas in moved.items()]
    ids = (image.topics[topic].id for (topic, _), wrong in outcomes.items() if wrong is None)
    return outcomes, [check_role(image), *check_topics(image, ids), *ops]


def _started(
    image: Image, partition: PartitionImage, replicas: Sequence[int], target: Sequence[int]
) -> Settled | None:
    (target,) = checked_assignment(image, [target], factor=None)
    before = [one for one in replicas if one not in partition.adding]
    adding = [one for one in target if one not in before]
    removing = [one for one in replicas if one not in target]
    state = same_term(partition, adding=adding, removing=removing)
    together = [*target, *removing]
    if state == same_term(partition) and together == list(replicas):
        return None
    # Where all of the target is in sync already the controller completes it at once.
    return Settled(state, together)


def _cancelled(image: Image, partition: PartitionImage, replicas: Sequence[int]) -> Settled | None:
    if not _is_moving(partition):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    before = [one for one in replicas if one not in partition.adding]
    isr = [one for one in partition.isr if one in before]
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {partition.topic}:{partition.index} "
            "because it would require an unclean leader election.",
        )
    epochs = [partition.isr_epoch(one) for one in isr]
    leader = partition.leader
    if leader not in isr:
        # Where no replica may lead the controller decides, by the rules of elections.
        fit = (one for one in before if one in isr and _fit(image, partition, one))
        leader = next(fit, NO_LEADER)
    removes_replica = len(before) < len(replicas)
    state = changed(
        partition,
        leader,
        isr,
        epochs,
        image.brokers,
        adding=[],
        removing=[],
        removes_replica=removes_replica,
    )
    assert state is not None, "a cancelled reassignment changes the state"
    return Settled(state, before)


def _fit(image: Image, partition: PartitionImage, leader: int) -> bool:
    return is_fresh(partition, leader, image.brokers) and available(leader, image.brokers)


def _is_moving(partition: PartitionImage) -> bool:
    return bool(partition.adding or partition.removing)


def _existing(image: Image, key: PartitionKey) -> tuple[PartitionImage, TopicImage]:
    partition = image.partitions.get(key)
    topic = None if partition is None else topic_of(image, partition)
    if partition is None or topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    return partition, topic
