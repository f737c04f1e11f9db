"""Reads partition 0 of a topic up to a given record, with the isolation that a test asks for."""

import asyncio
import time
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # ships no type marker
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import (  # type: ignore[import-untyped]  # ships no type marker
    KafkaConsumer,
)
from kafka import TopicPartition as KafkaPythonPartition

from testkit.clients.base import PATIENCE_SECONDS
from testkit.waiting import stretched

POLL_SECONDS = 0.2

Reader = Callable[[str, str, bytes, str], list[bytes]]
"""Bootstrap, topic, the value of the last record to read, isolation level."""


def confluent(bootstrap: str, topic: str, last: bytes, isolation: str) -> list[bytes]:
    """With librdkafka."""
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "isolation.level": isolation,
    }
    consumer = Consumer(settings)
    consumer.assign([ConfluentPartition(topic, 0, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + stretched(PATIENCE_SECONDS)
    try:
        while found[-1:] != [last]:
            assert time.monotonic() < deadline, found
            for message in consumer.consume(100, POLL_SECONDS):
                value = message.value()
                assert isinstance(value, bytes), message.error()
                found.append(value)
    finally:
        consumer.close()
    return found


def kafka_python(bootstrap: str, topic: str, last: bytes, isolation: str) -> list[bytes]:
    """With kafka-python."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
    place = KafkaPythonPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    found: list[bytes] = []
    deadline = time.monotonic() + stretched(PATIENCE_SECONDS)
    try:
        while found[-1:] != [last]:
            assert time.monotonic() < deadline, found
            for records in consumer.poll(POLL_SECONDS * 1000).values():
                found += [record.value for record in records]
    finally:
        consumer.close()
    return found


def aio(bootstrap: str, topic: str, last: bytes, isolation: str) -> list[bytes]:
    """With aiokafka."""
    return asyncio.run(_aio(bootstrap, topic, last, isolation))


async def _aio(bootstrap: str, topic: str, last: bytes, isolation: str) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(stretched(PATIENCE_SECONDS)):
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
        await consumer.start()
        try:
            place = AioPartition(topic, 0)
            consumer.assign([place])
            consumer.seek(place, 0)
            while found[-1:] != [last]:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [record.value for record in records]
        finally:
            await consumer.stop()
    return found


READERS: dict[str, Reader] = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aio,
}
