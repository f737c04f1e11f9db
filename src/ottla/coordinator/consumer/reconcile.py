"""How a consumer group member gets from its current to its target assignment.

Rules kept here:
1. First give, then take: a member stays in its epoch until it has given up everything that is not
   in its target; only then it moves to the target's epoch and gets new partitions.
2. A partition is given only when nobody owns it. A member that waits for one is moved to the
   target's epoch all the same, with what is free.
3. A member never keeps partitions of topics that it no longer subscribes to, whatever an
   older target says.
4. What a member has given up is known from the partitions it says it owns; a heartbeat without
   them says nothing.

| from                  | to                    | when                                          |
|-----------------------|-----------------------|-----------------------------------------------|
| STABLE                | UNREVOKED_PARTITIONS  | the target lacks partitions that it owns      |
| STABLE                | UNRELEASED_PARTITIONS | the target has partitions that others own     |
| UNREVOKED_PARTITIONS  | UNREVOKED_PARTITIONS  | it gave up all, but a newer target wants more |
| UNREVOKED_PARTITIONS  | UNRELEASED_PARTITIONS | it gave up all, others have not               |
| UNREVOKED_PARTITIONS  | STABLE                | it gave up all and has its target             |
| UNRELEASED_PARTITIONS | each of them          | as from STABLE, with the latest target        |
| UNKNOWN               | each of them          | as from STABLE, if it owns nothing            |
"""

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, replace
from uuid import UUID

from ottla.coordinator.consumer.assignment import Assignment
from ottla.coordinator.consumer.member import ConsumerMember, MemberState, Owned, owns_any
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions

_NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What a member's next move depends on."""

    target_epoch: int
    target: Assignment
    subscribed_topics: Set[UUID]
    subscription_changed: bool
    """True if the member subscribed to something else just now."""
    owned: Iterable[TopicPartitions] | None
    """What the member says it owns."""
    owner_of: Callable[[UUID, int], str | None]

    def advance(self, member: ConsumerMember) -> ConsumerMember:
        """The member after its next move, itself where there is none."""
        if member.state is MemberState.STABLE and member.member_epoch == self.target_epoch:
            return self._drop_unsubscribed(member) if self.subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS and owns_any(
            self.owned, member.pending_revocation
        ):
            return self._drop_unsubscribed(member) if self.subscription_changed else member
        if member.state is MemberState.UNKNOWN:
            if self.owned is None or any(topic.partitions for topic in self.owned):
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in an unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
            member = replace(member, member_epoch=self.target_epoch)
        return self._approach_target(member)

    def _approach_target(self, member: ConsumerMember) -> ConsumerMember:
        kept: Owned = {}
        revoked: Owned = {}
        free: Owned = {}
        waits = False
        for topic_id in {**self.target, **member.assigned}:
            has = member.assigned.get(topic_id, {})
            wanted = self.target.get(topic_id, _NOTHING)
            if topic_id not in self.subscribed_topics:
                wanted = _NOTHING
            if stays := {number: epoch for number, epoch in has.items() if number in wanted}:
                kept[topic_id] = stays
            if goes := {number: epoch for number, epoch in has.items() if number not in wanted}:
                revoked[topic_id] = goes
            for number in sorted(wanted - has.keys()):
                # Its own partitions that were pending revocation are given up by now.
                if self.owner_of(topic_id, number) in (None, member.member_id) or (
                    number in member.pending_revocation.get(topic_id, ())
                ):
                    free.setdefault(topic_id, {})[number] = self.target_epoch
                else:
                    waits = True
        if revoked and owns_any(self.owned, revoked):
            return _moved(
                member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, kept, revoked
            )
        for topic_id, numbers in free.items():
            kept[topic_id] = {**kept.get(topic_id, {}), **numbers}
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        return _moved(member, state, self.target_epoch, kept, {})

    def _drop_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Take away topics that the member left, before there is a target without them."""
        dropped = {
            topic_id: numbers
            for topic_id, numbers in member.assigned.items()
            if topic_id not in self.subscribed_topics
        }
        if not dropped:
            return member
        kept = {
            topic_id: numbers
            for topic_id, numbers in member.assigned.items()
            if topic_id not in dropped
        }
        revoked = dict(member.pending_revocation)
        for topic_id, numbers in dropped.items():
            revoked[topic_id] = {**revoked.get(topic_id, {}), **numbers}
        if owns_any(self.owned, revoked):
            return _moved(
                member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, kept, revoked
            )
        return _moved(member, member.state, member.member_epoch, kept, member.pending_revocation)


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Owned, revoked: Owned
) -> ConsumerMember:
    return replace(
        member,
        state=state,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        assigned=assigned,
        pending_revocation=revoked,
    )
