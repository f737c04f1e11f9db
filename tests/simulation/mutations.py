"""Brokers that break one rule each: a simulator that does not catch them proves nothing.

The names are those of what is done wrong; the numbers are those of the replication rules:
1 the maximal ISR, 2 epochs on both sides, 3 the controller's epoch, 4 the lease, 5 bounced brokers,
6 the errors.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from ottla.metadata.claims import claim_all
from ottla.metadata.controller import Controller
from ottla.metadata.documents import CONTROLLER, Storage
from ottla.metadata.elections import Settled
from ottla.metadata.image import NO_EPOCH, BrokerImage, Image, PartitionImage
from ottla.metadata.isr_proposal import Proposal
from ottla.metadata.store import Check, Op
from ottla.replication.epochs import Epochs
from ottla.replication.follower import (
    FollowerAction,
    FollowerFetch,
    FollowerStep,
    Following,
    LeaderAnswer,
)
from ottla.replication.lease import Lease
from ottla.replication.replicas import Leadership
from ottla.wire.errors import ErrorCode

from .broker import SimulatedBroker
from .replication import Replica, Waiting


def broker_with(
    *,
    leadership: type[Leadership] = Leadership,
    following: type[Following] = Following,
    controller: type[Controller] = Controller,
    lease: type[Lease] = Lease,
) -> type[SimulatedBroker]:
    """A broker that decides with these."""

    class Broken(SimulatedBroker):
        leadership_kind = leadership
        following_kind = following
        controller_kind = controller
        lease_kind = lease

    return Broken


# Rule 1 -------------------------------------------------------------------------------------------


class ForgetsTheRemovedAtOnce(Leadership):
    """Who is to leave the ISR does not count while the change is on its way."""

    __slots__ = ()

    def _weigh(self) -> None:
        super()._weigh()
        if self._in_flight is not None:
            self._maximal = {one: of for one, of in self._in_flight.isr.items() if one != self.me}
            self._alone = not self._maximal and len(self.isr) >= self._least()


class CountsTheAddedLate(Leadership):
    """Who is to join the ISR counts only when the store has said yes."""

    __slots__ = ()

    def _weigh(self) -> None:
        super()._weigh()
        self._maximal = {one: of for one, of in self.isr.items() if one != self.me}
        self._alone = not self._maximal and len(self.isr) >= self._least()


class TakesUnknownForNo(Leadership):
    """A change whose outcome is unknown is forgotten."""

    __slots__ = ()

    def unknown(self, proposal: Proposal) -> None:
        if proposal is self._in_flight:
            self._in_flight = None
            self._weigh()


class CommitsBelowTheLeastIsr(Leadership):
    """The high watermark continues with fewer than `min.insync.replicas`."""

    __slots__ = ()

    def _least(self) -> int:
        return 1


# Rule 2 -------------------------------------------------------------------------------------------


class TakesAnyLeaderEpoch(Leadership):
    """Positions of followers of other terms count."""

    __slots__ = ()

    def check_fetch(self, broker: int, broker_epoch: int, leader_epoch: int) -> None:
        super().check_fetch(broker, broker_epoch, self.leader_epoch)


class JoinsByAFormerLife(Leadership):
    """A follower that restarted joins with the position of its former life (KIP-903)."""

    __slots__ = ()

    def propose(self, brokers: Mapping[int, BrokerImage], now: float) -> Proposal | None:
        for broker, position in self._positions.items():
            if broker in brokers:
                position.broker_epoch = brokers[broker].epoch
        return super().propose(brokers, now)


class TakesAnyAnswer(Following):
    """Answers to fetches of former terms are written."""

    __slots__ = ()

    def answered(
        self,
        fetch: FollowerFetch,
        answer: LeaderAnswer,
        log_end: int,
        epochs: Epochs,
        high_watermark: int,
        *,
        was_deleted: bool = True,
    ) -> FollowerStep:
        fetch = fetch._replace(leader_epoch=self.leader_epoch)
        return super().answered(
            fetch, answer, log_end, epochs, high_watermark, was_deleted=was_deleted
        )


class IgnoresDivergence(Following):
    """Where the leader says that the logs part, nothing is cut."""

    __slots__ = ()

    def fetch(self, log_end: int, epochs: Epochs, log_start: int) -> FollowerFetch:
        return super().fetch(log_end, epochs, log_start)._replace(last_fetched_epoch=-1)

    def answered(
        self,
        fetch: FollowerFetch,
        answer: LeaderAnswer,
        log_end: int,
        epochs: Epochs,
        high_watermark: int,
        *,
        was_deleted: bool = True,
    ) -> FollowerStep:
        step = super().answered(
            fetch, answer, log_end, epochs, high_watermark, was_deleted=was_deleted
        )
        return (
            FollowerStep(FollowerAction.BACK_OFF)
            if step.action is FollowerAction.TRUNCATE
            else step
        )


class TruncatesToTheHighWatermark(SimulatedBroker):
    """A new follower cuts its log where it knows that everything is committed."""

    def _follow(self, replica: Replica, state: PartitionImage) -> None:
        if replica.following is None or replica.following.leader_epoch != state.leader_epoch:
            replica.log.truncate(replica.high_watermark)
        super()._follow(replica, state)


class FetchesWhileItLeads(SimulatedBroker):
    """A new leader continues writing what the old one answers."""

    def _lead(self, replica: Replica, state: PartitionImage, assigned: Sequence[int]) -> None:
        former = replica.following
        super()._lead(replica, state, assigned)
        if replica.following is None and former is not None:
            replica.following = former


# Rule 3 -------------------------------------------------------------------------------------------


class CommitsUnchecked(Controller):
    """Commits do not check the controller's document."""

    def next_commit(self, image: Image) -> list[Op] | None:
        ops = super().next_commit(image)
        return None if ops is None else list(_without_check(ops))


