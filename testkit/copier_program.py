"""Read, process, write, exactly once: a program to be killed at any moment and started again.

    python -m testkit.copier_program '{"client": ..., "bootstrap": ..., ...}'

It copies a topic's records to the same partition of another topic, a few in each transaction,
with its own position as part of the transaction.

Rules kept here:
1. The producer has its epoch before the consumer has its positions: so the last transaction of a
   program that was killed has ended, and its positions count or do not.
2. Whatever goes wrong ends the program. What started it starts it again, and it continues from
   what was committed; there is no other way to go back.
3. It ends with status 0 at the end of its standard input, with nothing open.
"""

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping

import msgspec

from testkit.member_program import HEARTBEATS_IN_A_SESSION, input_has_ended
from testkit.waiting import stretched

POLL_SECONDS = 0.05
PATIENCE_SECONDS = 30.0
SILENCE_SECONDS = 6
"""A transaction that takes longer ends the program (SIGALRM): librdkafka's
`send_offsets_to_transaction` can wait for ever, whatever timeout it is given, after its broker was
away. That was seen with Apache Kafka too."""
MOST_IN_A_TRANSACTION = 20


class CopyTask(msgspec.Struct, frozen=True):
    """What the program is to do."""

    client: str
    bootstrap: str
    group: str
    source: str
    target: str
    name: str
    """Its transactional id and its group instance id: a successor takes both over."""
    session_ms: int


def confluent(task: CopyTask) -> None:
    """confluent-kafka."""
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

    common: dict[str, str | int | float | bool] = {
        "bootstrap.servers": task.bootstrap,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    producer = Producer({**common, "transactional.id": task.name, "linger.ms": 0})
    producer.init_transactions(PATIENCE_SECONDS)
    consumer = Consumer(
        {
            **common,
            "group.id": task.group,
            "group.instance.id": task.name,
            "session.timeout.ms": task.session_ms,
            "heartbeat.interval.ms": task.session_ms // HEARTBEATS_IN_A_SESSION,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([task.source])
    while not input_has_ended():
        signal.alarm(SILENCE_SECONDS)
        found = consumer.consume(MOST_IN_A_TRANSACTION, POLL_SECONDS)
        # An error is a broker that is down: what is missing comes when it is back. A fatal one is
        # permanently: a static member is fenced where a lost join of its own is carried out late.
        codes = {error.code() for message in found if (error := message.error()) is not None}
        if KafkaError._FATAL in codes:
            raise SystemExit("the consumer has failed")
        messages = [message for message in found if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(task.target, message.value(), partition=message.partition() or 0)
        positions = consumer.position(consumer.assignment())
        known = [position for position in positions if position.offset >= 0]
        producer.send_offsets_to_transaction(
            known, consumer.consumer_group_metadata(), PATIENCE_SECONDS
        )
        try:
            producer.commit_transaction(PATIENCE_SECONDS)
        except KafkaException as problem:
            if not problem.args[0].retriable():
                raise
            producer.commit_transaction(PATIENCE_SECONDS)
    consumer.close()


def kafka_python(task: CopyTask) -> None:
    """kafka-python."""
    from kafka import (  # type: ignore[import-untyped]  # ships no type marker
        KafkaConsumer,
        KafkaProducer,
        OffsetAndMetadata,
    )

    producer = KafkaProducer(bootstrap_servers=task.bootstrap, transactional_id=task.name)
    producer.init_transactions()
    consumer = KafkaConsumer(
        task.source,
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        group_instance_id=task.name,
        session_timeout_ms=task.session_ms,
        heartbeat_interval_ms=task.session_ms // HEARTBEATS_IN_A_SESSION,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=MOST_IN_A_TRANSACTION,
    )
    while not input_has_ended():
        signal.alarm(SILENCE_SECONDS)
        found = consumer.poll(POLL_SECONDS * 1000)
        if not found:
            continue
        producer.begin_transaction()
        sent = [
            producer.send(task.target, record.value, partition=record.partition)
            for records in found.values()
            for record in records
        ]
        positions = {
            place: OffsetAndMetadata(records[-1].offset + 1, "", -1)
            for place, records in found.items()
        }
        producer.send_offsets_to_transaction(positions, consumer.group_metadata())
        producer.commit_transaction()
        for future in sent:
            future.get(PATIENCE_SECONDS)
    consumer.close()
    producer.close()


def aio(task: CopyTask) -> None:
    """aiokafka."""
    asyncio.run(_aio(task))


async def _aio(task: CopyTask) -> None:
    from aiokafka import (  # type: ignore[import-untyped]  # ships no type marker
        AIOKafkaConsumer,
        AIOKafkaProducer,
    )

    producer = AIOKafkaProducer(bootstrap_servers=task.bootstrap, transactional_id=task.name)
    await producer.start()
    consumer = AIOKafkaConsumer(
        task.source,
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        group_instance_id=task.name,
        session_timeout_ms=task.session_ms,
        heartbeat_interval_ms=task.session_ms // HEARTBEATS_IN_A_SESSION,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=MOST_IN_A_TRANSACTION,
        retry_backoff_ms=50,
    )
    await consumer.start()
    while not input_has_ended():
        signal.alarm(SILENCE_SECONDS)
        found = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
        if not found:
            continue
        async with asyncio.timeout(stretched(PATIENCE_SECONDS)), producer.transaction():
            sent = [
                await producer.send(task.target, record.value, partition=record.partition)
                for records in found.values()
                for record in records
            ]
            positions = {place: records[-1].offset + 1 for place, records in found.items()}
            await producer.send_offsets_to_transaction(positions, task.group)
            await asyncio.gather(*sent)
    await consumer.stop()
    await producer.stop()


COPIERS: Mapping[str, Callable[[CopyTask], None]] = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aio,
}

if __name__ == "__main__":
    given = msgspec.json.decode(sys.argv[1], type=CopyTask)
    try:
        COPIERS[given.client](given)
    except Exception:  # noqa: BLE001  # rule 2
        traceback.print_exc()
        # Not the usual way out: clients clean up there, and with a dead broker that takes its time.
        os._exit(1)
