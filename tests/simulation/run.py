"""One run: a cluster, clients and faults from one seed, and what must be true at the end."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from ottla.metadata.controller import has_controller
from ottla.metadata.documents import (
    CONTROLLER,
    PARTITIONS,
    ControllerInfo,
    PartitionState,
    decode,
    partition_key,
)
from ottla.metadata.image import Image, PartitionKey
from ottla.metadata.store import Op
from ottla.metadata.topics import NewTopic, create_topic

from .broker import Decision, SimulatedBroker
from .checker import Checker
from .clients import Producer, Reader
from .log import SimulatedLog
from .nemesis import Nemesis
from .store import SimulatedStore
from .world import Violation, World

FAULTS_END = 3500
PATIENCE = 8000
TOPIC = "t"


@dataclass
class Summary:
    """What a run has seen."""

    steps: int
    acknowledged: int
    acknowledged_once: int
    read: int
    terms: int
    ended_at: int


class Simulation:
    """A cluster with its clients and its nemesis."""

    def __init__(
        self,
        seed: int,
        *,
        trace: bool = False,
        broker_kind: type[SimulatedBroker] = SimulatedBroker,
    ) -> None:
        self.world = world = World(seed, trace)
        chance = world.chance
        self.lossy = chance.random() < 0.4
        self.unclean = not self.lossy and chance.random() < 0.1
        moves = not self.lossy and chance.random() < 0.4
        copies_stay = not self.lossy and not moves
        self.checker = Checker(world, unclean=self.unclean, copies_stay=copies_stay)
        self.store = SimulatedStore(world)
        self.store.on_commit = self._committed
        self.checker.members_of = self._members_of
        self.checker.logs_of = self._logs_of
        self.brokers: dict[int, SimulatedBroker] = {}
        count = chance.choice([2, 3, 3, 3, 4])
        self.min_isr = chance.choice([1, 2, 2])
        for number in range(1, count + 1):
            self.brokers[number] = broker_kind(
                world, number, self.store, self.brokers, self.checker, self.min_isr
            )
        self.factor = min(count, 3)
        self.partitions = chance.choice([1, 1, 2])
        self.nemesis = Nemesis(world, self.store, self.brokers, lossy=self.lossy, moves=moves)
        self.producers: list[Producer] = []
        world.say(
            f"{count} brokers, {self.partitions} partitions, min.insync.replicas {self.min_isr}, "
            f"lossy {self.lossy}, unclean {self.unclean}, moves {moves}"
        )

    def run(self) -> Summary:
        """Everything from the start to the end; raises Violation."""
        for broker in self.brokers.values():
            broker.start()
        while len(self.image().brokers) < len(self.brokers):
            self.world.run_until(self.world.now + 50)
        self._begin()
        self.world.run_until(FAULTS_END)
        self.nemesis.end()
        for producer in self.producers:
            producer.ends = True
        while not self._at_peace():
            if self.world.now > FAULTS_END + PATIENCE:
                self.checker.fail(f"no peace after the faults: {self._trouble()}")
            self.world.run_until(self.world.now + 200)
        self._compare_logs()
        checker = self.checker
        return Summary(
            self.world.steps,
            checker.acknowledged,
            checker.acknowledged_once,
            checker.read,
            len(checker.leaders),
            self.world.now,
        )

    def _begin(self) -> None:
        topic = NewTopic(TOPIC, self.partitions, self.factor)
        _, ops = create_topic(
            self.image(),
            topic,
            topic_id=UUID(int=1),
            start=0,
            default_partitions=1,
            default_replication_factor=1,
        )
        self.store.admin(ops)
        for index in range(self.partitions):
            key = (TOPIC, index)
            for acks in (-1, -1, 1):
                name = f"p{len(self.producers)}"
                self.producers.append(Producer(self.world, name, key, self.brokers, acks))
            Reader(self.world, f"r{index}", key, self.brokers).send()
        for producer in self.producers:
            producer.send()
        self.world.after(self.world.chance.randrange(300), self.nemesis.act)

    def image(self) -> Image:
        """What the store says now."""
        return Image.of(self.store.model.snapshot())

    def _committed(self, writer: str, ops: Sequence[Op]) -> None:
        if isinstance(ops, Decision) and ops.under >= 0:
            document = self.store.model.documents.get(CONTROLLER)
            current = None if document is None else decode(document.value, ControllerInfo).epoch
            self.checker.controls(ops.under, current)
        for op in ops:
            if op.key.startswith(PARTITIONS):
                key = (TOPIC, int(op.key.rpartition("/")[2]))
                self.checker.in_sync_have(key, list(self.checker.committed.get(key, {})))

    def _members_of(self, key: PartitionKey) -> list[tuple[int, SimulatedLog]]:
        """The logs of those in sync; of machines that died only if the ISR means the life now."""
        document = self.store.model.documents[partition_key(*key)]
        state = decode(document.value, PartitionState)
        return [
            (member, self.brokers[member].disk[key])
            for member, epoch in zip(state.isr, state.isr_epochs, strict=True)
            if key in self.brokers[member].disk
            and (not self.lossy or self.brokers[member].lives(epoch))
        ]

    def _logs_of(self, key: PartitionKey) -> list[SimulatedLog]:
        return [broker.disk[key] for broker in self.brokers.values() if key in broker.disk]

    def _at_peace(self) -> bool:
        return self._trouble() is None

    def _trouble(self) -> str | None:
        """What is not yet as it should be."""
        image = self.image()
        if not has_controller(image) or len(image.brokers) < len(self.brokers):
            return "brokers or the controller are missing"
        for key, partition in image.partitions.items():
            replicas = image.topics[TOPIC].assignment[key[1]]
            if partition.adding or partition.removing or set(partition.isr) != set(replicas):
                return f"{key}: {partition}, replicas {replicas}"
            leader = self.brokers.get(partition.leader)
            if leader is None or leader.replicas[key].leadership is None:
                return f"{key}: {partition.leader} does not lead"
            ends = {self.brokers[one].replicas[key].log.end for one in replicas}
            marks = {self.brokers[one].replicas[key].high_watermark for one in replicas}
            if len(ends | marks) > 1 and len(replicas) >= self.min_isr:
                return f"{key}: ends {ends}, high watermarks {marks}"
        waiting = [one.name for one in self.producers if not one.done]
        return f"producers {waiting} are not done" if waiting else None

    def _compare_logs(self) -> None:
        image = self.image()
        for key in image.partitions:
            logs = {
                one: self.brokers[one].replicas[key].log
                for one in image.topics[TOPIC].assignment[key[1]]
            }
            start = max(log.start for log in logs.values())
            contents = [log.read(start, log.end) for log in logs.values()]
            if any(one != contents[0] for one in contents):
                self.checker.fail(f"{key}: the logs differ at the end")
            for offset, entry in self.checker.committed.get(key, {}).items():
                if offset < start or self.unclean:
                    continue
                if contents[0][offset - start] != entry:
                    self.checker.fail(f"{key}: {entry} at {offset} is lost")


def simulate(
    seed: int, *, trace: bool = False, broker_kind: type[SimulatedBroker] = SimulatedBroker
) -> Summary:
    """Run one seed; raises Violation when something happens that must never happen."""
    return Simulation(seed, trace=trace, broker_kind=broker_kind).run()


def first_failure(
    seeds: Iterable[int], broker_kind: type[SimulatedBroker]
) -> tuple[int, str] | None:
    """The first of some seeds that fails, and how."""
    for seed in seeds:
        try:
            simulate(seed, broker_kind=broker_kind)
        except Violation as violation:
            return seed, str(violation)
    return None