class HesitatesAndCommitsUnchecked(SimulatedBroker):
    """It also takes its time, so that there is another controller more often."""

    controller_kind = CommitsUnchecked
    hesitates = 600


def _without_check(ops: Iterable[Op]) -> Iterable[Op]:
    return (op for op in ops if not (isinstance(op, Check) and op.key == CONTROLLER))


class ElectsAnyone(SimulatedBroker):
    """A leader may come from outside the ISR, though nobody allowed it."""

    def decide_claims(self) -> list[Op]:
        return claim_all(self.image, self.replicas, self.number, lambda topic: True)[1]


# Rule 4 -------------------------------------------------------------------------------------------


class TrustsForever(Lease):
    """The lease does not end."""

    __slots__ = ()

    def held(self, now: float) -> bool:
        return True


class CountsFromTheAnswer(Lease):
    """The lease has no margin and counts from when the answer came, a while after the sending."""

    __slots__ = ()

    def answered(self, sent_at: float, timeout: float) -> None:
        super().answered(sent_at + 10, timeout * 3 / 2)


class HasNoMargin(Lease):
    """The lease is as long as the session: too long for a broker whose clock is slow."""

    __slots__ = ()

    def answered(self, sent_at: float, timeout: float) -> None:
        super().answered(sent_at, timeout * 3 / 2)


# Rule 5 -------------------------------------------------------------------------------------------


class TrustsTheBounced(Controller):
    """A member of the ISR that restarted is taken for what it was before."""

    def _settle(self, image: Image, partition: PartitionImage) -> Settled | None:
        epochs = [
            image.brokers[member].epoch if member in image.brokers else epoch
            for member, epoch in zip(partition.isr, partition.isr_epochs, strict=True)
        ]
        return super()._settle(image, msgspec.structs.replace(partition, isr_epochs=epochs))


class LeadsAfterABounce(SimulatedBroker):
    """A broker that restarted leads on in the term of its former life."""

    def may_lead(self, state: PartitionImage) -> bool:
        return state.leader == self.number and self.epoch != NO_EPOCH


