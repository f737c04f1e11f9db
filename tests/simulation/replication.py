"""The replicas of a simulated broker: leading and following, as the real broker does it.

What is decided here is only *when* something is asked, sent or noted: every decision is one of
`ottla.metadata` and `ottla.replication`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.metadata.controller import change_isr, topic_of
from ottla.metadata.documents import partition_key
from ottla.metadata.elections import NO_LEADER, leads
from ottla.metadata.image import NO_EPOCH, Image, PartitionImage, PartitionKey
from ottla.metadata.isr_proposal import Proposal
from ottla.replication.epochs import check_start, diverging
from ottla.replication.follower import FollowerAction, FollowerFetch, Following, LeaderAnswer, marks
from ottla.replication.replicas import Leadership
from ottla.wire.errors import ErrorCode, KafkaError

from .checker import Checker
from .log import Entry, SimulatedLog
from .session import StoreSession
from .store import SimulatedStore
from .world import Connection, World

LAG = 300
FETCH_WAIT = 80
FETCH_TIMEOUT = 200
FETCH_LIMIT = 3
BACK_OFF = 20


class Parked(NamedTuple):
    """A follower's fetch that waits for something to happen."""

    connection: Connection
    follower: "ReplicaHost"
    key: PartitionKey
    fetch: FollowerFetch
    number: int


class Waiting(NamedTuple):
    """An acks=all append that waits for the high watermark."""

    offset: int
    value: str
    answer: Any


class Replica:
    """A partition on this broker."""

    def __init__(self, key: PartitionKey, log: SimulatedLog) -> None:
        self.key = key
        self.log = log
        self.high_watermark = min(log.checkpointed_high_watermark, log.end)
        self.leadership: Leadership | None = None
        self.following: Following | None = None
        self.parked: list[Parked] = []
        self.waiting: list[Waiting] = []
        self.fetch_number = 0
        self.agreed_epoch = -1


