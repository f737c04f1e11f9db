"""Exactly once, under kill -9 of the application and of the broker, round after round.

Copiers (`copier_program`) move numbered records from one topic to another by transactions. A
read_committed reader watches the copy all the while, and what it has seen decides, with a seed,
when the next kill comes. What must hold at the end, for every partition: the copy is the source,
each record once and in order.
"""

import random
import subprocess
import sys
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

import msgspec
from confluent_kafka import Consumer, TopicPartition

from testkit.clients.base import Message
from testkit.clients.confluent import Confluent
from testkit.copier_program import CopyTask
from testkit.process import BrokerProcess
from testkit.waiting import stretched

ROOT = Path(__file__).parent.parent
# There is little to load: the broker is up and down all the time. A delay there must be: without
# one, kafka-python divides partitions before it knows of them, and leaves it at that.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "300",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
}
PARTITIONS = 4
LEAST_IN_A_ROUND = 60
MOST_IN_A_ROUND = 400
POLL_SECONDS = 0.1
ROUND_SECONDS = 90.0
SESSION_MS = 6_000
LAST = -1
"""The number of the record that ends every partition of the copy."""


class NotOnceError(Exception):
    """A record was lost, doubled or moved, or the application did not get on."""


class Copier:
    """An application that is started again whenever it ends."""

    def __init__(self, task: CopyTask) -> None:
        self._command = [
            *(sys.executable, "-m", "testkit.copier_program"),
            msgspec.json.encode(task).decode(),
        ]
        self.restarts = 0
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
        )

    def keep_alive(self) -> None:
        """Start it again if it has ended by itself."""
        if self._process.poll() is not None:
            self._close()
            self.restarts += 1
            self._process = self._start()

    def kill(self) -> None:
        """kill -9, and a successor at once."""
        self._process.kill()
        self._process.wait()
        self._close()
        self._process = self._start()

    def stop(self) -> bool:
        """Let it end; True if it ended well."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            return self._process.wait(ROUND_SECONDS) == 0
        except subprocess.TimeoutExpired:
            return False

    def end(self) -> None:
        """End it in any case."""
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()


class Watcher:
    """The read_committed reader of the copy: it fails at the first record that is out of place."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "group.id": "watcher",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        self.seen = [0] * PARTITIONS
        self.ended: set[int] = set()

    @property
    def total(self) -> int:
        """How many records have been seen."""
        return sum(self.seen)

    def look(self) -> None:
        """Take in what has come."""
        for message in self._consumer.consume(1000, POLL_SECONDS):
            partition, value = message.partition(), message.value()
            if message.error() is not None or partition is None or not isinstance(value, bytes):
                continue  # the broker is down
            number = int(value)
            if number == LAST:
                self.ended.add(partition)
            elif number != self.seen[partition]:
                raise NotOnceError(
                    f"partition {partition}: record {number} where {self.seen[partition]} should be"
                )
            else:
                self.seen[partition] += 1

    def close(self) -> None:
        """End the reader."""
        self._consumer.close()


class Copying:
    """A source, a copy of it in the making, and who makes and watches it."""

    def __init__(self, broker: BrokerProcess, clients: list[str]) -> None:
        self._broker = broker
        self._user = Confluent(broker.bootstrap)
        for topic in ("source", "copy"):
            self._user.create_topic(topic, PARTITIONS)
        self._written = 0
        self.watcher = Watcher(broker.bootstrap, "copy")
        self.copiers = [
            Copier(
                CopyTask(
                    client,
                    broker.bootstrap,
                    "copiers",
                    "source",
                    "copy",
                    f"copier-{number}",
                    SESSION_MS,
                )
            )
            for number, client in enumerate(clients)
        ]

    def write(self, count: int) -> None:
        """More records for the source: so many in each partition."""
        numbers = range(self._written, self._written + count)
        self._user.produce(
            "source",
            [
                Message(b"%d" % number, partition=partition)
                for number in numbers
                for partition in range(PARTITIONS)
            ],
        )
        self._written += count

    def run_until(self, total: int) -> None:
        """Watch until so many records have been copied."""
        deadline = monotonic() + stretched(ROUND_SECONDS)
        while self.watcher.total < total:
            for copier in self.copiers:
                copier.keep_alive()
            self.watcher.look()
            if monotonic() > deadline:
                raise NotOnceError(f"{self.watcher.total} of {total} records copied in time")

    def finish(self) -> None:
        """See that the copy is whole, and that nothing comes after it."""
        self.run_until(self._written * PARTITIONS)
        ended_well = [copier.stop() for copier in self.copiers]
        if not all(ended_well):
            raise NotOnceError("a copier did not end well")
        places = range(PARTITIONS)
        self._user.produce("copy", [Message(b"%d" % LAST, partition=place) for place in places])
        deadline = monotonic() + stretched(ROUND_SECONDS)
        while len(self.watcher.ended) < PARTITIONS:
            self.watcher.look()
            if monotonic() > deadline:
                raise NotOnceError(f"the end was seen only in {self.watcher.ended}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for copier in self.copiers:
            copier.end()
        self.watcher.close()


def run(broker: BrokerProcess, clients: list[str], rounds: int, seed: int) -> str:
    """Kill broker and application in turn, so many times in all; what was seen."""
    chance = random.Random(seed)
    with Copying(broker, clients) as copying:
        for number in range(rounds):
            count = chance.randint(LEAST_IN_A_ROUND, MOST_IN_A_ROUND)
            copying.write(count // PARTITIONS + 1)
            copying.run_until(copying.watcher.total + chance.randint(1, count))
            if number % 2:
                broker.kill()
                broker.start()
            else:
                chance.choice(copying.copiers).kill()
        copying.write(LEAST_IN_A_ROUND)
        copying.finish()
        restarts = sum(copier.restarts for copier in copying.copiers)
        total = copying.watcher.total
    if problems := broker.tracebacks():
        raise NotOnceError(f"a traceback in the broker's log:\n{problems[0]}")
    return f"{total:,} records, each once and in order; {restarts} copiers gave up in between"