class LeadsWithANewDisk(SimulatedBroker):
    """A member of the ISR that comes back claims, whatever disk it has."""

    def decide_claims(self) -> list[Op]:
        return _claims_with(
            self, lambda before, now: before if before.directory != now.directory else now
        )


class LeadsWithoutItsPageCache(SimulatedBroker):
    """A member of the ISR claims though its machine was restarted."""

    def decide_claims(self) -> list[Op]:
        return _claims_with(
            self, lambda before, now: before if before.directory == now.directory else now
        )


def _claims_with(broker: SimulatedBroker, takes: Callable[[Storage, Storage], Storage]) -> list[Op]:
    """The claims of a broker that takes other storage for what the ISR knows."""
    image = Image.of([])
    vars(image).update(vars(broker.image))
    me = image.brokers.get(broker.number)
    if me is None:
        return []
    ops: list[Op] = []
    for key in broker.replicas:
        before = image.partitions[key].storage_of(broker.number)
        storage = me.storage if before is None else takes(before, broker.storage)
        image.brokers = {
            **broker.image.brokers,
            broker.number: msgspec.structs.replace(me, storage=storage),
        }
        ops += claim_all(image, [key], broker.number, lambda topic: False)[1]
    return ops


# Rule 6 -------------------------------------------------------------------------------------------


class AcknowledgesDuplicatesAtOnce(SimulatedBroker):
    """What is there already is acknowledged, committed or not."""

    def _produced(
        self, replica: Replica, term: Leadership, appended: Waiting, duplicate: bool
    ) -> None:
        if duplicate:
            self.answer_all(replica, appended, ErrorCode.NONE)
        else:
            super()._produced(replica, term, appended, duplicate)


class ShowsLatestTooEarly(Leadership):
    """A new leader says where the log ends before it knows what was committed."""

    __slots__ = ()

    def check_latest(self) -> None:
        pass


class AcknowledgesWithTooFew(Leadership):
    """acks=all is taken and acknowledged by the replicas that are left."""

    __slots__ = ()

    def check_enough(self) -> None:
        pass

    def acknowledgement(self, offset: int) -> ErrorCode | None:
        return ErrorCode.NONE if len(self.isr) < self._least() else super().acknowledgement(offset)


MUTATIONS: dict[str, type[SimulatedBroker]] = {
    "1 forgets the removed at once": broker_with(leadership=ForgetsTheRemovedAtOnce),
    "1 counts the added late": broker_with(leadership=CountsTheAddedLate),
    "1 takes unknown for no": broker_with(leadership=TakesUnknownForNo),
    "1 commits below the least ISR": broker_with(leadership=CommitsBelowTheLeastIsr),
    "2 takes any leader epoch": broker_with(leadership=TakesAnyLeaderEpoch),
    "2 joins by a former life": broker_with(leadership=JoinsByAFormerLife),
    "2 takes any answer": broker_with(following=TakesAnyAnswer),
    "2 ignores divergence": broker_with(following=IgnoresDivergence),
    "2 truncates to the high watermark": TruncatesToTheHighWatermark,
    "2 fetches while it leads": FetchesWhileItLeads,
    "3 commits unchecked": HesitatesAndCommitsUnchecked,
    "3 elects anyone": ElectsAnyone,
    "4 trusts forever": broker_with(lease=TrustsForever),
    "4 counts from the answer": broker_with(lease=CountsFromTheAnswer),
    "4 has no margin": broker_with(lease=HasNoMargin),
    "5 trusts the bounced": broker_with(controller=TrustsTheBounced),
    "5 leads after a bounce": LeadsAfterABounce,
    "5 leads with a new disk": LeadsWithANewDisk,
    "5 leads without its page cache": LeadsWithoutItsPageCache,
    "6 acknowledges duplicates at once": AcknowledgesDuplicatesAtOnce,
    "6 shows latest too early": broker_with(leadership=ShowsLatestTooEarly),
    "6 acknowledges with too few": broker_with(leadership=AcknowledgesWithTooFew),
}
