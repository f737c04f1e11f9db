"""Which broker leads a partition and which are in sync, given the live brokers. Pure.

Words: a broker is *live* when it is registered, and *fresh* in a partition when its registration
has the epoch that the ISR names for it. A member of the ISR that is live but not fresh has
*bounced*: it restarted, or lost its session, since it got its place.

Rules kept here:
1. A new leader comes from the fresh members of the ISR, in the order of the assignment.
2. Members that are dead or have bounced leave the ISR: a fast restart may have lost the end of the
   log, so the broker has to catch up before it joins again. The ISR names epochs, so a controller
   that did not see the bounce detects it.
3. When no member is fresh there is no leader and the ISR stays as it is. Brokers that come back
   claim the partition (`claims.py`): they know what they have kept, and that their log is whole.
   The only replica of a partition, back with all it had, claims it at once: nothing is changed.
   Brokers of older versions do not claim: the first one back is elected, as they expect it.
4. The leader epoch grows by one with every change of the leader, or of its broker epoch: to lead
   again after a bounce is a new term. It also grows when a replica is removed from the assignment,
   as in Kafka: that broker deletes its log, so what the leader knows of it, and fetches that it has
   sent, must not count if it is added again. Without a leader (-1) nothing is written, so the ISR
   stays.
5. A replica that may lack committed records leads only where `claims.py` or an operator
   (ElectLeaders) allows it. Such an election is recorded (`unclean_epoch`): without that, no
   follower truncates what it knows as committed (`follower.py`).
6. A broker that is shutting down loses its leadership and its places to fresh members that stay;
   where none stays it keeps them, for it has what one that bounced may lack.
7. A reassignment is complete when every target replica is in the ISR: the others leave with the
   same change.
8. Within one leader epoch this never adds a broker to the ISR: only the leader knows which caught
   up.
9. The ISR names each member's storage (directory id and epoch) as of when it joined.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.metadata.documents import PartitionState, Storage
from ottla.metadata.image import NO_EPOCH, BrokerImage, PartitionImage

NO_LEADER = -1

Brokers = Mapping[int, BrokerImage]


class KeptIsr(IntEnum):
    """What a member of an ISR still has of its log, from the worst to the best."""

    NOTHING = 0
    FLUSHED = 1
    EVERYTHING = 2


def kept(partition: PartitionImage, broker: BrokerImage) -> KeptIsr:
    """What a registered broker has kept of the log that the ISR counts on."""
    if broker.id not in partition.isr:
        return KeptIsr.NOTHING
    before, now = partition.storage_of(broker.id), broker.storage
    if before is None or now is None or before == now:
        return KeptIsr.EVERYTHING
    return KeptIsr.FLUSHED if before.directory == now.directory else KeptIsr.NOTHING


class Settled(NamedTuple):
    """A partition's new state; `replicas` where the assignment changes with it."""

    state: PartitionState
    replicas: list[int] | None = None


def is_fresh(partition: PartitionImage, broker: int, brokers: Brokers) -> bool:
    """Whether a broker is registered with the epoch that the ISR names for it."""
    live = brokers.get(broker)
    return live is not None and live.epoch == partition.isr_epoch(broker)


def leads(partition: PartitionImage, broker: int, broker_epoch: int) -> bool:
    """Whether a broker leads, with the broker epoch that the ISR names."""
    return (
        partition.leader == broker
        and broker_epoch != NO_EPOCH
        and partition.isr_epoch(broker) == broker_epoch
    )


def settle(partition: PartitionImage, replicas: Sequence[int], brokers: Brokers) -> Settled | None:
    """What must change now; None if nothing must."""
    fresh = [member for member in partition.isr if is_fresh(partition, member, brokers)]
    staying = [member for member in fresh if not brokers[member].shutting_down]
    leader = partition.leader
    if leader in fresh and (leader in staying or not staying):
        isr = staying or fresh
    elif fresh:
        isr = staying or fresh
        leader = next(one for one in replicas if one in isr)
    elif (older := _returned_in_older_version(partition, replicas, brokers)) is not None:
        leader, isr = older, [older]
    elif _returned_alone(partition, replicas, brokers):
        return None
    else:
        leader, isr = NO_LEADER, partition.isr
    if leader == NO_LEADER:
        epochs = partition.isr_epochs
    else:
        epochs = [brokers[member].epoch for member in isr]
    state = changed(partition, leader, isr, epochs, brokers)
    target = [one for one in replicas if one not in partition.removing]
    moving = partition.adding or partition.removing
    if moving and leader != NO_LEADER and target and set(target) <= set(isr):
        removes_replica = len(target) < len(replicas)
        return Settled(_completed(partition, state, target, brokers, removes_replica), target)
    return None if state is None else Settled(state)


