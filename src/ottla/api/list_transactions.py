"""ListTransactions, versions 0 to 2: the transactions here (KIP-664, KIP-994, KIP-1152)."""

from ottla.api.registry import Request, api, error_of
from ottla.broker.patterns import full_matcher
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


@api(ApiKey.LIST_TRANSACTIONS, 0, 2, ListTransactionsRequest)
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
    answer = ListTransactionsResponse()
    try:
        parts: list[ListTransactionsResponse] = await request.node.transactions.ask_all(
            lambda shard, now: shard.handle_list(asked, now, matches)
        )
        for part in parts:
            answer.unknown_state_filters = part.unknown_state_filters
            answer.transaction_states += part.transaction_states
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        return ListTransactionsResponse(error_code=error_of(problem)[0])
    return answer
