"""One seed, from its start to its end: a cluster, clients and faults, and what must be true.

Rules kept here:
1. The seed chooses the shape too: brokers, topics, clients, kinds of faults.
2. After the last fault everything must be available within `PATIENCE_SECONDS`: brokers serve, all
   replicas are in sync and equal, clients get through.
3. A run has a process of its own (`seeds.py`): nothing of it is left for the next.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.api import load_all
from ottla.config.topic_names import INTERNAL_TOPICS
from ottla.simulation import patches
from ottla.simulation.admin import Admin
from ottla.simulation.checker import Checker
from ottla.simulation.client import SimulatedClient, TopicPartition
from ottla.simulation.cluster import Cluster
from ottla.simulation.consumers import Reader
from ottla.simulation.loop import LoopStuck
from ottla.simulation.members import Member
from ottla.simulation.metadata import image_of
from ottla.simulation.nemesis import Nemesis
from ottla.simulation.process import SimulatedProcess
from ottla.simulation.producers import Producer
from ottla.simulation.transactors import Transactor
from ottla.simulation.world import World

READY_SECONDS: Final = 60.0
PATIENCE_SECONDS: Final = 120.0
GROUP: Final = "group"
TRANSACTIONS_END_SECONDS: Final = 30.0
"""What was left open is aborted by its timeout."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a seed came to."""

    seed: int
    violation: str | None
    digest: str
    seconds: float
    """Simulated ones."""
    turns: int
    counts: dict[str, int]
    faults: int = 0
    """How many faults there were to choose from."""


