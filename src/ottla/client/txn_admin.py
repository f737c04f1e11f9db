"""Transactions as an administrator sees them: who has one open, and which of them hang (KIP-664).

A transaction hangs when a partition holds records of it that no coordinator knows to end: readers
with read_committed wait behind it for ever. It is ended by writing the abort marker into the
partition in the coordinator's place.

Rules kept here:
1. Each method is one question or one change; it is retried where Kafka's error says so.
2. A marker carries producer id, epoch and coordinator epoch as the partition itself knows them, so
   that it can only end the transaction that was looked at.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from ottla.client.cluster import Client, TopicPartition
from ottla.client.coordinators import CoordinatorType, find_coordinators
from ottla.client.errors import check, error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

ANY_DURATION = -1
NO_TRANSACTION = -1
PARTITIONS_IN_A_REQUEST = 500
"""How many partitions are asked about at once, so that no broker is busy with one request."""


class TransactionListing(NamedTuple):
    """A transactional id in a list."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionInfo(NamedTuple):
    """What the coordinator knows of a transactional id; times are milliseconds.

    `partitions` are those in the open transaction, or still without its end marker.
    """

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout: int
    started: int | None
    partitions: list[TopicPartition]


class ProducerInfo(NamedTuple):
    """What a partition remembers of a producer."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    """That of the last marker; -1 before the first one."""
    txn_start_offset: int
    """Where its open transaction begins; NO_TRANSACTION if it has none."""


class OpenTransaction(NamedTuple):
    """A producer's open transaction in one partition."""

    partition: TopicPartition
    producer: ProducerInfo


