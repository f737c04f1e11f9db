"""A simulated broker: its life, its part as controller, and what clients ask of it."""

from typing import Any

import msgspec

from ottla.metadata import documents
from ottla.metadata.claims import claim_all
from ottla.metadata.controller import (
    Controller,
    has_controller,
    is_controller,
    remaining,
    take_role,
)
from ottla.metadata.deleted_records import record_deletions
from ottla.metadata.documents import broker_key, encode
from ottla.metadata.image import PartitionKey
from ottla.metadata.store import Change, Op, Update
from ottla.replication.replicas import Leadership
from ottla.wire.errors import ErrorCode, KafkaError

from .replication import Replica, ReplicaHost, Waiting

TICK = 100


class Decision(list[Op]):
    """What a controller commits, and the controller epoch that it was decided under."""

    under = -1


class SimulatedBroker(ReplicaHost):
    """One broker of the cluster."""

    # What a test of a broken rule replaces.
    controller_kind: type[Controller] = Controller

    hesitates = 3
    """How long it takes at most from a decision of the controller to its commit."""

    disks = 0
    """How many disks it has had, but the first."""

    def forget(self) -> None:
        """Begin with what is on the disk."""
        super().forget()
        self.stopping = False
        self.controller = self.controller_kind()
        self.controlling = False
        self.claiming = False
        self.busy = False

    # Life ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """The process begins."""
        self.running = True
        self.forget()
        self.world.say(f"{self.name} starts")
        self.open_session()
        self.timer(self.world.chance.randrange(TICK), self._tick)

    def crash(self, lose: bool) -> None:
        """kill -9, or the machine dies with what was not flushed."""
        self.world.say(f"{self.name} dies{' with its machine' if lose else ''}")
        if lose:
            self.storage = msgspec.structs.replace(self.storage, epoch=self.storage.epoch + 1)
        for replica in self.replicas.values():
            if lose:
                log = replica.log
                lowest = max(log.flushed, log.start)
                log.truncate(self.world.chance.randint(min(lowest, log.end), log.end))
            replica.log.checkpointed_high_watermark = min(
                replica.log.checkpointed_high_watermark, replica.log.end
            )
        self.kill()

    def lose_disk(self) -> None:
        """kill -9, and it will come back with an empty disk."""
        self.world.say(f"{self.name} dies and gets a new disk")
        self.disks += 1
        self.storage = documents.Storage(f"disk {self.disks} of {self.number}")
        self.disk.clear()
        self.kill()

    def stop(self) -> None:
        """Ask for a controlled shutdown; `stopped` when nothing keeps us."""
        if self.ready and not self.stopping:
            self.stopping = True
            value = encode(documents.BrokerRegistration(self.number, [], None, True, self.storage))
            self.commit([Update(broker_key(self.number), value, 0)], lambda done: None)
            self.timer(50, self._try_to_stop, 0)

    def _try_to_stop(self, times: int) -> None:
        if times < 10 and remaining(self.image, self.number, self.epoch):
            self.timer(50, self._try_to_stop, times + 1)
            return
        self.world.say(f"{self.name} has stopped")
        for replica in self.replicas.values():
            replica.log.flushed = replica.log.end
            replica.log.checkpointed_high_watermark = replica.high_watermark
        self.store.end_sessions_of(self.name)
        self.kill()
        self.world.after(self.world.chance.randrange(1, 300), self._start_again, self.life)

    def _start_again(self, life: int) -> None:
        if not self.running and self.life == life:
            self.start()

    def _tick(self) -> None:
        self.timer(TICK, self._tick)
        for replica in self.replicas.values():
            if replica.leadership is not None:
                replica.leadership.passes(self.now())
            self.propose(replica)
            log = replica.log
            if self.world.chance.random() < 0.5:
                log.checkpointed_high_watermark = min(replica.high_watermark, log.end)
            if self.world.chance.random() < 0.3:
                log.flushed = log.end
        self._control()

    def session_changed(self) -> None:
        """We are registered, with a new epoch, or no longer are."""
        self.take_roles()
        self._control()
        self._claim()

    def take(self, changes: list[Change]) -> None:
        """Take in what has changed in the store, and do what follows from it."""
        for change in changes:
            if change.value is None:
                self.known.pop(change.key, None)
            else:
                self.known[change.key] = (change.version, change.epoch)
        delta = self.image.apply(changes)
        controls = is_controller(self.image, self.number, self.epoch)
        if controls and not self.controlling:
            self.world.say(f"{self.name} is the controller")
            self.controller.began(self.image)
        self.controlling = controls
        if controls:
            self.controller.learned(self.image, delta)
        touched = {(one.topic, one.index): None for one in delta.changed_partitions}
        for topic in (*delta.created_topics, *delta.changed_topics):
            for index in range(len(topic.assignment)):
                touched[topic.name, index] = None
        for key in touched:
            self.take_role(key)
        if delta.brokers_up or delta.brokers_down:
            for replica in self.replicas.values():
                self.propose(replica)
        self._control()
        self._claim()

    # Claims --------------------------------------------------------------------------------------

    def decide_claims(self) -> list[Op]:
        """What is to be committed to lead what nobody else can."""
        unclean = self.checker.unclean
        return claim_all(self.image, self.replicas, self.number, lambda topic: unclean)[1]

    def _claim(self) -> None:
        if self.claiming or not self.ready:
            return
        ops = self.decide_claims()
        if not ops:
            return
        self.claiming = True

        def send() -> None:
            if self.ready:
                self.commit(ops, done)
            else:
                self.claiming = False

        def done(outcome: Any) -> None:
            self.claiming = False
            self.timer(10, self._claim)

        self.timer(self.world.chance.randrange(3), send)

    # The controller ------------------------------------------------------------------------------

    def _control(self) -> None:
        if self.busy or not self.ready:
            return
        if is_controller(self.image, self.number, self.epoch):
            assert self.image.controller is not None
            under = self.image.controller.epoch
            ops = self.controller.next_commit(self.image)
            if ops is None:
                return
        else:
            under = -1
            ops = take_role(self.image, self.number, self.epoch)
            if not ops or has_controller(self.image):
                return
        self.busy = True
        # Between a decision and its commit anything may happen, a pause for instance.
        decision = Decision(ops)
        decision.under = under
        self.timer(self.world.chance.randrange(self.hesitates), self._commit_decision, decision)

    def _commit_decision(self, decision: Decision) -> None:
        if not self.ready:
            # Decided before the session ended, sent in the next one: as late as can be.
            self.timer(20, self._commit_decision, decision)
            return

        def done(outcome: Any) -> None:
            if outcome == "unknown" and self.world.chance.random() < 0.5:
                self.timer(20, self._commit_decision, decision)
                return
            self.busy = False
            if outcome is True:
                self._control()
            else:
                self.timer(10, self._control)

        self.commit(decision, done)

    # Clients -------------------------------------------------------------------------------------

    def produce(self, key: PartitionKey, value: str, acks: int, answer: Any) -> None:
        """Append a value once; `answer` gets an error and the offset."""
        replica = self.replicas.get(key)
        term = None if replica is None else replica.leadership
        if replica is None or term is None:
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            return
        if acks == 1 and not self.lease.held(self.now()):
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            return
        try:
            if acks != 1:
                term.check_enough()
        except KafkaError as problem:
            answer(problem.code, -1)
            return
        log = replica.log
        offset = log.offsets.get(value)
        duplicate = offset is not None
        if offset is None:
            offset = log.end
            log.append((term.leader_epoch, value))
            self.moved_on(replica, term.appended(log.end))
            self.wake(replica)
        if acks == 1:
            self.checker.acknowledges_once(key, self.number, self.store.may_lead(self.session))
            answer(ErrorCode.NONE, offset)
            return
        self._produced(replica, term, Waiting(offset, value, answer), duplicate)

    def _produced(
        self, replica: Replica, term: Leadership, appended: Waiting, duplicate: bool
    ) -> None:
        outcome = term.acknowledgement(appended.offset + 1)
        if outcome is None:
            replica.waiting.append(appended)
        else:
            self.answer_all(replica, appended, outcome)

    def read(self, key: PartitionKey, offset: int, answer: Any) -> None:
        """Read what is committed; a follower serves too."""
        replica = self.replicas.get(key)
        if replica is None or (replica.leadership is None and replica.following is None):
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, offset)
            return
        log = replica.log
        if offset < log.start:
            answer(ErrorCode.OFFSET_OUT_OF_RANGE, log.start)
            return
        for at in range(offset, min(replica.high_watermark, offset + 5)):
            entry = log.at(at)
            assert entry is not None
            self.checker.reads(key, at, entry)
            offset = at + 1
        answer(ErrorCode.NONE, offset)

    def latest(self, key: PartitionKey) -> None:
        """Where the log ends, for someone who asks."""
        replica = self.replicas.get(key)
        term = None if replica is None else replica.leadership
        if term is None:
            return
        try:
            term.check_latest()
        except KafkaError:
            return
        self.checker.shows_latest(key, term.leader_epoch, term.high_watermark)

    def delete_records(self, key: PartitionKey, below: int) -> None:
        """DeleteRecords on the leader."""
        replica = self.replicas.get(key)
        term = None if replica is None else replica.leadership
        if replica is None or term is None:
            return
        offset = min(below, replica.high_watermark)

        def recorded(outcome: Any) -> None:
            if outcome is True and replica.leadership is term:
                replica.log.delete_below(offset)

        ops = record_deletions(self.image, {key: offset}, self.number, self.epoch)
        if ops:
            self.commit(ops, recorded)
