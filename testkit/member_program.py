"""One member of a consumer group as a program of its own, so that it can be killed like one.

    python -m testkit.member_program '{"client": ..., "bootstrap": ..., "group": ..., "topic": ...}'

It reads its topic, commits after every batch, and says what happens in lines of JSON:

| event     | partitions or records                                         |
|-----------|---------------------------------------------------------------|
| assigned  | all partitions that it has now; told at every change          |
| revoked   | partitions that the client has just let go of                 |
| records   | [partition, value] of each record of a batch                  |
| committed | how many records have been committed for by now               |

It leaves the group properly at the end of its standard input.
"""

import asyncio
import json
import select
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

POLL_SECONDS = 0.05
HEARTBEATS_IN_A_SESSION = 5


class Task(msgspec.Struct, frozen=True):
    """What the program is to do."""

    client: str
    bootstrap: str
    group: str
    topic: str
    session_ms: int
    protocol: str = "classic"
    instance_id: str | None = None
    strategy: str | None = None
    """Name of the client-side assignor, in the client's own words."""


class Voice:
    """Says what happens."""

    def __init__(self) -> None:
        self._assigned: list[int] | None = None
        self._records = 0

    def say(self, event: str, **what: object) -> None:
        """One line."""
        print(json.dumps({"event": event, **what}), flush=True)

    def assigned(self, partitions: Iterable[int]) -> None:
        """Say what the member has, if that is news."""
        now = sorted(partitions)
        if now != self._assigned:
            self._assigned = now
            self.say("assigned", partitions=now)

    def revoked(self, partitions: Iterable[int]) -> None:
        """Say what the member had."""
        if listed := sorted(partitions):
            self.say("revoked", partitions=listed)

    def records(self, records: list[tuple[int, str]]) -> None:
        """Say what has come."""
        self._records += len(records)
        self.say("records", records=records)

    def committed(self) -> None:
        """Say that all that has come is committed."""
        self.say("committed", count=self._records)


def input_has_ended() -> bool:
    """True once this member has to stop."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def confluent(task: Task, voice: Voice) -> None:
    """confluent-kafka, with both group protocols."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": task.bootstrap,
        "group.id": task.group,
        "group.protocol": task.protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    if task.protocol == "classic":
        settings["session.timeout.ms"] = task.session_ms
        settings["heartbeat.interval.ms"] = task.session_ms // HEARTBEATS_IN_A_SESSION
        if task.strategy is not None:
            settings["partition.assignment.strategy"] = task.strategy
    if task.instance_id is not None:
        settings["group.instance.id"] = task.instance_id

    def on_revoke(_: Consumer, partitions: list[TopicPartition]) -> None:
        voice.revoked(each.partition for each in partitions)

    consumer = Consumer(settings)
    consumer.subscribe([task.topic], on_revoke=on_revoke, on_lost=on_revoke)
    while not input_has_ended():
        messages = [each for each in consumer.consume(500, POLL_SECONDS) if each.error() is None]
        voice.assigned(each.partition for each in consumer.assignment())
        if messages:
            voice.records([(int(m.partition() or 0), text(m.value())) for m in messages])
            try:
                consumer.commit(asynchronous=False)
            except KafkaException:
                continue  # a rebalance was faster: the new owner gets these records again
            voice.committed()
    consumer.close()


def kafka_python(task: Task, voice: Voice) -> None:
    """kafka-python, whose consumer sends heartbeats from a thread."""
    from kafka import (  # type: ignore[import-untyped]  # kafka-python ships no type marker
        ConsumerRebalanceListener,
        KafkaConsumer,
        TopicPartition,
    )
    from kafka.coordinator.assignors.cooperative_sticky import (  # type: ignore[import-untyped]  # as above
        CooperativeStickyAssignor,
    )
    from kafka.coordinator.assignors.range import (  # type: ignore[import-untyped]  # as above
        RangePartitionAssignor,
    )
    from kafka.errors import KafkaError  # type: ignore[import-untyped]  # as above

    strategies = {
        None: RangePartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # as above
        """Says what is let go of."""

        def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            voice.revoked(each.partition for each in revoked)

        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            """The loop sees it."""

    consumer = KafkaConsumer(
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        group_instance_id=task.instance_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=task.session_ms,
        heartbeat_interval_ms=task.session_ms // HEARTBEATS_IN_A_SESSION,
        partition_assignment_strategy=[strategies[task.strategy]],
    )
    consumer.subscribe([task.topic], listener=Listener())
    while not input_has_ended():
        found = consumer.poll(POLL_SECONDS * 1000)
        voice.assigned(each.partition for each in consumer.assignment())
        if records := [(r.partition, text(r.value)) for batch in found.values() for r in batch]:
            voice.records(records)
            try:
                consumer.commit()
            except KafkaError:
                continue
            voice.committed()
    consumer.close()


def aio(task: Task, voice: Voice) -> None:
    """aiokafka, in a loop of its own."""
    asyncio.run(_aio(task, voice))


async def _aio(task: Task, voice: Voice) -> None:
    from aiokafka import (  # type: ignore[import-untyped]  # aiokafka ships no type marker
        AIOKafkaConsumer,
        ConsumerRebalanceListener,
        TopicPartition,
    )
    from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # as above

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # as above
        """Says what is let go of."""

        def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            voice.revoked(each.partition for each in revoked)

        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            """The loop sees it."""

    consumer = AIOKafkaConsumer(
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        group_instance_id=task.instance_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=task.session_ms,
        heartbeat_interval_ms=task.session_ms // HEARTBEATS_IN_A_SESSION,
        retry_backoff_ms=50,
    )
    consumer.subscribe([task.topic], listener=Listener())
    await consumer.start()
    while not input_has_ended():
        found = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
        voice.assigned(each.partition for each in consumer.assignment())
        if records := [(r.partition, text(r.value)) for batch in found.values() for r in batch]:
            voice.records(records)
            try:
                await consumer.commit()
            except KafkaError:
                continue
            voice.committed()
    await consumer.stop()


def text(value: Any) -> str:
    """A record's value, which all tests make of ASCII."""
    return bytes(value or b"").decode()


CLIENTS: Mapping[str, Callable[[Task, Voice], None]] = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aio,
}

if __name__ == "__main__":
    given = msgspec.json.decode(sys.argv[1], type=Task)
    CLIENTS[given.client](given, Voice())
