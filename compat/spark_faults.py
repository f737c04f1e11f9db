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

from confluent_kafka import Consumer, TopicPartition

from compat.spark_copying import (
    COPY,
    LATEST_KILL_SECONDS,
    PARTITIONS,
    ROWS_IN_A_BATCH,
    SOURCE,
    WATCHER,
    Copying,
    NotOnceError,
)
from compat.spark_driver import Driver, kill
from compat.spark_faults_program import StreamTask
from ottla.client import Client
from ottla.client import TopicPartition as ClientPartition
from ottla.client.txn_admin import TxnAdmin
from testkit.clients.base import Message
from testkit.clients.confluent import Confluent
from testkit.process import BrokerProcess

SETTINGS = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}
ONLY_ONE = 0.5
"""How often just one Python process that works is killed, and not all that there are."""
KINDS = ("worker", "driver", "broker")


class OneBroker(Copying):
    """A copy on one broker, which may be struck as well."""

    def __init__(self, broker: BrokerProcess, folder: Path, *, by_foreach_batch: bool) -> None:
        self._broker = broker
        self._user = Confluent(broker.bootstrap)
        for topic in (SOURCE, COPY):
            self._user.create_topic(topic, PARTITIONS)
        reader = Consumer({"bootstrap.servers": broker.bootstrap, **WATCHER})
        reader.assign([TopicPartition(COPY, number, 0) for number in range(PARTITIONS)])
        checkpoint = str(folder / "checkpoint")
        task = StreamTask(
            broker.bootstrap,
            SOURCE,
            COPY,
            checkpoint,
            ROWS_IN_A_BATCH,
            by_foreach_batch=by_foreach_batch,
        )
        super().__init__(Driver(task, folder / "driver.log"), reader)

    def write_ahead(self) -> None:
        """More records for the source."""
        numbers = self.numbers_ahead()
        self._user.produce(
            SOURCE, [Message(b"%d" % number, partition=number % PARTITIONS) for number in numbers]
        )
        self.written += len(numbers)

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
        super().finish()
        with Client(self._broker.bootstrap) as client:
            admin = TxnAdmin(client)
            copies = client.led([ClientPartition(COPY, number) for number in range(PARTITIONS)])
            if left := admin.open_transactions(copies):
                raise NotOnceError(f"transactions were left open: {left}")


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
    *,
    by_foreach_batch: bool = False,
) -> str:
    """Kill so many times in all, and say how each went; what was seen."""
    chance = random.Random(seed)
    struck: Counter[str] = Counter()
    began = time.monotonic()
    with OneBroker(broker, folder, by_foreach_batch=by_foreach_batch) as copying:
        driver = copying.driver
        copying.write_ahead()
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
        total, failures = len(copying.seen), len(driver.failures()) + driver.deaths
    if problems := broker.tracebacks():
        raise NotOnceError(f"a traceback in the broker's log:\n{problems[0]}")
    kills = ", ".join(f"{count} of a {kind}" for kind, count in sorted(struck.items()))
    return (
        f"{total:,} records, each once; kills: {kills}; the query failed {failures} times; "
        f"{time.monotonic() - began:.0f} s"
    )
