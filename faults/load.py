"""All clients of a run: who writes, copies and reads while the cluster is hurt.

| topic     | written by                         | read by                                         |
|-----------|------------------------------------|-------------------------------------------------|
| events    | idempotent producers               | two groups, one of each protocol                |
| source    | an idempotent producer             | copiers, whose transactions write `copy`        |
| copy      | the copiers                        | nobody before the end                           |
| transfers | transactional producers            | the two groups                                  |
| probe     | the writers that measure the gaps  | nobody before the end                           |
| moved     | an idempotent producer             | nobody; its two replicas are moved              |
| trimmed   | an idempotent producer             | nobody; its records are deleted                 |
| recreated | at each creation                   | before each deletion                            |
| idle      | nobody                             | nobody; its replicas must get in sync, too      |
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from faults import verdict
from faults.availability import Probe
from faults.groups import Group, Member
from faults.recreated import NAME as RECREATED
from faults.recreated import Recreated
from faults.transactors import Transactor
from faults.verdict import Found, Reader
from faults.world import BROKERS, World
from faults.writers import Writer
from testkit.copier_program import CopyTask
from testkit.exactly_once import Copier

PARTITIONS = {
    "events": 6,
    "source": 3,
    "copy": 3,
    "transfers": 4,
    "probe": 3,
    "idle": 3,
    "moved": 3,
    "trimmed": 3,
}
TWO_REPLICAS = ("moved",)
INTERNAL = ("__consumer_offsets", "__transaction_state")
READ_BY_GROUPS = ["events", "transfers"]
COPIERS = 2
KEYS = 40
PER_SECOND = {"events": 200, "source": 40, "moved": 60, "trimmed": 60}
PROTOCOLS = ("classic", "consumer")
CATCH_UP_SECONDS = 240.0
COPIER_SESSION_MS = 6_000


class Load:
    """The clients."""

    def __init__(self, world: World, seed: int) -> None:
        for topic, partitions in PARTITIONS.items():
            world.brokers.create(topic, partitions, 2 if topic in TWO_REPLICAS else 3)
        bootstrap = world.bootstrap
        self._world = world
        self.writers = {
            "events": [
                Writer(bootstrap, "events", f"writer-{number}", KEYS, PER_SECOND["events"])
                for number in range(2)
            ],
        }
        for topic in ("source", "moved", "trimmed"):
            self.writers[topic] = [Writer(bootstrap, topic, topic, KEYS, PER_SECOND[topic])]
        self.recreated = Recreated(world, seed)
        self.transactors = [
            Transactor(
                bootstrap,
                "transfers",
                PARTITIONS["transfers"],
                f"transactor-{number}",
                seed,
            )
            for number in range(2)
        ]
        self.groups = [Group(f"readers-{protocol}") for protocol in PROTOCOLS]
        self.members = [
            Member(bootstrap, group, protocol, READ_BY_GROUPS, f"{group.name}-{number}")
            for group, protocol in zip(self.groups, PROTOCOLS, strict=True)
            for number in range(2)
        ]
        self.probes = [Probe(bootstrap, "probe", index) for index in range(PARTITIONS["probe"])]
        self.copiers: list[Copier] = []
        self._watching = threading.Thread(target=self._keep_alive, name="copiers", daemon=True)
        self._end = threading.Event()

    @property
    def topics(self) -> list[str]:
        """All that must be in sync, once clients have made the internal ones."""
        recreated = [RECREATED] if self.recreated.lives else []
        return [*PARTITIONS, *INTERNAL, *recreated]

    def start(self) -> None:
        """Let all of them begin."""
        clients: list[Writer | Transactor | Member | Probe] = [*self._all_writers()]
        clients += [*self.transactors, *self.members, *self.probes]
        for client in clients:
            client.start()
        for number in range(COPIERS):
            task = CopyTask(
                "confluent-kafka",
                self._world.bootstrap,
                "copiers",
                "source",
                "copy",
                f"copier-{number}",
                COPIER_SESSION_MS,
            )
            self.copiers.append(Copier(task))
        self._watching.start()

    def _all_writers(self) -> list[Writer]:
        return [writer for writers in self.writers.values() for writer in writers]

    def _keep_alive(self) -> None:
        while not self._end.wait(0.2):
            for copier in self.copiers:
                copier.keep_alive()

    def close(self) -> None:
        """End what runs outside of this process."""
        self._end.set()
        if self._watching.is_alive():
            self._watching.join()
        for copier in self.copiers:
            copier.end()

    def progress(self) -> str:
        """One line on how far the clients have come."""
        acknowledged = sum(writer.acknowledged for writer in self._all_writers())
        committed = sum(transactor.committed for transactor in self.transactors)
        given = sum(group.count for group in self.groups)
        restarts = sum(copier.restarts for copier in self.copiers)
        return (
            f"{acknowledged:,} acknowledged, {committed:,} transactions, "
            f"{given:,} given to groups, {restarts} restarts of copiers"
        )

    def errors(self) -> Counter[str]:
        """What clients were told, and continued after."""
        return sum(
            (
                *(transactor.errors for transactor in self.transactors),
                *(group.errors for group in self.groups),
            ),
            Counter(),
        )

    # The end ------------------------------------------------------------------------------

    def findings(self) -> Iterator[str]:
        """End the writing, let the reading catch up, and say what is not as it must be."""
        for probe in self.probes:
            probe.stop()
        for writer in self._all_writers():
            writer.finish()
            yield from writer.findings
        for transactor in self.transactors:
            transactor.finish()
            if transactor.failed:
                yield transactor.failed
        committed = Reader(self._world.bootstrap, committed=True)
        uncommitted = Reader(self._world.bootstrap, committed=False)
        try:
            yield from self._of_records(committed, uncommitted)
        except verdict.ReadError as problem:
            yield str(problem)
        finally:
            committed.close()
            uncommitted.close()
        for member in self.members:
            member.finish()
            if member.failed:
                yield member.failed
        for group in self.groups:
            yield from group.findings
        self.close()

    def _of_records(self, committed: Reader, uncommitted: Reader) -> Iterator[str]:
        transactional = [
            (topic, index) for topic in ("transfers", "copy") for index in range(PARTITIONS[topic])
        ]
        yield from verdict.check_stable(committed, uncommitted, transactional)
        events = self._read(uncommitted, "events")
        yield from verdict.check_keys("events", events, self._written("events"))
        moved = self._read(uncommitted, "moved")
        yield from verdict.check_keys("moved", moved, self._written("moved"))
        trimmed = self._read(uncommitted, "trimmed")
        yield from verdict.check_keys("trimmed", trimmed, self._written("trimmed"), whole=False)
        yield from self.recreated.findings
        yield from self.recreated.problems()
        found = self._read(committed, "transfers")
        yield from verdict.check_transactions(found.values(), self.transactors)
        for index, probe in enumerate(self.probes):
            records = uncommitted.read("probe", index)
            yield from verdict.check_probe(index, records, probe.acknowledged)
        visible = {
            (topic, index): [offset for offset, _ in records]
            for topic, partitions in (("events", events), ("transfers", found))
            for index, records in partitions.items()
        }
        for group in self.groups:
            yield from verdict.check_group(group, visible, CATCH_UP_SECONDS)
        yield from self._of_the_copy(committed, uncommitted)

    def _of_the_copy(self, committed: Reader, uncommitted: Reader) -> Iterator[str]:
        written = self._written("source")
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while True:
            copy = self._read(committed, "copy")
            if sum(map(len, copy.values())) >= written.total() or time.monotonic() > deadline:
                break
            time.sleep(1.0)
        self.close()
        yield from verdict.check_keys("source", self._read(uncommitted, "source"), written)
        yield from verdict.check_keys("copy", copy, written)

    def _written(self, topic: str) -> Counter[str]:
        return sum((writer.written for writer in self.writers[topic]), Counter())

    @staticmethod
    def _read(reader: Reader, topic: str) -> dict[int, Found]:
        return {index: reader.read(topic, index) for index in range(PARTITIONS[topic])}


def tracebacks(world: World) -> Iterator[str]:
    """Exceptions that escaped into the log of a broker."""
    for number in range(BROKERS):
        for trace in world.broker(number).tracebacks():
            yield f"broker {number} logged a traceback: {trace}"


def log_file(folder: Path) -> Path:
    """Where a run's faults are written down."""
    return folder / "faults.log"
