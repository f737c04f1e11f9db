"""The controller: which broker it is, and what it commits when brokers come and go. Pure.

Rules kept here:
1. Any broker takes the role when the controller's document names a broker, or a broker epoch, that
   is not registered. Taking it raises the controller epoch in the same change of that document, so
   one of several wins.
2. Every commit of the controller checks the version of that document: a deposed one, however late
   its commit arrives, cannot write.
3. A commit also checks the version of every document that it changes. After a conflict it is
   decided again on a newer image. Nothing is ever deleted.
4. Partitions without a working leader come first, then those whose ISR alone must change.

How it is driven: `learned` takes every delta of the image, while `next_commit` answers with a
commit, that one is made, and `next_commit` is asked again on the newer image, until it says None.
After a Conflict it is asked again when the image has changed; after UnknownOutcome when it has been
read again.
"""

from collections.abc import Callable, Iterable
from uuid import UUID

from msgspec.structs import replace

from ottla.metadata import documents
from ottla.metadata.documents import (
    PartitionState,
    TopicDocument,
    encode,
    partition_key,
    topic_id_key,
    topic_key,
)
from ottla.metadata.elections import Brokers, Settled, is_fresh, leads, same_term, settle
from ottla.metadata.image import Delta, Image, PartitionImage, PartitionKey, TopicImage
from ottla.metadata.isr_proposal import Proposal
from ottla.metadata.store import Check, Create, Op, Update

# ZooKeeper bounds a request to about 1 MB; a state has some 200 bytes.
PARTITIONS_IN_ONE_COMMIT = 500

Unclean = Callable[[TopicImage], bool]


def has_controller(image: Image) -> bool:
    """Whether the controller is registered, with the broker epoch that took the role."""
    controller = image.controller
    if controller is None:
        return False
    broker = image.brokers.get(controller.broker)
    return broker is not None and broker.epoch == controller.broker_epoch


def controller_id(image: Image, otherwise: int) -> int:
    """The broker that is the controller; `otherwise` where there is none."""
    controller = image.controller
    return otherwise if controller is None or not has_controller(image) else controller.broker


def is_controller(image: Image, broker: int, broker_epoch: int) -> bool:
    """Whether this broker, with this epoch, is the controller."""
    controller = image.controller
    return controller is not None and (controller.broker, controller.broker_epoch) == (
        broker,
        broker_epoch,
    )


def take_role(image: Image, broker: int, broker_epoch: int) -> list[Op]:
    """The operation that makes a registered broker the controller; nothing if there is one."""
    if has_controller(image) or broker not in image.brokers:
        return []
    if image.controller is None or image.controller_version is None:
        first = documents.ControllerInfo(broker, 1, broker_epoch)
        return [Create(documents.CONTROLLER, encode(first))]
    following = documents.ControllerInfo(broker, image.controller.epoch + 1, broker_epoch)
    return [Update(documents.CONTROLLER, encode(following), image.controller_version)]


def check_role(image: Image) -> Check:
    """The operation that stops a commit when another broker has become controller."""
    return Check(documents.CONTROLLER, image.controller_version)


def topic_of(image: Image, partition: PartitionImage) -> TopicImage | None:
    """The topic of a partition; None if it is of a deleted one."""
    topic = image.topics.get(partition.topic)
    if topic is None or topic.id != partition.topic_id or partition.index >= len(topic.assignment):
        return None
    return topic


def check_topics(image: Image, topic_ids: Iterable[UUID]) -> list[Op]:
    """The operations that stop a commit when one of these topics was deleted, or created again.

    Also where the image knows already that it was: the change was queued before. A topic of a store
    that older brokers wrote may have no document of its id; its own document stands for it.
    """
    ops: list[Op] = []
    for topic_id in dict.fromkeys(topic_ids):
        topic = image.topics_by_id.get(topic_id)
        if topic is None or topic_id in image.topic_ids:
            ops.append(Check(topic_id_key(topic_id), 0))
        else:
            ops.append(Check(topic_key(topic.name), topic.version))
    return ops


def change_partition(partition: PartitionImage, state: PartitionState) -> Update:
    """Replace a partition's state, if it still is what the image says."""
    return Update(partition_key(partition.topic, partition.index), encode(state), partition.version)


def change_assignment(topic: TopicImage, replicas: dict[int, list[int]]) -> Update:
    """Give some of a topic's partitions other replicas."""
    assignment = [replicas.get(index, old) for index, old in enumerate(topic.assignment)]
    new = TopicDocument(topic.name, topic.id, assignment, topic.configs)
    return Update(topic_key(topic.name), encode(new), topic.version)


