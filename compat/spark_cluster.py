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

from confluent_kafka import KafkaError, Message, TopicPartition

from compat.spark_copying import (
    COPY,
    LATEST_KILL_SECONDS,
    PARTITIONS,
    ROUND_SECONDS,
    ROWS_IN_A_BATCH,
    SOURCE,
    WATCHER,
    Copying,
    NotOnceError,
)
from compat.spark_driver import Driver
from compat.spark_faults_program import StreamTask
from ottla.audit.check import AuditReport, check
from ottla.audit.confluent import AuditedConsumer, AuditedProducer
from ottla.cli.audit import read_events
from ottla.client import Client
from testkit.clients.confluent import Confluent
from testkit.waiting import until
from testkit.workers import WorkersProcess

AUDIT_INTERVAL_MS = 500
SETTINGS = {
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "ottla.audit.enable": "true",
    "ottla.audit.interval.ms": str(AUDIT_INTERVAL_MS),
}
AUDIT_SECONDS = 60.0
DRIVER_EVERY = 3


class ThreeBrokers(Copying):
    """A copy on a cluster, by clients that count."""

    def __init__(self, cluster: WorkersProcess, folder: Path) -> None:
        self._cluster = cluster
        user = Confluent(cluster.bootstrap)
        for topic in (SOURCE, COPY):
            user.create_topic(topic, PARTITIONS)
        where = {"bootstrap.servers": cluster.bootstrap}
        self._producer = AuditedProducer(
            {**where, "enable.idempotence": True, "log_level": 0},
            audit_name="writer",
            audit_interval_ms=AUDIT_INTERVAL_MS,
        )
        reader = AuditedConsumer({**where, **WATCHER}, audit_interval_ms=AUDIT_INTERVAL_MS)
        reader.assign([TopicPartition(COPY, number, 0) for number in range(PARTITIONS)])
        checkpoint = str(folder / "checkpoint")
        task = StreamTask(cluster.bootstrap, SOURCE, COPY, checkpoint, ROWS_IN_A_BATCH, audit=True)
        super().__init__(Driver(task, folder / "driver.log"), reader)

    def write_ahead(self) -> None:
        """More records for the source."""
        numbers = self.numbers_ahead()
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

    def finish(self) -> None:
        """See that the copy is whole, and let all who count tell of the last records."""
        super().finish()
        self.end_reading()
        self._producer.close()
        self._cluster.wait_until_whole()


def audited(bootstrap: str, topic: str) -> AuditReport:
    """What the audit says of a topic now."""
    with Client(bootstrap) as client:
        events, _ = read_events(client, 0)
    return check(events, now=time.time_ns() // 1_000_000, topic=topic)


def disagreement(report: AuditReport, total: int, consumers: int) -> str:
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
    told = ""

    def agree() -> bool:
        nonlocal told
        told = disagreement(audited(cluster.bootstrap, topic), total, consumers)
        return not told

    try:
        until(agree, "all tiers agree", AUDIT_SECONDS)
    except TimeoutError:
        raise NotOnceError(f"the audit of {topic}: {told}") from None


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
    with ThreeBrokers(cluster, folder) as copying:
        driver = copying.driver
        copying.write_ahead()
        copying.watch_until_finished(0)
        for number in range(1, rounds + 1):
            copying.write_ahead()
            delay = chance.uniform(0, LATEST_KILL_SECONDS)
            victim = chance.choice(cluster.ids)
            batch = copying.await_moment(delay)
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
