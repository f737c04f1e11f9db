"""Spark's exactly-once sink and the audit over three brokers, one of which is killed now and then.

A Spark driver copies a topic to another one, both with three replicas. Round by round a broker is
killed (-9) while a batch is under way, at a moment drawn from a seed; every third round the driver
instead. The supervisor starts the broker again. What must hold at the end: the copy has every
record of the source, once; and what the producer, the brokers, Spark's source, its sink and the
reader of the copy have counted agrees, with nothing missing, doubled or late.
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Message, TopicPartition

from compat.clients.confluent import Confluent
from compat.spark_driver import Driver
from compat.spark_faults_program import StreamTask
from compat.workers import WorkersProcess
from ottla.audit.check import Report, check
from ottla.audit.confluent import AuditedConsumer, AuditedProducer
from ottla.cli.audit import read_events
from ottla.client import Client

AUDIT_INTERVAL_MS = 500
SETTINGS = {
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "ottla.audit.enable": "true",
    "ottla.audit.interval.ms": str(AUDIT_INTERVAL_MS),
}
PARTITIONS = 4
ROWS_IN_A_BATCH = 400
AHEAD = 4_000
LATEST_KILL_SECONDS = 0.6
LOOK_SECONDS = 0.005
POLL_SECONDS = 0.1
ROUND_SECONDS = 240.0
AUDIT_SECONDS = 60.0
DRIVER_EVERY = 3
SOURCE, COPY = "source", "copy"


class NotOnceError(Exception):
    """A record was lost or doubled, the counts do not agree, or the query did not get on."""


class Copying:
    """A source, a copy of it in the making, and who makes, counts and watches it."""

    def __init__(self, cluster: WorkersProcess, folder: Path) -> None:
        self._cluster = cluster
        user = Confluent(cluster.bootstrap)
        for topic in (SOURCE, COPY):
            user.create_topic(topic, PARTITIONS)
        self.written = 0
        self.seen: set[int] = set()
        connection = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        self._producer = AuditedProducer(
            {**connection, "enable.idempotence": True},
            audit_name="writer",
            audit_interval_ms=AUDIT_INTERVAL_MS,
        )
        self._consumer = AuditedConsumer(
            {
                **connection,
                "group.id": "watcher",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            },
            audit_interval_ms=AUDIT_INTERVAL_MS,
        )
        self._consumer.assign([TopicPartition(COPY, number, 0) for number in range(PARTITIONS)])
        self.write_ahead()
        checkpoint = str(folder / "checkpoint")
        task = StreamTask(cluster.bootstrap, SOURCE, COPY, checkpoint, ROWS_IN_A_BATCH, audit=True)
        self.driver = Driver(task, folder / "driver.log")

    def write_ahead(self) -> None:
        """More records for the source, until it is far enough ahead of what was copied."""
        numbers = range(self.written, max(self.written, len(self.seen) + AHEAD))
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        for number in numbers:
            value, partition = b"%d" % number, number % PARTITIONS
            self._producer.produce(SOURCE, value, partition=partition, on_delivery=delivered)
        if self._producer.flush(ROUND_SECONDS) or failures:
            raise NotOnceError(f"the source cannot be written: {failures[:1]}")
        self.written += len(numbers)

    def look(self) -> None:
        """Take in what has come to the copy."""
        for message in self._consumer.consume(1000, POLL_SECONDS):
            value = message.value()
            if message.error() is not None or not isinstance(value, bytes):
                continue  # a broker is down
            number = int(value)
            if number in self.seen:
                raise NotOnceError(
                    f"record {number} came twice: again in partition {message.partition()} "
                    f"at offset {message.offset()}"
                )
            self.seen.add(number)

    def watch_until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Watch the copy until something is so."""
        deadline = time.monotonic() + ROUND_SECONDS
        while not is_so():
            self.driver.keep_alive()
            self.look()
            if time.monotonic() > deadline:
                raise NotOnceError(
                    f"not in {ROUND_SECONDS:.0f} s: {what}. {len(self.seen)} of {self.written} "
                    f"records are copied; the driver said: {self.driver.last_words()}"
                )

    def watch_until_finished(self, batch: int) -> None:
        """Watch until Spark has finished a batch."""
        self.watch_until(f"batch {batch} is done", lambda: self.driver.last_batch()[1] >= batch)

    def await_batch(self) -> int:
        """Wait until a batch is under way; its number."""
        deadline = time.monotonic() + ROUND_SECONDS
        while True:
            begun, finished = self.driver.last_batch()
            if begun > finished:
                return begun
            if time.monotonic() > deadline:
                raise NotOnceError(f"no batch after {begun}: {self.driver.last_words()}")
            time.sleep(LOOK_SECONDS)

    def finish(self) -> None:
        """See that the copy is whole, and let all who count tell of the last records."""
        self.watch_until("all is copied", lambda: len(self.seen) >= self.written)
        if not self.driver.stop():
            raise NotOnceError(f"the driver did not end well: {self.driver.last_words()}")
        for _ in range(3):
            self.look()
        self._consumer.close()
        self._producer.close()
        self._cluster.wait_until_whole()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.driver.end()


