"""Transactions that stay open, by raw requests, so that a test can date their records."""

from time import time

from ottla.client import Admin, Client
from ottla.client.coordinators import CoordinatorType, find_coordinator
from ottla.client.errors import check
from ottla.records import Record
from ottla.records.batches import encode_batch
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

LAST_WITH_TOPIC_NAMES = 12
AN_HOUR_MS = 3_600_000


def now_ms() -> int:
    return int(time() * 1000)


def init_producer_id(client: Client, transactional_id: str) -> tuple[int, int]:
    """The producer id and epoch of a transactional id; ends what it had open."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=600_000
    )

    def attempt() -> tuple[int, int]:
        node = find_coordinator(client, CoordinatorType.TRANSACTION, transactional_id)
        reply = client.call(request, InitProducerIdResponse, node)
        check(reply.error_code)
        return reply.producer_id, reply.producer_epoch

    return client.retry(attempt)


def write_in_transaction(client: Client, topic: str, transactional_id: str) -> int:
    """Leave a transaction open, with a record in partition 0 that is two hours old.

    Returns the producer id.
    """
    producer_id, epoch = init_producer_id(client, transactional_id)
    batch = encode_batch(
        [Record(0, now_ms() - 2 * AN_HOUR_MS, None, b"open")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )
    # Version 12 adds the partition to the transaction by itself (KIP-890).
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=0, records=batch)]
            )
        ],
    )
    leader = client.leader(topic, 0)
    reply = client.call(request, ProduceResponse, leader, newest=LAST_WITH_TOPIC_NAMES)
    check(reply.responses[0].partition_responses[0].error_code)
    return producer_id


def forget_all_transactions(client: Client) -> None:
    """Lose what the coordinators know: open transactions hang from now on."""
    Admin(client).delete_topic("__transaction_state")
