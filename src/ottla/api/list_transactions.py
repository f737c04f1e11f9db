"""ListTransactions, versions 0 to 2: the transactions here (KIP-664, KIP-994, KIP-1152)."""

from ottla.api.authorization import Inside
from ottla.api.registry import Request, api, error_of
from ottla.broker.patterns import full_matcher
from ottla.coordinator.transactions.queries import listed
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


@api(
    ApiKey.LIST_TRANSACTIONS,
    0,
    2,
    ListTransactionsRequest,
    authorize=Inside((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)),
)
async def list_transactions(
    request: Request, asked: ListTransactionsRequest
) -> ListTransactionsResponse:
    """List the transactions of every coordinator partition here that pass the filters."""
    matches = None
    if asked.transactional_id_pattern:
        try:
            matches = full_matcher(asked.transactional_id_pattern)
        except ValueError:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    # Which filters are unknown does not depend on whether there is a coordinator here.
    answer = listed((), asked, request.node.now_ms(), matches)
    try:
        for part in await request.node.transactions.ask_all(
            lambda shard, now: shard.handle_list(asked, now, matches)
        ):
            answer.transaction_states += part.transaction_states
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        return ListTransactionsResponse(error_code=error_of(problem)[0])
    kind = ResourceType.TRANSACTIONAL_ID
    answer.transaction_states = [
        each
        for each in answer.transaction_states
        if request.access.allows(Operation.DESCRIBE, kind, each.transactional_id)
    ]
    return answer
