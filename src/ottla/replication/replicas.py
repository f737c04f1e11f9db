"""The leader's arithmetic for one partition: positions, ISR, high watermark. Pure.

A `Leadership` is one term: made when a broker begins to lead in a leader epoch, dropped when it
no longer leads. It takes facts (appended, fetched, learned, the outcome of a proposal) and keeps:

1. The high watermark is the lowest log end of the *maximal* ISR: the members that the store is
   known to name, and all that a change in flight would add. An added replica counts before the
   change is sent, a removed one until the change is known to have succeeded.
2. It never goes back within a term, and does not advance while the ISR is below
   `min.insync.replicas` (at most the number of replicas).
3. A position counts only in a fetch of this leader epoch, and for a member of the ISR only in the
   broker epoch that the ISR names. A fetch that must first truncate does not count.
   A replica that is removed and added again has deleted its log in between. Its removal began
   another leader epoch (elections, rule 4), so no position and no fetch from before counts, even
   where this leader did not see the state in between.
4. One change of the ISR is in flight at a time, expecting the version it was decided on.
   - accepted: the store names the new ISR, at the next version.
   - refused: it did not happen, and a concurrent change did: nothing is proposed until that one
     is learned.
   - unknown: it may have happened. It stays in the maximal ISR until a newer version is learned, or
     another proposal on the same version is accepted: then it did not happen. So there is always
     such a proposal, if only with the ISR as it was.
5. A follower joins when it has everything below the high watermark and below the start of this
   epoch, keeps up, and is registered with the epoch it fetches with. It leaves when it has not
   caught up for `replica.lag.time.max.ms`, or fetches with a new broker epoch.
6. acks=all is answered when the high watermark has passed the records: also for duplicates, whose
   first copy may not be committed yet. Too few in sync: NOT_ENOUGH_REPLICAS before the append,
   NOT_ENOUGH_REPLICAS_AFTER_APPEND behind it.
7. "Latest" is OFFSET_NOT_AVAILABLE until the high watermark reaches the start of this epoch: an
   earlier leader may have shown more than this one yet knows to be committed.

An append costs nothing but a comparison, a fetch is linear in the replicas.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ottla.metadata.documents import PartitionState
from ottla.metadata.elections import isr_storage
from ottla.metadata.image import NO_EPOCH, BrokerImage, PartitionImage
from ottla.metadata.isr_proposal import Proposal
from ottla.wire.errors import ErrorCode, KafkaError

UNKNOWN_OFFSET = -1


class FollowerPosition:
    """What the leader knows of a follower in this term."""

    __slots__ = ("asked_at", "broker_epoch", "caught_up_at", "end", "leader_end", "log_start")

    def __init__(self, broker_epoch: int, caught_up_at: float) -> None:
        self.broker_epoch = broker_epoch
        self.end = UNKNOWN_OFFSET
        self.log_start = UNKNOWN_OFFSET
        self.caught_up_at = caught_up_at
        self.asked_at = caught_up_at
        self.leader_end = 0
        """Where the leader's log ended when the follower asked last."""

    def asks(self, offset: int, log_start: int, leader_end: int, now: float) -> None:
        """The follower has everything below an offset."""
        if offset >= leader_end:
            self.caught_up_at = now
        elif offset >= self.leader_end:
            # It has all there was when it asked before: then it was caught up.
            self.caught_up_at = max(self.caught_up_at, self.asked_at)
        self.end = offset
        self.log_start = log_start
        self.asked_at = now
        self.leader_end = leader_end