class Run:
    """One seed."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        show: Callable[[str], None] | None = None,
        without: Collection[int] = (),
    ) -> None:
        self.world = world = World(seed, folder, show)
        asyncio.set_event_loop(world.loop)
        patches.install(
            world.loop, world.network, world.zookeeper, world.chance("identifiers"), world.log
        )
        chance = self.chance = world.chance("shape")
        self.brokers = chance.choice((1, 2, 3, 3, 3, 4))
        self.factor = min(self.brokers, chance.choice((2, 3, 3)))
        self.min_isr = min(self.factor, chance.choice((1, 2, 2)))
        self.seconds = chance.choice((10, 20, 40, 90))
        self.cluster = Cluster(world, folder, self.brokers)
        self.checker = Checker(world)
        self.admin = Admin(self._client("admin"), self.checker)
        self.nemesis = Nemesis(world, self.cluster, self.admin, without)
        self.producers: list[Producer] = []
        self.readers: list[Reader] = []
        self.transactors: list[Transactor] = []
        self.has_group = False

    def _client(self, name: str) -> SimulatedClient:
        return SimulatedClient(self.world, self.cluster, self.world.chance(f"client {name}"))

    def run(self) -> Outcome:
        """Run it to its end."""
        world = self.world
        try:
            world.loop.run_until_complete(self._run())
        except LoopStuck as problem:
            world.fail(str(problem))
        except RuntimeError:
            if world.violation is None:  # else it was stopped for that
                raise
        return Outcome(
            world.seed,
            world.violation,
            world.digest,
            world.now,
            world.loop.turns,
            world.counts,
            self.nemesis.faults,
        )

    async def _run(self) -> None:
        self.world.say(
            f"{self.brokers} brokers, replication factor {self.factor}, "
            f"min.insync.replicas {self.min_isr}, {self.seconds} s"
        )
        self.world.zookeeper.start()
        self.cluster.start()
        await self._until(
            lambda: len(self.cluster.ready()) == self.brokers, READY_SECONDS, "brokers start"
        )
        await self.admin.process.start(self._create_topics())
        self._start_clients()
        hurting = asyncio.get_running_loop().create_task(self.nemesis.run())
        await asyncio.sleep(self.seconds)
        self.nemesis.end()
        await hurting
        await self._until(self._is_well, PATIENCE_SECONDS, "the cluster is well again")
        writers: list[Producer | Transactor] = [*self.producers, *self.transactors]
        for writer in writers:
            writer.ends = True
        await self._until(
            lambda: all(writer.done for writer in writers),
            PATIENCE_SECONDS,
            "producers end",
        )
        if self.transactors:
            await asyncio.sleep(TRANSACTIONS_END_SECONDS)
        await self._until(self._is_quiet, PATIENCE_SECONDS, "replicas and readers catch up")
        self._compare()

    async def _create_topics(self) -> None:
        for number in range(self.chance.choice((1, 1, 2))):
            configs = {
                "min.insync.replicas": str(self.min_isr),
                "internal.segment.bytes": self.chance.choice(("4096", "16384", "1048576")),
                "index.interval.bytes": self.chance.choice(("0", "200", "4096")),
            }
            partitions = self.chance.choice((1, 1, 2, 4))
            await self.admin.create(f"t{number}", partitions, self.factor, configs)

    def _start_clients(self) -> None:
        for name, partitions in self.admin.topics.items():
            for index in range(partitions):
                for _ in range(self.chance.choice((1, 1, 2))):
                    self._start_producer(name, index)
                self._start_reader(name, index)
        self._start_group()
        everywhere = [
            (name, index) for name, count in self.admin.topics.items() for index in range(count)
        ]
        for number in range(self.chance.choice((0, 0, 1, 2))):
            name = f"x{number}"
            transactor = Transactor(self._client(name), self.checker, name, everywhere)
            self.transactors.append(transactor)
            SimulatedProcess(name, f"host-{name}").start(transactor.run(), name)

    def _start_group(self) -> None:
        for number in range(self.chance.choice((0, 1, 2, 3))):
            name = f"g{number}"
            self.has_group = True
            topics = list(self.admin.topics)
            member = Member(self._client(name), self.checker, name, GROUP, topics)
            SimulatedProcess(name, f"host-{name}").start(member.run(), name)

    def _start_producer(self, topic: str, index: int) -> None:
        name = f"p{len(self.producers)}"
        producer = Producer(self._client(name), self.checker, name, topic, index)
        self.producers.append(producer)
        SimulatedProcess(name, f"host-{name}").start(producer.run(), name)

    def _start_reader(self, topic: str, index: int) -> None:
        name = f"r{len(self.readers)}"
        committed = self.chance.random() < 0.5
        reader = Reader(self._client(name), self.checker, name, topic, index, committed=committed)
        self.readers.append(reader)
        SimulatedProcess(name, f"host-{name}").start(reader.run(), name)

    async def _until(self, claim: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = self.world.loop.time() + seconds
        while not claim():
            if self.world.loop.time() > deadline:
                self.world.fail(f"not within {seconds:g} s: {what}; {self._trouble()}")
            await asyncio.sleep(0.1)

    # What is true at the end --------------------------------------------------------------

    def _trouble(self) -> str:
        """What is not as it should be."""
        down = [host.number for host in self.cluster.hosts.values() if not host.is_ready]
        image = image_of(self.world.zookeeper)
        partitions = {
            key: (state.leader, state.isr)
            for key, state in image.partitions.items()
            if state.leader < 0 or set(state.isr) != set(image.topics[key[0]].assignment[key[1]])
        }
        waiting = [producer.name for producer in self.producers if not producer.done]
        return f"brokers not ready: {down}; not in sync: {partitions}; producers: {waiting}"

    def _is_well(self) -> bool:
        """All brokers serve, and all replicas are in sync."""
        image = image_of(self.world.zookeeper)
        return (
            not self.admin.changing
            and len(self.cluster.ready()) == self.brokers
            and len(image.brokers) == self.brokers
            and all(
                state.leader >= 0
                and set(state.isr) == set(image.topics[name].assignment[index])
                and not state.adding
                and not state.removing
                for (name, index), state in image.partitions.items()
            )
        )

    def _is_quiet(self) -> bool:
        """Replicas have everything, and readers have read it."""
        if not self._is_well():
            return False
        image = image_of(self.world.zookeeper)
        for name, index in image.partitions:
            ends = set()
            for number in image.topics[name].assignment[index]:
                broker = self.cluster.hosts[number].broker
                assert broker is not None
                partition = broker.node.partitions.get(name, index)
                if partition is None:
                    return False
                ends |= {partition.log.end_offset, partition.high_watermark}
            if len(ends) > 1:
                return False
            if self.has_group and name not in INTERNAL_TOPICS:
                where = TopicPartition(name, image.topics[name].id, index)
                if max(self.checker.committed_offset(GROUP, where), 0) not in ends:
                    return False
            if any(
                reader.where is not None
                and (reader.where.topic, reader.where.partition) == (name, index)
                and reader.position not in ends
                for reader in self.readers
            ):
                return False
        return True

    def _compare(self) -> None:
        image = image_of(self.world.zookeeper)
        for name, index in sorted(image.partitions):
            if name in INTERNAL_TOPICS:
                continue
            topic = image.topics[name]
            where = TopicPartition(name, topic.id, index)
            folders = [
                self.cluster.hosts[number].disk.root / f"{name}-{index}"
                for number in topic.assignment[index]
            ]
            self.checker.compare_replicas(where, folders)
        self.checker.check_transactions()


def run_seed(
    seed: int, show: Callable[[str], None] | None = None, without: Collection[int] = ()
) -> Outcome:
    """Run a seed in this process, which is of no use for anything else then."""
    load_all()
    folder = Path(tempfile.mkdtemp(prefix="ottla-simulation-", dir=patches.memory_folder()))
    try:
        return Run(seed, folder, show, without).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
