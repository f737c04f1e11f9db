"""Spark's sink under kill -9 of a Python worker, of the driver and of the broker, in any order.

A Spark driver (`spark_driver`) copies a topic to another one, in small batches without a pause. A
read_committed reader watches the copy. Round by round something is killed: Python processes of
Spark (tasks, the planner, the one that commits), the whole driver, or the broker; always while a
batch is under way, at a moment of it drawn from a seed. What was killed is started again, and the
next round begins when that batch is finished. What must hold at the end: the copy has every record
of the source, once, and no transaction is left open.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, TopicPartition

from compat.clients.base import Message
from compat.clients.confluent import Confluent
from compat.process import BrokerProcess
from compat.spark_driver import Driver, kill
from compat.spark_faults_program import StreamTask
from ottla.client import Client
from ottla.client import TopicPartition as ClientPartition
from ottla.client.txn_admin import TxnAdmin

SETTINGS = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}
PARTITIONS = 4
ROWS_IN_A_BATCH = 400
AHEAD = 4_000
"""So many records the source is ahead of its copy, so that there is always a batch under way."""
LATEST_KILL_SECONDS = 0.6
"""A batch takes about half a second."""
POLL_SECONDS = 0.1
LOOK_SECONDS = 0.005
ROUND_SECONDS = 600.0
ONLY_ONE = 0.5
"""How often just one Python process that works is killed, and not all that there are."""
KINDS = ("worker", "driver", "broker")


class NotOnceError(Exception):
    """A record was lost or doubled, or the query did not get on."""


class Watcher:
    """The read_committed reader of the copy: it fails at the first record that comes twice."""

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
        self.seen: set[int] = set()

    def look(self) -> None:
        """Take in what has come."""
        for message in self._consumer.consume(1000, POLL_SECONDS):
            value = message.value()
            if message.error() is not None or not isinstance(value, bytes):
                continue  # the broker is down
            number = int(value)
            if number in self.seen:
                raise NotOnceError(
                    f"record {number} came twice: again in partition {message.partition()} "
                    f"at offset {message.offset()}"
                )
            self.seen.add(number)

    def close(self) -> None:
        """End the reader."""
        self._consumer.close()


class Copying:
    """A source, a copy of it in the making, and who makes and watches it."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self._broker = broker
        self._user = Confluent(broker.bootstrap)
        for topic in ("source", "copy"):
            self._user.create_topic(topic, PARTITIONS)
        self._written = 0
        self.watcher = Watcher(broker.bootstrap, "copy")
        self.write_ahead()
        task = StreamTask(
            broker.bootstrap, "source", "copy", str(folder / "checkpoint"), ROWS_IN_A_BATCH
        )
        self.driver = Driver(task, folder / "driver.log")

    def write_ahead(self) -> None:
        """More records for the source, until it is far enough ahead of what was copied."""
        copied = len(self.watcher.seen)
        numbers = range(self._written, max(self._written, copied + AHEAD))
        self._user.produce(
            "source", [Message(b"%d" % number, partition=number % PARTITIONS) for number in numbers]
        )
        self._written += len(numbers)

    def watch_until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Watch the copy until something is so."""
        deadline = time.monotonic() + ROUND_SECONDS
        while not is_so():
            self.driver.keep_alive()
            self.watcher.look()
            if time.monotonic() > deadline:
                raise NotOnceError(
                    f"not in {ROUND_SECONDS:.0f} s: {what}. {len(self.watcher.seen)} of "
                    f"{self._written} records are copied; the driver said: "
                    f"{self.driver.last_words()}"
                )

    def watch_until_finished(self, batch: int) -> None:
        """Watch until Spark has finished a batch."""
        self.watch_until(f"batch {batch} is done", lambda: self.driver.last_batch()[1] >= batch)

    def await_moment(self, seconds: float) -> int:
        """Wait so long after a batch was begun, and while one is under way; its number."""
        begun, _ = self.driver.last_batch()
        self._await_batch(lambda last, _: last > begun)
        time.sleep(seconds)
        return self._await_batch(lambda last, finished: last > finished)

    def _await_batch(self, is_it: Callable[[int, int], bool]) -> int:
        deadline = time.monotonic() + ROUND_SECONDS
        while not is_it(*(last := self.driver.last_batch())):
            self.driver.keep_alive()
            if time.monotonic() > deadline:
                raise NotOnceError(
                    f"no batch was begun after {last[0]}; the driver said: "
                    f"{self.driver.last_words()}"
                )
            time.sleep(LOOK_SECONDS)
        return last[0]

    def strike(self, kind: str, chance: random.Random) -> str:
        """Kill something; says what."""
        match kind:
            case "broker":
                self._broker.kill()
                self._broker.start()
                return "the broker"
            case "driver":
                self.driver.kill()
                return "the driver"
            case _:
                one = chance.random() < ONLY_ONE
                pick = chance.random()
                # Where none of them works just now (a batch begins in the JVM), all are killed.
                busy = self.driver.busy_workers() if one else []
                workers = [busy[int(pick * len(busy))]] if busy else self.driver.workers()
                for pid in workers:
                    kill(pid)
                return f"{len(workers)} Python processes"

    def finish(self) -> None:
        """See that the copy is whole, that nothing comes after it, and that nothing is open."""
        self.watch_until("all is copied", lambda: len(self.watcher.seen) >= self._written)
        if not self.driver.stop():
            raise NotOnceError(f"the driver did not end well: {self.driver.last_words()}")
        if missing := set(range(self._written)) - self.watcher.seen:
            raise NotOnceError(f"{len(missing)} records are missing, such as {min(missing)}")
        for _ in range(3):
            self.watcher.look()
        with Client(self._broker.bootstrap) as client:
            admin = TxnAdmin(client)
            copies = client.led([ClientPartition("copy", number) for number in range(PARTITIONS)])
            if left := admin.open_transactions(copies):
                raise NotOnceError(f"transactions were left open: {left}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.driver.end()
        self.watcher.close()


def kinds(rounds: int, chance: random.Random) -> Iterator[str]:
    """What to kill, round by round: each kind as often as the others, in an order by chance."""
    drawn: list[str] = []
    for _ in range(rounds):
        if not drawn:
            drawn = chance.sample(KINDS, len(KINDS))
        yield drawn.pop()


def run(
    broker: BrokerProcess,
    folder: Path,
    rounds: int,
    seed: int,
    say: Callable[[str], None] = print,
) -> str:
    """Kill so many times in all, and say how each went; what was seen."""
    chance = random.Random(seed)
    struck: Counter[str] = Counter()
    began = time.monotonic()
    with Copying(broker, folder) as copying:
        driver = copying.driver
        copying.watch_until_finished(0)
        for number, kind in enumerate(kinds(rounds, chance), 1):
            copying.write_ahead()
            failures = len(driver.failures())
            delay = chance.uniform(0, LATEST_KILL_SECONDS)
            batch = copying.await_moment(delay)
            when = time.monotonic()
            what = copying.strike(kind, chance)
            struck[kind] += 1
            copying.watch_until_finished(batch)
            failed = driver.failures()[failures:]
            say(
                f"  {number}: {what} killed in batch {batch}, finished "
                f"{time.monotonic() - when:.1f} s later"
                + "".join(f"; the query failed: {text[:160]}" for text in failed)
            )
        copying.finish()
        total, failures = len(copying.watcher.seen), len(driver.failures()) + driver.deaths
    if problems := broker.tracebacks():
        raise NotOnceError(f"a traceback in the broker's log:\n{problems[0]}")
    kills = ", ".join(f"{count} of a {kind}" for kind, count in sorted(struck.items()))
    return (
        f"{total:,} records, each once; kills: {kills}; the query failed {failures} times; "
        f"{time.monotonic() - began:.0f} s"
    )
