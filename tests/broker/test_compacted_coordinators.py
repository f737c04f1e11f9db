"""The internal topics are compacted while they are used, and what they say survives a restart."""

import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.client import Admin, Client
from ottla.client.admin import Resource
from ottla.embedded import Broker
from ottla.wire.config_resource_type import ConfigResourceType

SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "log.cleaner.backoff.ms": 20,
    "log.cleaner.min.cleanable.ratio": 0.01,
}


def make_small(broker: Broker, topic: str) -> None:
    """Give an internal topic segments that fill up within a test."""
    client = Client(broker.bootstrap_servers)
    Admin(client).alter_settings(
        Resource(ConfigResourceType.TOPIC, topic), {"internal.segment.bytes": "4096"}
    )
    client.close()


class Sizes:
    """Watches a log that is written to, until compaction has made it smaller."""

    def __init__(self, folder: Path, topic: str) -> None:
        self._folder = folder / f"{topic}-0"
        self._largest = 0
        self._give_up = time.monotonic() + 60
        self.steps = 0

    def shrank(self) -> bool:
        size = 0
        for file in self._folder.glob("*.log"):
            try:
                size += file.stat().st_size
            except FileNotFoundError:
                return False  # it is being swapped
        assert time.monotonic() < self._give_up, f"{self._folder.name} still has {size} bytes"
        self._largest = max(self._largest, size)
        return size < self._largest


def consumer_of(broker: Broker) -> Consumer:
    return Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})


def test_committed_offsets_survive_compaction_and_restart(tmp_path: Path) -> None:
    with Broker(data=tmp_path, config=SETTINGS) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("t", b"x")
        producer.flush(30)
        consumer = consumer_of(broker)
        consumer.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
        make_small(broker, "__consumer_offsets")
        sizes = Sizes(tmp_path, "__consumer_offsets")
        while not sizes.shrank():
            sizes.steps += 1
            consumer.commit(offsets=[TopicPartition("t", 0, sizes.steps)], asynchronous=False)
        consumer.close()
    with Broker(data=tmp_path, config=SETTINGS) as broker:
        consumer = consumer_of(broker)
        (found,) = consumer.committed([TopicPartition("t", 0)], timeout=30)
        consumer.close()
    assert found.offset == sizes.steps


def test_a_producers_epoch_survives_compaction_and_restart(tmp_path: Path) -> None:
    def transactional(broker: Broker) -> Producer:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "pays-once"}
        )
        producer.init_transactions(30)
        return producer

    def commit(producer: Producer, value: int) -> None:
        producer.begin_transaction()
        producer.produce("t", str(value))
        producer.commit_transaction(30)

    with Broker(data=tmp_path, config=SETTINGS) as broker:
        producer = transactional(broker)
        make_small(broker, "__transaction_state")
        sizes = Sizes(tmp_path, "__transaction_state")
        while not sizes.shrank():
            commit(producer, sizes.steps)
            sizes.steps += 1
    with Broker(data=tmp_path, config=SETTINGS) as broker:
        commit(transactional(broker), sizes.steps)
        reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "r"})
        reader.assign([TopicPartition("t", 0, 0)])
        values: list[int] = []
        while len(values) <= sizes.steps:
            found = reader.consume(min(100, sizes.steps + 1 - len(values)), timeout=20)
            assert found, "a committed record is missing"
            values += [int(message.value() or b"") for message in found]
        reader.close()
    assert values == list(range(sizes.steps + 1))
