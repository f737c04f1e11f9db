"""DescribeTransactions, version 0: what a coordinator knows of transactional ids (KIP-664)."""

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.scheduling.waiting import settled
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


@api(
    ApiKey.DESCRIBE_TRANSACTIONS,
    0,
    0,
    DescribeTransactionsRequest,
    pieces("transactional_ids", "transaction_states"),
    authorize=Inside(
        (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        (Operation.DESCRIBE, ResourceType.TOPIC),
    ),
)
async def describe_transactions(
    request: Request, asked: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Describe each transactional id."""
    answer = DescribeTransactionsResponse()
    for transactional_id in asked.transactional_ids:
        try:
            request.access.check(
                Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id
            )
            runner = request.node.transactions.runner_of(transactional_id)
            described = await settled(
                runner.ask(lambda shard, _, wanted=transactional_id: shard.handle_describe(wanted))  # type: ignore[misc]  # mypy cannot infer a default
            )
        except Exception as problem:  # noqa: BLE001 one id's failure is not the others'
            described = TransactionState(
                error_code=error_of(problem)[0], transactional_id=transactional_id
            )
        described.topics = [
            topic
            for topic in described.topics
            if request.access.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        ]
        answer.transaction_states.append(described)
    return answer
