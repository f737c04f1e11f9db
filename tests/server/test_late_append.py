"""Batches that a thread looks into before they are appended, and what may happen meanwhile."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.embedded import Broker
from ottla.records import Codec
from ottla.records.compression import body_of, compress
from ottla.wire.batch import HEADER_SIZE, TRANSACTIONAL
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from testkit.batches import Batch, Plain
from testkit.raw import Connection
from tests.e2e.asking import PRODUCE, From, fetch, produce_request
from tests.e2e.asking_transactions import (
    OLD_END,
    OLD_PRODUCE,
    add_partitions,
    ended,
    new_transactional_producer,
)
from tests.e2e.conftest import create_topic
from tests.server.inside import on_loop, running, server, until
from tests.server.sharing import shared

COMPACTED = {"cleanup.policy": "compact"}
NOBODY = (-1, -1, -1)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@contextmanager
def busy_thread(broker: Broker) -> Iterator[None]:
    """The thread of batches does something else meanwhile."""
    is_free = threading.Event()
    on_loop(broker, lambda: running(broker).node.decoding.of_batch(is_free.wait))
    try:
        yield
    finally:
        is_free.set()


def long_batch(producer: tuple[int, int, int] = NOBODY, attributes: int = 0) -> bytes:
    """A batch that is decompressed by a thread where its keys have to be seen."""
    plain = Batch([Plain(bytes(200_000), key=b"k")]).build()
    producer_id, epoch, sequence = producer
    return Batch(
        payload=compress(Codec.GZIP, plain[HEADER_SIZE:]),
        count=1,
        attributes=attributes | Codec.GZIP,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    ).build()


def codes(client: Connection, version: int = PRODUCE) -> list[int]:
    _, answer = client.receive(ProduceResponse, version)
    return [each.error_code for topic in answer.responses for each in topic.partition_responses]


def wait_until_looked_at(broker: Broker) -> None:
    """Wait until a request waits for the thread."""
    until(broker, lambda: len(server(broker)._tasks) == 1)


@pytest.mark.parametrize("is_known", [False, True], ids=["first batch", "later batch"])
def test_a_batch_whose_transaction_is_aborted_meanwhile_is_not_written(
    broker: Broker, is_known: bool
) -> None:
    with Connection(broker.bootstrap_servers) as client, Connection(broker.bootstrap_servers) as it:
        create_topic(client, "t", configs=COMPACTED)
        producer = new_transactional_producer(client, "id")
        assert add_partitions(client, producer, "t") == [0]

        def send(sequence: int) -> None:
            sender = (producer.producer_id, producer.epoch, sequence)
            request = produce_request("t", long_batch(sender, TRANSACTIONAL))
            request.transactional_id = producer.transactional_id
            it.send(request, OLD_PRODUCE)

        if is_known:
            send(0)
            assert codes(it, OLD_PRODUCE) == [0]
        with busy_thread(broker):
            send(int(is_known))
            wait_until_looked_at(broker)
            ended(client, producer, commit=False, version=OLD_END)
        assert codes(it, OLD_PRODUCE) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        log = running(broker).node.partitions.find("t", 0).log
        assert on_loop(broker, lambda: len(log.producers.ongoing)) == 0


def test_a_batch_that_a_thread_fails_to_look_into_does_not_cost_the_answers_of_others(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(codec: int, data: memoryview, limit: int) -> object:
        if threading.current_thread().name.startswith("ottla-batches"):
            raise MemoryError
        return body_of(codec, data, limit)

    monkeypatch.setattr("ottla.log.validation.inspection.body_of", fail)
    with Connection(broker.bootstrap_servers) as client:
        create_topic(client, "t", partitions=2, configs=COMPACTED)
        short = Batch([Plain(b"v", key=b"k")]).build()
        data = [
            PartitionProduceData(index=0, records=short),
            PartitionProduceData(index=1, records=long_batch()),
        ]
        topic = TopicProduceData(name="t", partition_data=data)
        client.send(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), PRODUCE)
        assert codes(client) == [0, ErrorCode.UNKNOWN_SERVER_ERROR]


def test_bytes_behind_a_long_batch_are_not_kept(broker: Broker) -> None:
    with Connection(broker.bootstrap_servers) as client:
        create_topic(client, "t", configs=COMPACTED)
        batch = long_batch()
        client.send(produce_request("t", batch + bytes(11)), PRODUCE)
        assert codes(client) == [0]
        records = fetch(client, From("t")).records
        assert records is not None
        assert len(records) == len(batch)


def test_a_request_that_is_cancelled_while_it_waits_for_the_commit_takes_nobody_along(
    broker: Broker,
) -> None:
    with Connection(broker.bootstrap_servers) as it, Connection(broker.bootstrap_servers) as other:
        create_topic(it, "t", configs=COMPACTED)
        partition = shared(broker, "t", committed=0)
        it.send(produce_request("t", long_batch()), PRODUCE)
        until(broker, lambda: partition.waiting == 1)
        other.send(produce_request("t", Batch([Plain(b"v", key=b"k")]).build()), PRODUCE)
        until(broker, lambda: partition.waiting == 2)

        def cancel() -> None:
            for task in server(broker)._tasks:
                task.cancel()

        on_loop(broker, cancel)
        on_loop(broker, partition.fail_waiters)
        assert codes(other) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