class ReplicaHost(StoreSession):
    """A broker with the partitions on it. Its disk survives it."""

    # What a test of a broken rule replaces.
    leadership_kind: type[Leadership] = Leadership
    following_kind: type[Following] = Following

    def __init__(
        self,
        world: World,
        number: int,
        store: SimulatedStore,
        peers: "dict[int, Any]",
        checker: Checker,
        min_isr: int,
    ) -> None:
        self.peers = peers
        self.checker = checker
        self.min_isr = min_isr
        self.disk: dict[PartitionKey, SimulatedLog] = {}
        super().__init__(world, number, store)

    def forget(self) -> None:
        """Begin with what is on the disk."""
        super().forget()
        self.image = Image()
        self.replicas = {key: Replica(key, log) for key, log in self.disk.items()}
        self.connections: dict[int, Connection] = {}

    def take_roles(self) -> None:
        """Lead and follow what the image says, in the life we have now."""
        for key in list(self.image.partitions):
            self.take_role(key)

    def take_role(self, key: PartitionKey) -> None:
        """Lead, follow, or give up what the image says of a partition."""
        state = self.image.partitions.get(key)
        topic = None if state is None else topic_of(self.image, state)
        if state is None or topic is None:
            return
        assigned = topic.assignment[key[1]]
        replica = self.replicas.get(key)
        if self.number not in assigned:
            if replica is not None:
                self._retire(replica)
                del self.replicas[key]
                self.disk.pop(key, None)
            return
        if replica is None:
            log = self.disk.setdefault(key, SimulatedLog())
            replica = self.replicas[key] = Replica(key, log)
        if self.may_lead(state):
            self._lead(replica, state, assigned)
        elif state.leader not in (self.number, NO_LEADER):
            self._follow(replica, state)
        else:
            self._retire(replica)

    def may_lead(self, state: PartitionImage) -> bool:
        """Whether we lead, in this life of ours."""
        return leads(state, self.number, self.epoch)

    def _lead(self, replica: Replica, state: PartitionImage, assigned: Sequence[int]) -> None:
        term = replica.leadership
        if term is not None and term.leader_epoch == state.leader_epoch:
            advanced = term.learned(state)
            if list(term.replicas) != list(assigned):
                advanced |= term.assigned(assigned, self.now())
            self.moved_on(replica, advanced)
            return
        self._retire(replica)  # it stops fetching before it leads
        log = replica.log
        self.world.say(f"{self.name} leads {replica.key} in {state.leader_epoch} from {log.end}")
        log.epochs.assign(state.leader_epoch, log.end)
        self.checker.leads(replica.key, state.leader_epoch, self.number, self.epoch, log)
        replica.leadership = self.leadership_kind(
            self.number,
            state,
            assigned,
            log_end=log.end,
            high_watermark=replica.high_watermark,
            min_isr=self.min_isr,
            lag=LAG,
            now=self.now(),
        )
        self.moved_on(replica, advanced=True)

    def _follow(self, replica: Replica, state: PartitionImage) -> None:
        term = replica.following
        if term is not None and (term.leader, term.leader_epoch) == (
            state.leader,
            state.leader_epoch,
        ):
            return
        self._retire(replica)
        may_lose = state.unclean_epoch > max(replica.agreed_epoch, replica.log.epochs.latest)
        replica.following = self.following_kind(state.leader, state.leader_epoch, may_lose=may_lose)
        self._fetch(replica)

    def _retire(self, replica: Replica) -> None:
        """Neither lead nor follow; who waits learns it."""
        replica.leadership = replica.following = None
        replica.fetch_number += 1
        parked, replica.parked = replica.parked, []
        waiting, replica.waiting = replica.waiting, []
        for one in parked:
            self._reply(one, LeaderAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        for each in waiting:
            each.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    # The leader ----------------------------------------------------------------------------------

    def moved_on(self, replica: Replica, advanced: bool) -> None:
        """The high watermark may have grown: who waited for that continues."""
        term = replica.leadership
        if term is None:
            return
        if term.high_watermark > replica.high_watermark:
            old, replica.high_watermark = replica.high_watermark, term.high_watermark
            self.checker.high_watermark(
                replica.key, term.leader_epoch, replica.log, old, term.high_watermark
            )
            least = min(self.min_isr, len(term.replicas))
            self.checker.copies(replica.key, old, term.high_watermark, least)
        if advanced:
            self._acknowledge(replica, term)
            self.wake(replica)

    def _acknowledge(self, replica: Replica, term: Leadership) -> None:
        waiting, replica.waiting = replica.waiting, []
        for one in waiting:
            outcome = term.acknowledgement(one.offset + 1)
            if outcome is None:
                replica.waiting.append(one)
            else:
                self.answer_all(replica, one, outcome)

    def answer_all(self, replica: Replica, one: Waiting, outcome: ErrorCode) -> None:
        """Answer an acks=all append."""
        if outcome == ErrorCode.NONE:
            self.world.say(f"{self.name} acknowledges {one.value} at {one.offset}")
            self.checker.acknowledges(replica.key, one.offset, one.value)
        one.answer(outcome, one.offset)

    def wake(self, replica: Replica) -> None:
        """Answer the followers that wait for news."""
        parked, replica.parked = replica.parked, []
        for one in parked:
            self._serve(replica, one)

    def fetched(
        self,
        connection: Connection,
        follower: "ReplicaHost",
        key: PartitionKey,
        fetch: FollowerFetch,
        follower_epoch: int,
        number: int,
    ) -> None:
        """A follower asks."""
        asked = Parked(connection, follower, key, fetch, number)
        replica = self.replicas.get(key)
        term = None if replica is None else replica.leadership
        if replica is None or term is None:
            self._reply(asked, LeaderAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        log, now = replica.log, self.now()
        try:
            term.check_fetch(follower.number, follower_epoch, fetch.leader_epoch)
            check_start(
                log.epochs, log.start, fetch.offset, fetch.log_start, fetch.last_fetched_epoch
            )
            parting = diverging(log.epochs, log.end, fetch.last_fetched_epoch, fetch.offset)
            if parting is not None:
                self._reply(asked, LeaderAnswer(ErrorCode.NONE, diverging=parting))
                return
            advanced = term.fetched(
                follower.number, follower_epoch, fetch.offset, fetch.log_start, now
            )
        except KafkaError as problem:
            self._reply(asked, LeaderAnswer(problem.code, log_start=log.start))
            return
        self.moved_on(replica, advanced)
        if follower.number not in term.isr:
            self.propose(replica)
        if fetch.offset < log.end:
            self._serve(replica, asked)
        else:
            replica.parked.append(asked)
            self.timer(FETCH_WAIT, self._unpark, replica, asked)

    def _unpark(self, replica: Replica, asked: Parked) -> None:
        if asked in replica.parked:
            replica.parked.remove(asked)
            self._serve(replica, asked)

    def _serve(self, replica: Replica, asked: Parked) -> None:
        log, term = replica.log, replica.leadership
        assert term is not None
        if asked.fetch.offset < log.start:
            answer = LeaderAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, log_start=log.start)
            self._reply(asked, answer)
            return
        answer = LeaderAnswer(ErrorCode.NONE, term.high_watermark, log.start)
        entries = log.read(asked.fetch.offset, FETCH_LIMIT)
        self._reply(asked, answer, entries)

    def _reply(self, asked: Parked, answer: LeaderAnswer, entries: Sequence[Entry] = ()) -> None:
        call = asked.follower.fetch_answered
        asked.connection.send(asked.follower, call, asked, answer, list(entries))

    def propose(self, replica: Replica) -> None:
        """Change the ISR, if it is time to."""
        term = replica.leadership
        if term is None:
            return
        proposal = term.propose(self.image.brokers, self.now())
        if proposal is None:
            return

        def decided(outcome: Any) -> None:
            self._decided(replica, term, proposal, outcome)

        self.commit(change_isr(self.image, replica.key, proposal), decided)

    def _decided(
        self, replica: Replica, term: Leadership, proposal: Proposal, outcome: Any
    ) -> None:
        if outcome is True:
            advanced = term.accepted(proposal)
        elif outcome is False:
            advanced = term.refused(proposal)
        else:
            term.unknown(proposal)
            return
        if replica.leadership is term:
            self.moved_on(replica, advanced)

    # The follower --------------------------------------------------------------------------------

    def _fetch(self, replica: Replica) -> None:
        term = replica.following
        if term is None:
            return
        replica.fetch_number += 1
        number = replica.fetch_number
        if self.epoch == NO_EPOCH:
            self.timer(BACK_OFF, self._fetch_again, replica, number)
            return
        leader = self.peers[term.leader]
        connection = self.connections.get(term.leader)
        if connection is None:
            connection = self.connections[term.leader] = Connection(self.world, self, leader)
        log = replica.log
        fetch = term.fetch(log.end, log.epochs, log.start)
        args = (connection, self, replica.key, fetch, self.epoch, number)
        connection.send(leader, leader.fetched, *args)
        self.timer(FETCH_TIMEOUT, self._timed_out, replica, term.leader, connection, number)

    def _fetch_again(self, replica: Replica, number: int) -> None:
        if number == replica.fetch_number:
            self._fetch(replica)

    def _timed_out(
        self, replica: Replica, leader: int, connection: Connection, number: int
    ) -> None:
        if number == replica.fetch_number:
            if self.connections.get(leader) is connection:
                del self.connections[leader]
            self._fetch(replica)

    def fetch_answered(self, asked: Parked, answer: LeaderAnswer, entries: list[Entry]) -> None:
        """A leader has answered."""
        key = asked.key
        replica = self.replicas.get(key)
        if replica is None or asked.connection not in self.connections.values():
            return
        term, log = replica.following, replica.log
        if term is None:
            return
        step = term.answered(
            asked.fetch,
            answer,
            log.end,
            log.epochs,
            replica.high_watermark,
            was_deleted=self._was_deleted(key, log, answer),
        )
        if step.action is FollowerAction.DROP:
            return
        if step.action in (FollowerAction.BACK_OFF, FollowerAction.HALT, FollowerAction.SET_ASIDE):
            if step.action is not FollowerAction.BACK_OFF:
                self.world.say(f"{self.name} keeps {key}, which its leader lacks")
                if self._knows_the_latest(key):
                    self.checker.halts(key, self.number)
            self.timer(BACK_OFF, self._fetch_again, replica, asked.number)
            return
        if step.action is FollowerAction.TRUNCATE:
            self.world.say(f"{self.name} truncates {key} from {log.end} to {step.offset}")
            self.checker.truncates(key, self.number, step.offset, replica.high_watermark)
            log.truncate(step.offset)
            replica.high_watermark = min(replica.high_watermark, log.end)
        elif step.action is FollowerAction.RESTART:
            self.world.say(f"{self.name} begins {key} again at {step.offset}")
            log.restart(step.offset)
            replica.high_watermark = step.offset
        else:
            self._append(replica, answer, entries)
        self._fetch(replica)

    def _knows_the_latest(self, key: PartitionKey) -> bool:
        """Whether the image has what the store says of a partition: else it asks again later."""
        stored = self.store.model.documents.get(partition_key(*key))
        return stored is not None and stored.version == self.image.partitions[key].version

    def _was_deleted(self, key: PartitionKey, log: SimulatedLog, answer: LeaderAnswer) -> bool:
        """Whether DeleteRecords explains where the leader's log starts: there is no retention."""
        return answer.log_start <= max(self.image.partitions[key].deleted_below, log.start)

    def _append(self, replica: Replica, answer: LeaderAnswer, entries: list[Entry]) -> None:
        log = replica.log
        for entry in entries:
            log.append(entry)
        is_explained = self._was_deleted(replica.key, log, answer)
        at = marks(answer, replica.high_watermark, log.end, log.start, was_deleted=is_explained)
        old, replica.high_watermark = replica.high_watermark, at.high_watermark
        assert replica.following is not None
        epoch = replica.agreed_epoch = replica.following.leader_epoch
        log.delete_below(at.log_start)
        self.checker.high_watermark(replica.key, epoch, log, old, at.high_watermark)
