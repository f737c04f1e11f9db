"""Who leads a partition and who is in sync, given which brokers live. Pure; one partition a call.

Words: a broker is *live* when it is registered, and *fresh* in a partition when its registration
has the epoch that the ISR names for it. A member of the ISR that is live but not fresh has
*bounced*: it restarted, or lost its session, since it got its place.

Rules kept here:
1. A new leader comes from the fresh members of the ISR, in the order of the assignment.
2. Members that are dead or have bounced leave the ISR: a fast restart may have lost the end of its
   log, so a place is earned again by catching up. The ISR names epochs, so a controller that did
   not see the bounce sees its trace.
3. When no member is fresh the ISR stays as it is, and the first member that is back leads, alone.
   It has all that was committed, unless its machine lost what the process had written; waiting for
   the others would help only if their machines did not, and would stop a cluster that was killed as
   a whole. Nobody outside that ISR leads, but by rule 5.
4. The leader epoch grows by one with every change of the leader, or of its life: to lead again
   after a bounce is a new term. It also grows when a replica is removed from the assignment, as in
   Kafka: that broker deletes its log, so what the leader knows of it, and fetches that it has sent,
   must not count if it is added again. Without a leader (-1) nothing is written, so the ISR stays.
5. A replica outside the ISR leads only where `unclean.leader.election.enable` says so, or a person
   (ElectLeaders), and only when no member of the ISR could.
6. A broker that is shutting down loses its leadership and its places to fresh members that stay;
   where none stays it keeps them, for it has what one that bounced may lack.
7. A reassignment is complete when every target replica is in the ISR: the others leave with the
   same change.
8. Within one leader epoch this never adds anyone to the ISR: only the leader knows who caught up.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.cluster.documents import PartitionState
from ottla.cluster.image import NO_EPOCH, BrokerImage, PartitionImage

NO_LEADER = -1

Brokers = Mapping[int, BrokerImage]


class Settled(NamedTuple):
    """A partition's new state; `replicas` where the assignment changes with it."""

    state: PartitionState
    replicas: list[int] | None = None


def is_fresh(partition: PartitionImage, broker: int, brokers: Brokers) -> bool:
    """Whether a broker lives the life in which it got its place in the ISR."""
    live = brokers.get(broker)
    return live is not None and live.epoch == partition.isr_epoch(broker)


def leads(partition: PartitionImage, broker: int, broker_epoch: int) -> bool:
    """Whether a broker leads: in the life that the ISR names, for a former life leads no more."""
    return (
        partition.leader == broker
        and broker_epoch != NO_EPOCH
        and partition.isr_epoch(broker) == broker_epoch
    )


def settle(
    partition: PartitionImage, replicas: Sequence[int], brokers: Brokers, *, unclean: bool
) -> Settled | None:
    """What must change now; None where all is well."""
    fresh = [member for member in partition.isr if is_fresh(partition, member, brokers)]
    staying = [member for member in fresh if not brokers[member].shutting_down]
    leader = partition.leader
    if leader in fresh and (leader in staying or not staying):
        isr = staying or fresh
    elif fresh:
        isr = staying or fresh
        leader = next(one for one in replicas if one in isr)
    else:
        leader = _first_back(partition, replicas, brokers, unclean)
        isr = [leader] if leader != NO_LEADER else partition.isr
    if leader == NO_LEADER:
        epochs = partition.isr_epochs
    else:
        epochs = [brokers[member].epoch for member in isr]
    state = changed(partition, leader, isr, epochs)
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
    *,
    adding: list[int] | None = None,
    removing: list[int] | None = None,
    removes_replica: bool = False,
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
    return PartitionState(
        partition.topic_id,
        leader=leader,
        leader_epoch=partition.leader_epoch + new_term,
        isr=isr,
        partition_epoch=partition.partition_epoch + 1,
        isr_epochs=isr_epochs,
        adding=adding,
        removing=removing,
    )


def available(broker: int, brokers: Brokers) -> bool:
    """Whether a broker may be given leadership: it lives and means to stay."""
    live = brokers.get(broker)
    return live is not None and not live.shutting_down


def _first_back(
    partition: PartitionImage, replicas: Sequence[int], brokers: Brokers, unclean: bool
) -> int:
    """The leader where no member of the ISR is fresh and stays."""
    waiting = [one for one in replicas if available(one, brokers)]
    back = [one for one in waiting if one in partition.isr]
    if back:
        return back[0]
    return waiting[0] if unclean and waiting else NO_LEADER


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
        partition, leader, isr, epochs, adding=[], removing=[], removes_replica=removes_replica
    )
    assert completed is not None, "a completed reassignment changes the state"
    return completed


def _epoch_in(member: int, isr: list[int], isr_epochs: list[int]) -> int:
    if member == NO_LEADER or len(isr) != len(isr_epochs):
        return NO_EPOCH
    return isr_epochs[isr.index(member)]