class Controller:
    """The partitions that the controller has to look at, and what it does about them."""

    def __init__(self) -> None:
        self._unseen: dict[PartitionKey, None] = {}

    def began(self, image: Image) -> None:
        """This broker has become controller: all partitions are to be looked at."""
        self._unseen.update(dict.fromkeys(image.partitions))

    def learned(self, image: Image, delta: Delta) -> None:
        """The image has changed."""
        touched = {broker.id for broker in (*delta.brokers_down, *delta.brokers_up)}
        if touched:
            self._unseen.update(dict.fromkeys(_partitions_of(image, touched)))
        for partition in delta.changed_partitions:
            self._unseen[partition.topic, partition.index] = None
        for topic in delta.changed_topics:  # its replicas
            for index in range(len(topic.assignment)):
                self._unseen[topic.name, index] = None

    def next_commit(self, image: Image) -> list[Op] | None:
        """What to commit next; None when everything is as it should be."""
        urgent: list[tuple[PartitionImage, Settled]] = []
        others: list[tuple[PartitionImage, Settled]] = []
        for key in list(self._unseen):
            partition = image.partitions.get(key)
            settled = None if partition is None else self._settle(image, partition)
            if partition is None or settled is None:
                del self._unseen[key]
                continue
            new_leader = settled.state.leader_epoch != partition.leader_epoch
            (urgent if new_leader else others).append((partition, settled))
            if len(urgent) == PARTITIONS_IN_ONE_COMMIT:
                break
        chosen = (urgent + others)[:PARTITIONS_IN_ONE_COMMIT]
        if not chosen:
            return None
        topics = check_topics(image, (partition.topic_id for partition, _ in chosen))
        return [check_role(image), *topics, *_ops(image, chosen)]

    def _settle(self, image: Image, partition: PartitionImage) -> Settled | None:
        topic = topic_of(image, partition)
        if topic is None:
            return None
        replicas = topic.assignment[partition.index]
        return settle(partition, replicas, image.brokers)


def change_isr(image: Image, key: PartitionKey, proposal: Proposal) -> list[Op]:
    """What a leader commits to change the ISR. Its version is check enough who leads (rule 1)."""
    state = proposal.state
    change = Update(partition_key(*key), encode(state), proposal.version)
    return [*check_topics(image, [state.topic_id]), change]


def hand_over(image: Image, key: PartitionKey, topic_id: UUID, broker: int) -> list[Op]:
    """What a replica commits when its disk has failed: it leaves the ISR.

    Where it led, another one is elected. Where no other is in sync nothing changes: it would be
    elected again at once.
    """
    partition = image.partitions.get(key)
    topic = None if partition is None else topic_of(image, partition)
    if partition is None or topic is None or broker not in partition.isr:
        return []
    if partition.topic_id != topic_id:
        return []  # it is another topic of that name
    others = {one: live for one, live in image.brokers.items() if one != broker}
    if not any(is_fresh(partition, member, others) for member in partition.isr):
        return []
    settled = settle(partition, topic.assignment[partition.index], others)
    assert settled is not None, "a member that is not there leaves"
    return [
        check_role(image),
        *check_topics(image, [partition.topic_id]),
        *_ops(image, [(partition, settled)]),
    ]


def raise_leader_epoch(image: Image, key: PartitionKey, topic_id: UUID, epoch: int) -> list[Op]:
    """What the only replica of a partition commits when its log has newer epochs than the image."""
    partition = image.partitions.get(key)
    topic = None if partition is None else topic_of(image, partition)
    if partition is None or topic is None or topic.id != topic_id:
        return []
    if partition.leader_epoch >= epoch or len(topic.assignment[partition.index]) > 1:
        return []
    state = replace(same_term(partition), leader_epoch=epoch)
    return [
        check_role(image),
        *check_topics(image, [topic_id]),
        change_partition(partition, state),
    ]


def remaining(image: Image, broker: int, broker_epoch: int) -> list[PartitionKey]:
    """The partitions that delay a shutdown: others could lead them and do not yet."""
    return [
        key
        for key, partition in image.partitions.items()
        if leads(partition, broker, broker_epoch) and _another_could(partition, image.brokers)
    ]


def _another_could(partition: PartitionImage, brokers: Brokers) -> bool:
    return any(
        member != partition.leader and member in brokers and not brokers[member].shutting_down
        for member in partition.isr
    )


def _partitions_of(image: Image, brokers: set[int]) -> Iterable[PartitionKey]:
    for topic in image.topics.values():
        for index, replicas in enumerate(topic.assignment):
            if not brokers.isdisjoint(replicas):
                yield topic.name, index


def _ops(image: Image, chosen: Iterable[tuple[PartitionImage, Settled]]) -> list[Op]:
    ops: list[Op] = []
    moved: dict[str, dict[int, list[int]]] = {}
    for partition, settled in chosen:
        ops.append(change_partition(partition, settled.state))
        if settled.replicas is not None:
            moved.setdefault(partition.topic, {})[partition.index] = settled.replicas
    for name, replicas in moved.items():
        ops.append(change_assignment(image.topics[name], replicas))
    return ops
