"""A world in which transactions go wrong: crashes, lost answers, slow disks, deaf partitions.

Around one shard there are producers, some of them zombies, and partitions that take markers. What
the shard says is held until its log is committed, and lost in a crash before that. A crash keeps
all that was committed and any part of the rest. The wall clock is set back and forward.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla.coordinator.batch_sizes import UNLIMITED
from ottla.coordinator.shard import CoordinatorRecord
from ottla.coordinator.transactions.effects import TxnMarkers
from ottla.coordinator.transactions.records import read_record, record_of
from ottla.coordinator.transactions.shard import TransactionShard
from ottla.coordinator.transactions.state import (
    LAST_CLIENT_EPOCH,
    Transaction,
    TransactionPartition,
)
from ottla.wire.errors import ErrorCode

from .driver import Driver, Producer

NOBODY = (-1, -1)


class Written(NamedTuple):
    """A marker in a partition."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    moment: int


class Given(NamedTuple):
    """What an InitProducerId without stated epoch was answered."""

    producer_id: int
    epoch: int


class Ended(NamedTuple):
    """What an EndTxn of version 2 was answered."""

    transactional_id: str
    asked: tuple[int, int]
    commit: bool
    answer: tuple[int, int]
    moment: int


class World(Driver):
    """One shard and everything around it, moved by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.moment = 0
        """Grows with each record and marker: what was first can be told from what was next."""
        self.was_limited = False
        self.appended_at: list[int] = []
        self.committed = 0
        self.held: deque[tuple[int, Callable[[], None]]] = deque()
        self.lost: list[TxnMarkers] = []
        """Markers that a coordinator before this one had asked for, still under way."""
        self.told: list[
            tuple[TransactionShard, TxnMarkers, dict[TransactionPartition, ErrorCode]]
        ] = []
        """What a shard was given, and may be given again."""
        self.partitions: dict[TransactionPartition, list[Written]] = {}
        self.given: list[Given] = []
        self.ended: list[Ended] = []
        super().__init__()
        names = ("a", "b", "c")[: self.chance.randint(1, 3)]
        self.producers = [
            Client(self, name, self.chance.choice([1, 2, 2])) for name in names for _ in range(2)
        ]
        for name in names:
            if self.chance.random() < 0.3:
                self._use_up_epochs(name)

    def step(self) -> None:
        """Let one thing happen."""
        chance = self.chance
        match chance.randrange(16):
            case 0 | 1 | 2 | 3 | 4 | 5 | 6:
                chance.choice(self.producers).act(chance)
            case 7:
                self.commit(chance.randint(self.committed, len(self.log)))
            case 8 | 9 | 10 if self.markers:
                self.deliver(self.markers.pop(chance.randrange(len(self.markers))))
            case 11:
                self.advance_to(self.now + chance.choice([0, 1, 150, 150, 3000, 11_000]))
            case 12 if chance.random() < 0.3:
                self.crash(chance.randint(self.committed, len(self.log)))
            case 13 if self.lost:
                lost = self.lost.pop(chance.randrange(len(self.lost)))
                for partition in lost.partitions:
                    self.write(lost, partition)
            case 15 if chance.random() < 0.5:
                self.set_clock(chance.choice([-3_600_000, -30_000, -1, 30_000, 3_600_000]))
            case 14 if self.told:
                shard, markers, done = chance.choice(self.told)
                if shard is self.shard:
                    self.report(markers, done)
            case _:
                self.commit(len(self.log))

    def take_batches_of(self, limit: int) -> None:
        """Let the log take larger batches, or smaller ones."""
        self.limit = limit
        self.was_limited |= limit != UNLIMITED

    def hold(self, then: Callable[[], None]) -> None:
        """Do something when all that was appended is committed."""
        self.held.append((len(self.log), then))

    def commit(self, log_end: int) -> None:
        """Let the high watermark rise."""
        self.committed = max(self.committed, log_end)
        while self.held and self.held[0][0] <= self.committed:
            self.held.popleft()[1]()

    def crash(self, keep: int) -> None:
        """Continue with another coordinator."""
        before = self.transactions() if keep == len(self.log) else None
        self.held.clear()
        self.lost += self.markers
        del self.appended_at[keep:]
        self.restart(keep)
        after = self.transactions()
        for name, state in (before or {}).items():
            # The end of a transaction without partitions may have waited for room.
            waited = self.was_limited and str(state[1]).startswith("Prepare")
            assert after[name] == state or (waited and str(after[name][1]).startswith("Complete"))

    def deliver(self, markers: TxnMarkers) -> None:
        """Bring markers to their partitions, not all of which answer as one would like."""
        outcomes: dict[TransactionPartition, ErrorCode] = {}
        for partition in markers.partitions:
            fate = self.chance.random()
            if fate < 0.2:
                outcomes[partition] = ErrorCode.NOT_LEADER_OR_FOLLOWER
                continue
            outcomes[partition] = self.write(markers, partition)
            if fate < 0.35:
                outcomes[partition] = ErrorCode.NETWORK_EXCEPTION
        if self.chance.random() < 0.5:
            self.report(markers, outcomes)
        else:
            for partition, code in outcomes.items():
                self.report(markers, {partition: code})
        done = {partition: code for partition, code in outcomes.items() if not code}
        self.told.append((self.shard, markers, done))

    def write(self, markers: TxnMarkers, partition: TransactionPartition) -> ErrorCode:
        """Write a marker as a partition's leader does, which knows its producers' coordinator."""
        log = self.partitions.setdefault(partition, [])
        mine = [marker for marker in log if marker.producer_id == markers.producer_id]
        if mine and mine[-1].coordinator_epoch > markers.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        if mine and mine[-1].producer_epoch > markers.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.moment += 1
        log.append(
            Written(
                markers.producer_id,
                markers.producer_epoch,
                markers.commit,
                markers.coordinator_epoch,
                self.moment,
            )
        )
        return ErrorCode.NONE

    def settle(self) -> None:
        """Let all that was begun come to its end: no more crashes, all partitions answer."""
        for producer in self.producers:
            producer.busy = False
        for _ in range(20):
            self.commit(len(self.log))
            for markers in self.markers[:]:
                self.markers.remove(markers)
                self.report(
                    markers,
                    {partition: self.write(markers, partition) for partition in markers.partitions},
                )
            self.advance_to(self.now + 10_000)

    def history(self) -> dict[str, list[tuple[int, Transaction]]]:
        """What the log says, by transactional id, with the moment of each record."""
        history: dict[str, list[tuple[int, Transaction]]] = {}
        for moment, record in zip(self.appended_at, self.log, strict=True):
            said = read_record(record)
            assert said is not None
            assert said.transaction is not None
            history.setdefault(said.transactional_id, []).append((moment, said.transaction))
        return history

    def transactions(self) -> dict[str, tuple[object, ...]]:
        """What the shard knows of each transactional id."""
        described = [self.describe(name).transaction_states[0] for name in ("a", "b", "c")]
        return {
            state.transactional_id: (
                state.error_code,
                state.transaction_state,
                state.producer_id,
                state.producer_epoch,
                state.transaction_timeout_ms,
                state.transaction_start_time_ms,
                # Which markers were written is not in the log.
                not state.transaction_state.startswith("Prepare") and state.topics,
            )
            for state in described
        }

    def _append(self, record: CoordinatorRecord) -> None:
        self.moment += 1
        self.appended_at.append(self.moment)
        super()._append(record)

    def _ask_for(self, markers: list[TxnMarkers]) -> None:
        if markers:
            self.hold(lambda: self.markers.extend(markers))

    def _use_up_epochs(self, transactional_id: str) -> None:
        self._append(
            record_of(
                Transaction(
                    transactional_id=transactional_id,
                    producer_id=self.new_producer_id(),
                    producer_epoch=LAST_CLIENT_EPOCH - self.chance.randint(0, 6),
                    timeout_ms=1,
                    last_update_ms=self.now,
                )
            )
        )


class Client:
    """A producer that waits for its answers, loses some, and may not know that it is fenced."""

    def __init__(self, world: World, transactional_id: str, version: int) -> None:
        self._world = world
        self._name = (transactional_id, version)
        self._known = NOBODY
        self.busy = False

    def act(self, chance: random.Random) -> None:
        """Ask for something, unless an answer is awaited; one that is lost is not for ever."""
        if self.busy and chance.random() < 0.9:
            return
        producer = Producer(self._world, *self._name)
        producer.producer_id, producer.epoch = self._known
        if producer.epoch < 0 or chance.random() < 0.03:
            self._init(producer, stated=producer.epoch >= 0 and chance.random() < 0.5)
        elif chance.random() < 0.5:
            code = producer.add(*chance.sample(range(4), chance.randint(1, 3)))
            if code is ErrorCode.PRODUCER_FENCED and chance.random() < 0.2:
                self._known = NOBODY
        elif chance.random() < 0.1 and self._name[1] == 1:
            producer.add_offsets()
        else:
            self._end(producer, commit=chance.random() < 0.6)

    def _init(self, producer: Producer, *, stated: bool) -> None:
        if producer.init(timeout_ms=10_000, stated=stated) is ErrorCode.NONE:
            given = Given(producer.producer_id, producer.epoch)

            def learn() -> None:
                self._known = given
                if not stated:
                    self._world.given.append(given)

            self._answered_with(learn)

    def _end(self, producer: Producer, *, commit: bool) -> None:
        asked = (producer.producer_id, producer.epoch)
        code = producer.end(commit=commit)
        answer = (producer.producer_id, producer.epoch)
        if code is ErrorCode.NONE:
            # Until the answer comes it is asked again, and gets the same answer.
            again = Producer(self._world, *self._name)
            again.producer_id, again.epoch = asked
            same = again.end(commit=commit)
            assert same in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS)
            assert same or (again.producer_id, again.epoch) == answer

            name, version = self._name
            ended = Ended(name, asked, commit, answer, self._world.moment)

            def learn() -> None:
                self._known = answer
                if version == 2:
                    self._world.ended.append(ended)

            self._answered_with(learn)

    def _answered_with(self, learn: Callable[[], None]) -> None:
        if self._world.chance.random() < 0.15:
            return
        self.busy = True

        def answered() -> None:
            self.busy = False
            learn()

        self._world.hold(answered)
