"""Clients of a cluster whose brokers die: who wrote what, and what is read."""

import os
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from prometheus_client.parser import text_string_to_metric_families

from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from testkit.batches import values
from testkit.cluster import ClusterProcesses
from testkit.process import BrokerProcess
from testkit.raw import Connection

QUICK = {"topic.metadata.refresh.interval.ms": 500, "reconnect.backoff.max.ms": 200}


class Writer:
    """An idempotent producer with acks=all that knows what was acknowledged."""

    def __init__(self, cluster: ClusterProcesses) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "delivery.timeout.ms": 60_000,
                **QUICK,
            }
        )
        self.acknowledged: list[bytes] = []
        self.failed: list[KafkaError] = []
        self._number = 0

    def write(self, topic: str, count: int, partition: int = 0) -> None:
        for _ in range(count):
            value = b"%d" % self._number
            self._number += 1
            self._producer.produce(topic, value, partition=partition, callback=self._told)
            self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(60) == 0

    def _told(self, problem: KafkaError | None, message: Message) -> None:
        if problem is None:
            self.acknowledged.append(message.value() or b"")
        else:
            self.failed.append(problem)


@contextmanager
def paused(cluster: ClusterProcesses, *numbers: int) -> Iterator[None]:
    """Brokers that do nothing inside the block (SIGSTOP)."""
    for number in numbers:
        os.kill(cluster.brokers[number].pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for number in numbers:
            os.kill(cluster.brokers[number].pid, signal.SIGCONT)


def metric(broker: BrokerProcess, name: str, **labels: str) -> float:
    """What a broker that serves metrics says, all samples with these labels together."""
    port = broker.settings["ottla.metrics.port"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def read_all(
    cluster: ClusterProcesses, topic: str, count: int, misses: int = 30, partition: int = 0
) -> list[bytes]:
    """What a partition has, without a group: so many records, or all until nothing comes."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"reader-of-{topic}",
            "enable.auto.commit": False,
            **QUICK,
        }
    )
    found: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while len(found) < count and misses:
            batch = consumer.consume(500, 1.0)
            misses -= not batch
            found += [each.value() or b"" for each in batch if not each.error()]
    finally:
        consumer.close()
    return found


def produce_to(
    broker: BrokerProcess,
    topic: str,
    *,
    acks: int = -1,
    timeout_ms: int = 5000,
    partition: int = 0,
) -> tuple[PartitionProduceResponse, ProduceResponse]:
    """Send one record to a partition of a topic, to this broker and no other."""
    request = ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=partition, records=values(b"x"))],
            )
        ],
    )
    with Connection(broker.bootstrap) as connection:
        answer = connection.ask(request, ProduceResponse, 12)
    (result,) = answer.responses[0].partition_responses
    return result, answer
