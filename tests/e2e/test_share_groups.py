"""Share groups with confluent-kafka's ShareConsumer: a queue that several consumers read.

Every record is delivered to one of them at a time, and acknowledged records do not come again, also
after kill -9 of the broker.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from testkit.process import BrokerProcess

RECORDS = 60
PATIENCE_SECONDS = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {
        "share.coordinator.state.topic.num.partitions": "3",
        "offsets.topic.num.partitions": "3",
    }
    with BrokerProcess(tmp_path / "data", settings) as process:
        yield process


def prepare(broker: BrokerProcess, group: str, topic: str) -> None:
    """A topic, and a share group that reads it from its beginning."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result()
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()


def produce(broker: BrokerProcess, topic: str, first: int) -> set[bytes]:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    sent = {str(number).encode() for number in range(first, first + RECORDS)}
    for value in sent:
        producer.produce(topic, value, key=value)
    producer.flush()
    return sent


@contextmanager
def consumer(broker: BrokerProcess, group: str, topic: str) -> Iterator[ShareConsumer]:
    found = ShareConsumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    found.subscribe([topic])
    try:
        yield found
    finally:
        found.close()


def read_until(
    consumers: list[ShareConsumer], enough: Callable[[list[bytes]], bool]
) -> list[bytes]:
    """Poll until there is enough; all that was polled is acknowledged then."""
    read: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not enough(read):
        assert time.monotonic() < deadline, f"{len(read)} records"
        for each in consumers:
            for message in each.poll(timeout=0.2):
                assert message.error() is None
                read.append(message.value())
    for each in consumers:
        for outcome in each.commit_sync(timeout=30.0).values():
            assert outcome is None
    return read


def test_two_consumers_share_a_topic_and_read_each_record_once(broker: BrokerProcess) -> None:
    prepare(broker, "queue", "orders")
    sent = produce(broker, "orders", 0)
    with (
        consumer(broker, "queue", "orders") as first,
        consumer(broker, "queue", "orders") as second,
    ):
        read = read_until([first, second], lambda read: len(set(read)) == RECORDS)
    assert sorted(read) == sorted(sent)


def test_acknowledged_records_do_not_come_again_after_a_kill(broker: BrokerProcess) -> None:
    prepare(broker, "queue", "orders")
    sent = produce(broker, "orders", 0)
    with consumer(broker, "queue", "orders") as first:
        read = read_until([first], lambda read: len(set(read)) == RECORDS)
    assert set(read) == sent
    broker.kill()
    broker.start()
    more = produce(broker, "orders", RECORDS)
    with consumer(broker, "queue", "orders") as again:
        read = read_until([again], lambda read: more <= set(read))
    assert set(read) == more