class TxnAdmin:
    """Asks about transactions, and ends hanging ones, through a client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        older_than_ms: int = ANY_DURATION,
        producer_ids: Sequence[int] = (),
    ) -> list[TransactionListing]:
        """The transactional ids of all coordinators, perhaps only some."""
        request = ListTransactionsRequest(
            state_filters=list(states),
            duration_filter=older_than_ms,
            producer_id_filters=list(producer_ids),
        )

        def attempt() -> list[TransactionListing]:
            found = []
            for broker in self._client.metadata([]).brokers:
                reply = self._client.call(request, ListTransactionsResponse, broker.node_id)
                check(reply.error_code, None, f"transactions of broker {broker.node_id}")
                if reply.unknown_state_filters:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"broker {broker.node_id}: unknown state {reply.unknown_state_filters[0]}",
                    )
                found += [
                    TransactionListing(
                        item.transactional_id,
                        broker.node_id,
                        item.producer_id,
                        item.transaction_state,
                    )
                    for item in reply.transaction_states
                ]
            return sorted(found)

        return self._client.retry(attempt)

    def describe_transaction(self, transactional_id: str) -> TransactionInfo:
        """What its coordinator knows; TRANSACTIONAL_ID_NOT_FOUND where that is nothing."""
        found = self.describe_transactions([transactional_id])
        if not found:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
                f"there is no transactional id {transactional_id}",
            )
        return found[transactional_id]

    def describe_transactions(self, transactional_ids: Sequence[str]) -> dict[str, TransactionInfo]:
        """What their coordinators know; ids that they do not know are left out."""

        def attempt() -> dict[str, TransactionInfo]:
            by_coordinator: dict[int, list[str]] = {}
            for transactional_id, node in find_coordinators(
                self._client, CoordinatorType.TRANSACTION, transactional_ids
            ).items():
                by_coordinator.setdefault(node, []).append(transactional_id)
            found = {}
            for node, ids in by_coordinator.items():
                request = DescribeTransactionsRequest(transactional_ids=ids)
                reply = self._client.call(request, DescribeTransactionsResponse, node)
                for item in reply.transaction_states:
                    if item.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                        continue
                    check(item.error_code, None, f"transactional id {item.transactional_id}")
                    started = item.transaction_start_time_ms
                    found[item.transactional_id] = TransactionInfo(
                        item.transactional_id,
                        node,
                        item.producer_id,
                        item.producer_epoch,
                        item.transaction_state,
                        item.transaction_timeout_ms,
                        None if started < 0 else started,
                        sorted(
                            TopicPartition(topic.topic, index)
                            for topic in item.topics
                            for index in topic.partitions
                        ),
                    )
            return found

        return self._client.retry(attempt) if transactional_ids else {}

    def describe_producers(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerInfo]]:
        """The producers that each partition remembers, as its leader knows them."""
        found: dict[TopicPartition, list[ProducerInfo]] = {}
        for at in range(0, len(partitions), PARTITIONS_IN_A_REQUEST):
            some = partitions[at : at + PARTITIONS_IN_A_REQUEST]
            found |= self._client.retry(partial(self._ask_producers, some))
        return found

    def open_transactions(self, partitions: Sequence[TopicPartition]) -> list[OpenTransaction]:
        """All open transactions in some partitions."""
        return sorted(
            OpenTransaction(partition, producer)
            for partition, producers in self.describe_producers(partitions).items()
            for producer in producers
            if producer.txn_start_offset != NO_TRANSACTION
        )

    def find_hanging(
        self, partitions: Sequence[TopicPartition], *, older_than_ms: int, now_ms: int
    ) -> list[OpenTransaction]:
        """The open transactions that were last written to so long ago, and that no coordinator is
        going to end: it does not know the producer, or not that the partition has part in it.
        """
        old = [
            item
            for item in self.open_transactions(partitions)
            if now_ms - item.producer.last_timestamp > older_than_ms
        ]
        ended_by_others = self.coordinated(old)
        return [item for item in old if item not in ended_by_others]

    def coordinated(
        self, transactions: Sequence[OpenTransaction]
    ) -> dict[OpenTransaction, TransactionInfo]:
        """Those of the transactions that a coordinator is going to end, with what it knows."""
        producer_ids = sorted({item.producer.producer_id for item in transactions})
        if not producer_ids:
            return {}
        listed = self.list_transactions(producer_ids=producer_ids)
        known = self.describe_transactions([item.transactional_id for item in listed])
        by_part = {
            (info.producer_id, partition): info
            for info in known.values()
            for partition in info.partitions
        }
        return {
            item: by_part[part]
            for item in transactions
            if (part := (item.producer.producer_id, item.partition)) in by_part
        }

    def abort(self, transaction: OpenTransaction) -> None:
        """End a transaction in one partition, in its coordinator's place."""
        topic, index = transaction.partition
        producer = transaction.producer
        # A producer's first transaction has seen no coordinator; 0 is not above any real epoch.
        epoch = max(producer.coordinator_epoch, 0)
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            coordinator_epoch=epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
        )
        request = WriteTxnMarkersRequest(markers=[marker])

        def attempt() -> None:
            leader = self._client.leader(topic, index)
            reply = self._client.call(request, WriteTxnMarkersResponse, leader)
            codes = [
                item.error_code
                for result in reply.markers
                for named in result.topics
                for item in named.partitions
            ]
            for code in codes or [ErrorCode.UNKNOWN_SERVER_ERROR]:
                self._check_partition(code, None, transaction.partition)

        self._client.retry(attempt)

    def _ask_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerInfo]]:
        found = {}
        for leader, led in self._client.by_leader(partitions).items():
            topics: dict[str, TopicRequest] = {}
            for name, index in led:
                topics.setdefault(name, TopicRequest(name=name)).partition_indexes.append(index)
            request = DescribeProducersRequest(topics=list(topics.values()))
            reply = self._client.call(request, DescribeProducersResponse, leader)
            for topic in reply.topics:
                for item in topic.partitions:
                    partition = TopicPartition(topic.name, item.partition_index)
                    self._check_partition(item.error_code, item.error_message, partition)
                    found[partition] = [
                        ProducerInfo(
                            state.producer_id,
                            state.producer_epoch,
                            state.last_sequence,
                            state.last_timestamp,
                            state.coordinator_epoch,
                            state.current_txn_start_offset,
                        )
                        for state in item.active_producers
                    ]
        return found

    def _check_partition(
        self, error_code: int, message: str | None, partition: TopicPartition
    ) -> None:
        if error_code:
            self._client.forget(partition.topic)
            about = f"partition {partition.partition} of topic {partition.topic}"
            raise error(error_code, message, about)