class Leadership:
    """One term of a partition's leader."""

    __slots__ = (
        "_alone",
        "_base",
        "_in_flight",
        "_lag",
        "_maximal",
        "_positions",
        "_refused",
        "_undecided",
        "epoch_start",
        "high_watermark",
        "isr",
        "leader_epoch",
        "log_end",
        "me",
        "min_isr",
        "replicas",
    )

    def __init__(
        self,
        me: int,
        base: PartitionImage,
        replicas: Sequence[int],
        *,
        log_end: int,
        high_watermark: int,
        min_isr: int,
        lag: float,
        now: float,
    ) -> None:
        self.me = me
        self.leader_epoch = base.leader_epoch
        self.epoch_start = log_end
        self.log_end = log_end
        self.high_watermark = min(high_watermark, log_end)
        self.min_isr = min_isr
        self.replicas: Sequence[int] = ()
        self.isr: dict[int, int] = {}
        """The ISR as far as it is known, and the broker epochs that the store names."""
        self._lag = lag
        self._base = base
        self._positions: dict[int, FollowerPosition] = {}
        self._maximal: dict[int, int] = {}
        self._in_flight: Proposal | None = None
        self._undecided: list[Proposal] = []
        self._refused = False
        self._alone = False
        self._take_isr(base)
        self.assigned(replicas, now)

    # What the leader learns ---------------------------------------------------------------

    def appended(self, log_end: int) -> bool:
        """The log has grown; returns whether the high watermark did."""
        self.log_end = log_end
        if self._alone:
            self.high_watermark = log_end
            return True
        return False

    def check_fetch(self, broker: int, broker_epoch: int, leader_epoch: int) -> None:
        """Refuse a follower that knows another leader, that is none, or that died since."""
        if leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        if leader_epoch > self.leader_epoch:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        position = self._positions.get(broker)
        if position is None:
            # It may know a newer assignment than this leader: let it retry.
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH, f"broker {broker} is not a replica here"
            )
        if broker_epoch < max(position.broker_epoch, self.isr.get(broker, NO_EPOCH)):
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker} has restarted since it sent this request",
            )

    def fetched(
        self, broker: int, broker_epoch: int, offset: int, log_start: int, now: float
    ) -> bool:
        """A checked fetch that does not diverge; returns whether the high watermark has grown."""
        if offset > self.log_end:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is past the log's end {self.log_end}"
            )
        position = self._positions[broker]
        if position.broker_epoch != broker_epoch:
            position = self._positions[broker] = FollowerPosition(broker_epoch, now - self._lag - 1)
        moved = position.end != offset
        position.asks(offset, log_start, self.log_end, now)
        return moved and broker in self._maximal and self._advance()

    def passes(self, now: float) -> None:
        """Time has passed: a follower that has everything now is caught up, even if it is idle.

        A fetch session asks again only for partitions that changed, so it may be silent.
        """
        for position in self._positions.values():
            if position.end == self.log_end:
                position.caught_up_at = now

    def learned(self, state: PartitionImage) -> bool:
        """The store has a newer state of this term; returns whether the high watermark grew."""
        if state.version <= self._base.version:
            return False
        assert state.leader_epoch == self.leader_epoch, "another term is another Leadership"
        self._take_isr(state)
        return self._advance()

    def assigned(self, replicas: Sequence[int], now: float) -> bool:
        """The partition has these replicas; returns whether the high watermark has grown."""
        self.replicas = replicas
        before = self._positions
        self._positions = {
            broker: before.get(broker) or self._unheard(broker, now)
            for broker in replicas
            if broker != self.me
        }
        self._weigh()
        return self._advance()

    def configured(self, min_isr: int, lag: float) -> bool:
        """The settings have changed; returns whether the high watermark has grown."""
        self.min_isr, self._lag = min_isr, lag
        self._weigh()
        return self._advance()

    # Changing the ISR ---------------------------------------------------------------------

    def may_join(self, broker: int, brokers: Mapping[int, BrokerImage], now: float) -> bool:
        """Whether a follower outside the ISR may join it."""
        position = self._positions.get(broker)
        live = brokers.get(broker)
        return (
            position is not None
            and broker not in self.isr
            and position.end >= max(self.high_watermark, self.epoch_start)
            and self._keeps_up(position, now)
            and live is not None
            and live.epoch == position.broker_epoch
            and not live.shutting_down
        )

    def propose(self, brokers: Mapping[int, BrokerImage], now: float) -> Proposal | None:
        """The change of the ISR to send now; None if there is none."""
        if self._in_flight is not None or self._refused:
            return None
        isr = {
            member: epoch
            for member, epoch in self.isr.items()
            if member == self.me or self._stays(member, epoch, now)
        }
        for broker in self.replicas:
            if self.may_join(broker, brokers, now):
                isr[broker] = self._positions[broker].broker_epoch
        if isr == self.isr and not self._undecided:
            return None
        base = self._base
        state = PartitionState(
            base.topic_id,
            leader=self.me,
            leader_epoch=self.leader_epoch,
            isr=list(isr),
            partition_epoch=base.partition_epoch + 1,
            isr_epochs=list(isr.values()),
            adding=base.adding,
            removing=base.removing,
            isr_storage=isr_storage(base, list(isr), list(isr.values()), brokers),
            unclean_epoch=base.unclean_epoch,
            deleted_below=base.deleted_below,
        )
        self._in_flight = Proposal(isr, state, base.version)
        self._weigh()
        return self._in_flight

    def accepted(self, proposal: Proposal) -> bool:
        """The store has made the change; returns whether the high watermark has grown."""
        if proposal.version < self._base.version:
            return False
        state = proposal.state
        self._take_isr(
            msgspec.structs.replace(
                self._base,
                isr=state.isr,
                isr_epochs=state.isr_epochs,
                isr_storage=state.isr_storage,
                partition_epoch=state.partition_epoch,
                version=proposal.version + 1,
            )
        )
        return self._advance()

    def refused(self, proposal: Proposal) -> bool:
        """A concurrent change won; returns whether the high watermark has grown."""
        if proposal is not self._in_flight:
            return False
        self._in_flight = None
        self._refused = True
        self._weigh()
        return self._advance()

    def unknown(self, proposal: Proposal) -> None:
        """The change may have been made or not."""
        if proposal is self._in_flight:
            self._in_flight = None
            self._undecided.append(proposal)

    @property
    def undecided(self) -> bool:
        """Whether a change is in flight or its outcome is not known."""
        return self._in_flight is not None or bool(self._undecided)

    # Answering ----------------------------------------------------------------------------

    @property
    def has_enough(self) -> bool:
        """Whether `min.insync.replicas` are in sync."""
        return len(self.isr) >= self._least()

    def check_enough(self) -> None:
        """Refuse an acks=all append that too few replicas would get."""
        if not self.has_enough:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr)} in-sync replica(s), {self._least()} required",
            )

    def acknowledgement(self, offset: int) -> ErrorCode | None:
        """The answer to an acks=all append whose records end at an offset; None: not yet."""
        if self.high_watermark < offset:
            return None
        if len(self.isr) < self._least():
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def check_latest(self) -> None:
        """Refuse "latest" while an earlier leader may have shown more."""
        if self.high_watermark < self.epoch_start:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)

    def low_watermark(self, log_start: int, live: Iterable[int]) -> int:
        """The lowest log start of all live replicas: what DeleteRecords waits for."""
        starts = [self._positions[one].log_start for one in live if one in self._positions]
        return min([log_start, *starts])

    def position(self, broker: int) -> FollowerPosition | None:
        """What is known of a follower."""
        return self._positions.get(broker)

    # ---------------------------------------------------------------------------------------

    def _unheard(self, broker: int, now: float) -> FollowerPosition:
        """A follower that has not asked in this term: a member of the ISR has time to."""
        if broker in self.isr:
            return FollowerPosition(self.isr[broker], now)
        return FollowerPosition(NO_EPOCH, now - self._lag - 1)

    def _take_isr(self, base: PartitionImage) -> None:
        """Take over what the store says; every change that expected an older version is decided."""
        self._base = base
        self.isr = {member: base.isr_epoch(member) for member in base.isr}
        self._in_flight = None
        self._undecided.clear()
        self._refused = False
        self._weigh()

    def _weigh(self) -> None:
        """The replicas whose log ends count for the high watermark."""
        maximal = dict(self.isr)
        changes = (
            self._undecided if self._in_flight is None else [*self._undecided, self._in_flight]
        )
        for change in changes:
            for member, epoch in change.isr.items():
                if maximal.setdefault(member, epoch) != epoch:
                    maximal[member] = NO_EPOCH  # two broker epochs of it: neither counts
        maximal.pop(self.me, None)
        self._maximal = maximal
        self._alone = not maximal and len(self.isr) >= self._least()

    def _least(self) -> int:
        return min(self.min_isr, len(self.replicas))

    def _advance(self) -> bool:
        if len(self.isr) < self._least():
            return False
        lowest = self.log_end
        positions = self._positions
        for member, epoch in self._maximal.items():
            position = positions.get(member)
            if position is None or position.broker_epoch != epoch or epoch == NO_EPOCH:
                return False
            if position.end < lowest:
                lowest = position.end
        if lowest <= self.high_watermark:
            return False
        self.high_watermark = lowest
        return True

    def _keeps_up(self, position: FollowerPosition, now: float) -> bool:
        return position.end == self.log_end or now - position.caught_up_at <= self._lag

    def _stays(self, member: int, epoch: int, now: float) -> bool:
        position = self._positions.get(member)
        if position is None:  # no longer a replica: the controller removes it
            return True
        return position.broker_epoch <= epoch and self._keeps_up(position, now)
