"""What DescribeTransactions and ListTransactions say, and the two forms of AddPartitionsToTxn.

Rules kept here:
1. While a transaction is being ended, its partitions are those that still wait for their marker.
2. A filter that is empty lets everything pass. Names of states that nobody knows are named in the
   reply, and match nothing.
3. A duration filter asks for transactions that began longer ago than that, ended or not. An id
   that had none since its InitProducerId has the start time -1, and so passes, as in Kafka.
4. Up to version 3 an AddPartitionsToTxn is a client's, for one transaction; from 4 on it is a
   broker's, for many. Inside, there is only the later form.
"""

from collections.abc import Callable, Iterable

from ottla.coordinator.transactions.state import BY_NAME, Transaction, TransactionPartition
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import TopicData
from ottla.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.list_transactions import TransactionState as ListedTransaction

FIRST_BATCHED_VERSION = 4

Matcher = Callable[[str], bool]
"""True for a transactional id that, as a whole, fits the pattern of a ListTransactions."""


def described(
    transaction: Transaction, partitions: Iterable[TransactionPartition]
) -> DescribedTransaction:
    """Everything about one transaction."""
    topics: dict[str, TopicData] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, TopicData(topic=topic)).partitions.append(partition)
    return DescribedTransaction(
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.kafka_name,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=list(topics.values()),
    )


def listed(
    transactions: Iterable[Transaction],
    request: ListTransactionsRequest,
    now: int,
    matches: Matcher | None,
) -> ListTransactionsResponse:
    """The transactions that pass the request's filters."""
    states = {BY_NAME[name] for name in request.state_filters if name in BY_NAME}
    producer_ids = set(request.producer_id_filters)
    duration = request.duration_filter
    return ListTransactionsResponse(
        unknown_state_filters=[
            name for name in dict.fromkeys(request.state_filters) if name not in BY_NAME
        ],
        transaction_states=[
            ListedTransaction(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.kafka_name,
            )
            for transaction in transactions
            if (not request.state_filters or transaction.state in states)
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (duration < 0 or now - transaction.start_ms > duration)
            and (matches is None or matches(transaction.transactional_id))
        ],
    )


def transactions_of(
    request: AddPartitionsToTxnRequest, version: int
) -> list[AddPartitionsToTxnTransaction]:
    """The transactions that a request of any version adds to, in the later form."""
    if version >= FIRST_BATCHED_VERSION:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def response_of(
    results: list[AddPartitionsToTxnResult], version: int
) -> AddPartitionsToTxnResponse:
    """The reply of a version to what transactions_of gave, with one result for each."""
    if version >= FIRST_BATCHED_VERSION:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    (only,) = results
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=only.topic_results)


def result_for_each(
    transaction: AddPartitionsToTxnTransaction, code: Callable[[TransactionPartition], ErrorCode]
) -> AddPartitionsToTxnResult:
    """A result with a code for each partition of a transaction's request."""
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=partition,
                        partition_error_code=code(TransactionPartition(topic.name, partition)),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in transaction.topics
        ],
    )
