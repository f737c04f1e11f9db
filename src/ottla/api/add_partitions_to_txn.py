"""AddPartitionsToTxn, versions 0 to 5: partitions join a transaction, or are verified (KIP-890)."""

from ottla.api.authorization import Inside
from ottla.api.pieces import MOST_TOGETHER, pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.scheduling.waiting import settled
from ottla.config.topic_names import INTERNAL_TOPICS
from ottla.coordinator.transactions.queries import (
    response_of,
    result_for_each,
    transactions_of,
)
from ottla.coordinator.transactions.state import TransactionPartition
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)

FIRST_OF_BROKERS = 4
"""Earlier versions are what producers send: what is internal is not theirs to write to."""


@api(
    ApiKey.ADD_PARTITIONS_TO_TXN,
    0,
    5,
    AddPartitionsToTxnRequest,
    pieces(
        "transactions.topics.partitions",
        "results_by_transaction.topic_results.results_by_partition",
    ),
    pieces(
        "v3_and_below_topics.partitions",
        "results_by_topic_v3_and_below.results_by_partition",
        MOST_TOGETHER,
    ),
    authorize=Inside(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        (Operation.WRITE, ResourceType.TOPIC),
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
)
async def add_partitions_to_txn(
    request: Request, asked: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Ask each transaction's coordinator."""
    access = request.access
    if request.version >= FIRST_OF_BROKERS:
        if not access.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
            return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    else:
        refused = _refused(request, transactions_of(asked, request.version)[0])
        if refused is not None:
            return response_of([refused], request.version)
    results = [
        await _add(request, transaction) for transaction in transactions_of(asked, request.version)
    ]
    return response_of(results, request.version)


def _refused(
    request: Request, transaction: AddPartitionsToTxnTransaction
) -> AddPartitionsToTxnResult | None:
    """The reply to a producer that is not authorized; None if it is."""
    access, topics = request.access, request.node.image.topics
    wanted = ResourceType.TRANSACTIONAL_ID
    if not access.may(Operation.WRITE, wanted, transaction.transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return result_for_each(transaction, lambda _: code)
    hidden = {
        topic.name
        for topic in transaction.topics
        if not access.may(Operation.WRITE, ResourceType.TOPIC, topic.name)
    }
    if not hidden:
        return None

    def result_of(where: TransactionPartition) -> ErrorCode:
        if where.topic in hidden:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topic = topics.get(where.topic)
        if topic is None or not 0 <= where.partition < len(topic.assignment):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    return result_for_each(transaction, result_of)


async def _add(
    request: Request, transaction: AddPartitionsToTxnTransaction
) -> AddPartitionsToTxnResult:
    topics = request.node.image.topics

    def missing(where: TransactionPartition) -> bool:
        topic = topics.get(where.topic)
        return topic is None or not 0 <= where.partition < len(topic.assignment)

    unknown = any(
        missing(TransactionPartition(topic.name, partition))
        for topic in transaction.topics
        for partition in topic.partitions
    )
    if unknown and not transaction.verify_only:
        # As Kafka: one unknown partition keeps the others from being added.
        return result_for_each(
            transaction,
            lambda where: (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if missing(where)
                else ErrorCode.OPERATION_NOT_ATTEMPTED
            ),
        )
    if request.version < FIRST_OF_BROKERS and any(
        topic.name in INTERNAL_TOPICS for topic in transaction.topics
    ):
        return result_for_each(
            transaction,
            lambda where: (
                ErrorCode.TOPIC_AUTHORIZATION_FAILED
                if where.topic in INTERNAL_TOPICS
                else ErrorCode.OPERATION_NOT_ATTEMPTED
            ),
        )
    try:
        runner = request.node.transactions.runner_of(transaction.transactional_id)
        return await settled(
            runner.ask(
                lambda shard, now: shard.handle_add_partitions(transaction, request.context, now)
            )
        )
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        code, _ = error_of(problem)
        return result_for_each(transaction, lambda _: code)
