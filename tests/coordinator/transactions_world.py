"""A world in which transactions go wrong: crashes, lost answers, slow disks, deaf partitions.

Around one shard there are producers, some of them zombies, and partitions that take markers. What
the shard says is held until its log is committed, and lost in a crash before that. A crash keeps
all that was committed and any part of the rest.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla.coordinator.transactions_result import TxnMarkers
from ottla.coordinator.transactions_state import TopicPartition, Transaction
from ottla.coordinator.txn_records import read_record
from ottla.wire.errors import ErrorCode

from .transactions_driver import Driver, Producer


class Written(NamedTuple):
    """A marker in a partition."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    log_end: int
    """How far the coordinator's log was."""


class Given(NamedTuple):
    """What an InitProducerId without stated epoch was answered."""

    producer_id: int
    epoch: int


class World(Driver):
    """One shard and everything around it, moved by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.committed = 0
        self.held: deque[tuple[int, Callable[[], None]]] = deque()
        self.lost: list[TxnMarkers] = []
        """Markers that a coordinator before this one had asked for, still under way."""
        self.partitions: dict[TopicPartition, list[Written]] = {}
        self.given: list[Given] = []
        super().__init__()
        names = ("a", "b", "c")[: self.chance.randint(1, 3)]
        self.producers = [
            Client(self, name, version) for name in names for version in (1, 2, 2)
        ]

    def step(self) -> None:
        """Let one thing happen."""
        chance = self.chance
        match chance.randrange(14):
            case 0 | 1 | 2 | 3 | 4 | 5:
                chance.choice(self.producers).act(chance)
            case 6 | 7:
                self.commit(chance.randint(self.committed, len(self.log)))
            case 8 | 9 | 10 if self.markers:
                self.deliver(self.markers.pop(chance.randrange(len(self.markers))))
            case 11:
                self.advance_to(self.now + chance.choice([0, 1, 150, 3000, 20_000]))
            case 12 if chance.random() < 0.3:
                self.crash(chance.randint(self.committed, len(self.log)))
            case 13 if self.lost:
                lost = self.lost.pop(chance.randrange(len(self.lost)))
                for partition in lost.partitions:
                    self.write(lost, partition)
            case _:
                self.commit(len(self.log))

    def hold(self, then: Callable[[], None]) -> None:
        """Do something when all that was appended is committed."""
        self.held.append((len(self.log), then))

    def commit(self, log_end: int) -> None:
        """Let the high watermark rise."""
        self.committed = max(self.committed, log_end)
        while self.held and self.held[0][0] <= self.committed:
            self.held.popleft()[1]()

    def crash(self, keep: int) -> None:
        """Go on with another coordinator."""
        before = self.transactions() if keep == len(self.log) else None
        self.held.clear()
        self.lost += self.markers
        self.restart(keep)
        after = self.transactions()
        assert before is None or after == before

    def deliver(self, markers: TxnMarkers) -> None:
        """Bring markers to their partitions, not all of which answer as one would like."""
        outcomes: dict[TopicPartition, ErrorCode] = {}
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
        if self.chance.random() < 0.2:
            done = {partition: code for partition, code in outcomes.items() if not code}
            self.report(markers, done)

    def write(self, markers: TxnMarkers, partition: TopicPartition) -> ErrorCode:
        """Write a marker as a partition's leader does, which knows its producers' coordinator."""
        log = self.partitions.setdefault(partition, [])
        mine = [marker for marker in log if marker.producer_id == markers.producer_id]
        if mine and mine[-1].coordinator_epoch > markers.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        if mine and mine[-1].producer_epoch > markers.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        log.append(Written(*markers[2:4], markers.commit, markers.coordinator_epoch, len(self.log)))
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
        """What the log says, by transactional id, with the place of each record."""
        history: dict[str, list[tuple[int, Transaction]]] = {}
        for place, record in enumerate(self.log):
            said = read_record(record)
            assert said is not None
            assert said.transaction is not None
            history.setdefault(said.transactional_id, []).append((place, said.transaction))
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

    def _ask_for(self, markers: list[TxnMarkers]) -> None:
        if markers:
            self.hold(lambda: self.markers.extend(markers))


class Client:
    """A producer that waits for its answers, loses some, and may not know that it is fenced."""

    def __init__(self, world: World, transactional_id: str, version: int) -> None:
        self._world = world
        self._name = (transactional_id, version)
        self._known = (-1, -1)
        self._ended: tuple[bool, tuple[int, int]] | None = None
        """The last end that succeeded: what was wished, and by whom."""
        self.busy = False

    def act(self, chance: random.Random) -> None:
        """Ask for something, unless an answer is awaited; one that is lost is not for ever."""
        if self.busy and chance.random() < 0.9:
            return
        producer = Producer(self._world, *self._name)
        producer.producer_id, producer.epoch = self._known
        if producer.epoch < 0 or chance.random() < 0.1:
            self._init(producer, stated=producer.epoch >= 0 and chance.random() < 0.5)
        elif chance.random() < 0.5:
            producer.add(*chance.sample(range(4), chance.randint(1, 3)))
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

            def learn() -> None:
                self._known = answer

            self._answered_with(learn)

    def _answered_with(self, learn: Callable[[], None]) -> None:
        if self._world.chance.random() < 0.15:
            return
        self.busy = True

        def answered() -> None:
            self.busy = False
            learn()

        self._world.hold(answered)