def changed(
    partition: PartitionImage,
    leader: int,
    isr: list[int],
    isr_epochs: list[int],
    brokers: Brokers,
    *,
    adding: list[int] | None = None,
    removing: list[int] | None = None,
    removes_replica: bool = False,
    unclean: bool = False,
) -> PartitionState | None:
    """The document after a change, its epochs raised as they must be; None if nothing differs."""
    adding = partition.adding if adding is None else adding
    removing = partition.removing if removing is None else removing
    led_by = (leader, _epoch_in(leader, isr, isr_epochs))
    same_leader = led_by == (partition.leader, partition.isr_epoch(partition.leader))
    new_term = removes_replica or not same_leader
    if (
        not new_term
        and (isr, isr_epochs) == (partition.isr, partition.isr_epochs)
        and (adding, removing) == (partition.adding, partition.removing)
    ):
        return None
    leader_epoch = partition.leader_epoch + new_term
    return PartitionState(
        partition.topic_id,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=isr,
        partition_epoch=partition.partition_epoch + 1,
        isr_epochs=isr_epochs,
        adding=adding,
        removing=removing,
        isr_storage=isr_storage(partition, isr, isr_epochs, brokers),
        unclean_epoch=leader_epoch if unclean else partition.unclean_epoch,
        deleted_below=partition.deleted_below,
    )


def same_term(
    partition: PartitionImage,
    *,
    adding: list[int] | None = None,
    removing: list[int] | None = None,
    deleted_below: int | None = None,
) -> PartitionState:
    """The document after a change that leaves leader and ISR as they are."""
    return PartitionState(
        partition.topic_id,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        partition_epoch=partition.partition_epoch + 1,
        isr_epochs=partition.isr_epochs,
        adding=partition.adding if adding is None else adding,
        removing=partition.removing if removing is None else removing,
        isr_storage=partition.isr_storage,
        unclean_epoch=partition.unclean_epoch,
        deleted_below=partition.deleted_below if deleted_below is None else deleted_below,
    )


def isr_storage(
    partition: PartitionImage, isr: Sequence[int], isr_epochs: Sequence[int], brokers: Brokers
) -> list[Storage | None]:
    """The storage of each member: as registered with the epoch that the ISR names, or as known."""
    found = []
    for member, epoch in zip(isr, isr_epochs, strict=False):
        live = brokers.get(member)
        is_same_epoch = live is not None and live.epoch == epoch
        found.append(live.storage if live and is_same_epoch else partition.storage_of(member))
    return known_storage(found)


def known_storage(storage: Iterable[Storage | None]) -> list[Storage | None]:
    """The list for a document: empty if no member has named its storage."""
    found = list(storage)
    return found if any(found) else []


def available(broker: int, brokers: Brokers) -> bool:
    """Whether a broker may become leader: it is registered and not shutting down."""
    live = brokers.get(broker)
    return live is not None and not live.shutting_down


def _returned_in_older_version(
    partition: PartitionImage, replicas: Sequence[int], brokers: Brokers
) -> int | None:
    """A member of the ISR that is back, and of a version that does not claim; None: there is none.

    Such brokers do not name their storage. During an upgrade they wait to be elected.
    """
    for one in replicas:
        if one in partition.isr and available(one, brokers) and brokers[one].storage is None:
            return one
    return None


def _returned_alone(partition: PartitionImage, replicas: Sequence[int], brokers: Brokers) -> bool:
    """Whether the only replica is back with all it had: a broker alone restarts in one step."""
    if len(replicas) > 1 or not available(replicas[0], brokers):
        return False
    return kept(partition, brokers[replicas[0]]) is KeptIsr.EVERYTHING


def _completed(
    partition: PartitionImage,
    state: PartitionState | None,
    target: Sequence[int],
    brokers: Brokers,
    removes_replica: bool,
) -> PartitionState:
    """The state with the target replicas alone, on top of what else changes."""
    isr = list(target)
    leader = partition.leader if state is None else state.leader
    if leader not in target:
        leader = next((one for one in target if available(one, brokers)), target[0])
    epochs = [brokers[member].epoch for member in isr]
    completed = changed(
        partition,
        leader,
        isr,
        epochs,
        brokers,
        adding=[],
        removing=[],
        removes_replica=removes_replica,
    )
    assert completed is not None, "a completed reassignment changes the state"
    return completed


def _epoch_in(member: int, isr: list[int], isr_epochs: list[int]) -> int:
    if member == NO_LEADER or len(isr) != len(isr_epochs):
        return NO_EPOCH
    return isr_epochs[isr.index(member)]