def audited(bootstrap: str, topic: str) -> Report:
    """What the audit says of a topic now."""
    with Client(bootstrap) as client:
        events, _ = read_events(client, 0)
    return check(events, now=time.time_ns() // 1_000_000, topic=topic)


def disagreement(report: Report, total: int, consumers: int) -> str:
    """What speaks against: every tier has counted every record, once. Nothing where none does."""
    produced = sum(row.produced or 0 for row in report.rows)
    stored = sum(row.stored or 0 for row in report.rows)
    consumed: Counter[str] = Counter()
    for row in report.rows:
        for each in row.consumers:
            consumed[f"{each.tier} {each.name}"] += each.consumed
    counts = [produced, stored, *consumed.values()]
    wrong = {
        "missing": report.missing,
        "duplicate": sum(
            row.duplicate + sum(each.duplicate for each in row.consumers) for row in report.rows
        ),
        "late": sum(row.late + sum(each.late for each in row.consumers) for row in report.rows),
    }
    if counts == [total] * (2 + consumers) and not any(wrong.values()):
        return ""
    return (
        f"of {total} records: produced {produced}, stored {stored}, {dict(consumed)}, {wrong}; "
        f"{report.notes}"
    )


def check_audit(cluster: WorkersProcess, topic: str, total: int, consumers: int) -> None:
    """Wait until all tiers of a topic agree."""
    deadline = time.monotonic() + AUDIT_SECONDS
    while told := disagreement(audited(cluster.bootstrap, topic), total, consumers):
        if time.monotonic() > deadline:
            raise NotOnceError(f"the audit of {topic}: {told}")
        time.sleep(POLL_SECONDS)


def run(
    cluster: WorkersProcess,
    folder: Path,
    rounds: int,
    seed: int,
    say: Callable[[str], None] = print,
) -> str:
    """Kill so many times in all, and say how each went; what was seen."""
    chance = random.Random(seed)
    struck: Counter[str] = Counter()
    began = time.monotonic()
    with Copying(cluster, folder) as copying:
        driver = copying.driver
        copying.watch_until_finished(0)
        for number in range(1, rounds + 1):
            copying.write_ahead()
            time.sleep(chance.uniform(0, LATEST_KILL_SECONDS))
            victim = chance.choice(cluster.ids)
            batch = copying.await_batch()
            when = time.monotonic()
            if number % DRIVER_EVERY == 0:
                kind, what = "driver", "the driver"
                driver.kill()
            else:
                kind, what = "broker", f"broker {victim}"
                cluster.wait_until_whole()
                cluster.kill_broker(victim)
            struck[kind] += 1
            copying.watch_until_finished(batch)
            say(
                f"  {number}: {what} killed in batch {batch}, finished "
                f"{time.monotonic() - when:.1f} s later"
            )
        copying.finish()
        total, failures = copying.written, len(driver.failures()) + driver.deaths
    check_audit(cluster, SOURCE, total, consumers=1)
    check_audit(cluster, COPY, total, consumers=1)
    if problems := cluster.tracebacks():
        raise NotOnceError(f"a traceback in a broker's log:\n{problems[0]}")
    return (
        f"{total:,} records, each once, and counted so by every tier; {struck['broker']} kills of "
        f"a broker, {struck['driver']} of the driver; the query failed {failures} times; "
        f"{time.monotonic() - began:.0f} s"
    )
