"""The requests of a transactional producer, with what protocol tests rarely change."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ottla.records import decode_batch
from ottla.wire.batch import TRANSACTIONAL, headers
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.fetch import FetchResponse, PartitionData
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import ProduceResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from testkit.batches import Batch, Plain
from testkit.raw import PATIENCE_SECONDS, Connection
from testkit.waiting import stretched
from tests.e2e.asking import FETCH, From, fetch_request, partitions_of, produce_request
from tests.e2e.asking_groups import NOT_YET, TRANSACTION, Joined, find_coordinator

TIMEOUT_MS = 60_000
READ_COMMITTED = 1

OLD_PRODUCE = 11
"""The last version with which a producer adds its partitions itself."""
OLD_END = 4
NEW_PRODUCE = 12
"""From this version on producing adds the partition (transaction version 2 of KIP-890)."""
NEW_END = 5


@dataclass(frozen=True)
class Producer:
    """Who a transactional producer says it is."""

    transactional_id: str
    producer_id: int
    epoch: int

    def with_epoch(self, epoch: int) -> "Producer":
        """The same producer with another epoch."""
        return replace(self, epoch=epoch)


def init_producer(
    connection: Connection,
    transactional_id: str,
    *,
    timeout_ms: int = TIMEOUT_MS,
    producer_id: int = -1,
    epoch: int = -1,
    version: int = 5,
) -> InitProducerIdResponse:
    """Ask for a producer id, until its coordinator has none of the usual excuses."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    deadline = time.monotonic() + stretched(PATIENCE_SECONDS)
    while True:
        answer = connection.ask(request, InitProducerIdResponse, version)
        if answer.error_code not in (*NOT_YET, ErrorCode.CONCURRENT_TRANSACTIONS):
            return answer
        assert time.monotonic() < deadline, answer


def new_transactional_producer(
    connection: Connection, transactional_id: str, timeout_ms: int = TIMEOUT_MS
) -> Producer:
    """A producer that has just been given its epoch."""
    find_coordinator(connection, transactional_id, TRANSACTION)
    answer = init_producer(connection, transactional_id, timeout_ms=timeout_ms)
    assert answer.error_code == 0
    return Producer(transactional_id, answer.producer_id, answer.producer_epoch)


def add_partitions(
    connection: Connection,
    producer: Producer,
    topic: str,
    partitions: Sequence[int] = (0,),
    version: int = 3,
) -> list[int]:
    """Add partitions of a topic to the transaction; the error code of each."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
    )
    answer = connection.ask(request, AddPartitionsToTxnResponse, version)
    (result,) = answer.results_by_topic_v3_and_below
    return [part.partition_error_code for part in result.results_by_partition]


def send(
    connection: Connection,
    producer: Producer,
    topic: str,
    sequence: int,
    *values: str,
    partition: int = 0,
    version: int = NEW_PRODUCE,
    transactional_id: str | None = "",
) -> int:
    """Produce in a transaction; the partition's error code."""
    batch = Batch(
        [Plain(value.encode()) for value in values or ("value",)],
        attributes=TRANSACTIONAL,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
    )
    request = produce_request(topic, batch.build(), partition)
    request.transactional_id = (
        producer.transactional_id if transactional_id == "" else transactional_id
    )
    answer = connection.ask(request, ProduceResponse, version)
    return answer.responses[0].partition_responses[0].error_code


def end(
    connection: Connection, producer: Producer, *, commit: bool, version: int = NEW_END
) -> EndTxnResponse:
    """End the transaction, once: whatever the answer is."""
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=commit,
    )
    return connection.ask(request, EndTxnResponse, version)


def ended(
    connection: Connection, producer: Producer, *, commit: bool, version: int = NEW_END
) -> Producer:
    """End the transaction well, once its coordinator answers; the producer as it continues."""
    deadline = time.monotonic() + stretched(PATIENCE_SECONDS)
    while True:
        answer = end(connection, producer, commit=commit, version=version)
        if answer.error_code not in NOT_YET:
            break
        assert time.monotonic() < deadline, answer
    assert answer.error_code == 0
    wait_until_complete(connection, producer.transactional_id)
    if version < NEW_END:
        return producer
    return Producer(producer.transactional_id, answer.producer_id, answer.producer_epoch)


def add_offsets(connection: Connection, producer: Producer, group: str, version: int = 4) -> int:
    """Add a group's offsets to the transaction; the error code."""
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group,
    )
    return connection.ask(request, AddOffsetsToTxnResponse, version).error_code


def commit_offset(
    connection: Connection,
    producer: Producer,
    group: str,
    topic: str,
    offset: int,
    *,
    member: Joined | None = None,
    version: int = 5,
) -> int:
    """Commit an offset of partition 0 in the transaction; its error code."""
    place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        generation_id=-1 if member is None else member.generation,
        member_id="" if member is None else member.member_id,
        group_instance_id=None if member is None else member.instance_id,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[place])],
    )
    answer = connection.ask(request, TxnOffsetCommitResponse, version)
    return answer.topics[0].partitions[0].error_code


def describe_transaction(connection: Connection, transactional_id: str) -> TransactionState:
    """What the coordinator says about one transactional id."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    return connection.ask(request, DescribeTransactionsResponse, 0).transaction_states[0]


def wait_until_complete(connection: Connection, transactional_id: str) -> None:
    """Until the markers of a decided transaction are written."""
    deadline = time.monotonic() + stretched(PATIENCE_SECONDS)
    while True:
        state = describe_transaction(connection, transactional_id)
        waits = state.error_code in NOT_YET or state.transaction_state.startswith("Prepare")
        if not waits:
            assert state.error_code == 0
            return
        assert time.monotonic() < deadline, state


def fetch_committed(
    connection: Connection, topic: str, offset: int = 0, *, max_wait_ms: int = 0, min_bytes: int = 0
) -> PartitionData:
    """Fetch partition 0 as a read_committed reader."""
    request = fetch_request(
        From(topic, offset),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        isolation_level=READ_COMMITTED,
    )
    (partition,) = partitions_of(connection.ask(request, FetchResponse, FETCH))
    assert partition.error_code == 0
    return partition


def visible(found: PartitionData) -> list[str]:
    """What is left of a fetch when a reader, as every client does it, hides what was aborted."""
    ranges = sorted(found.aborted_transactions or [], key=lambda each: each.first_offset)
    hidden: set[int] = set()
    kept: list[str] = []
    data = memoryview(found.records or b"")
    for at, header in headers(data):
        while ranges and ranges[0].first_offset <= header.last_offset:
            hidden.add(ranges.pop(0).producer_id)
        if header.is_control:
            hidden.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in hidden):
            records = decode_batch(data[at : at + header.size])
            kept += [(record.value or b"").decode() for record in records]
    return kept
