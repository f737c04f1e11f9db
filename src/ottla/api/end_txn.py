"""EndTxn, versions 0 to 5: commit or abort a transaction (KIP-98, KIP-890)."""

from ottla.api.authorization import OnTransaction
from ottla.api.registry import Request, api, error_of
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


@api(
    ApiKey.END_TXN,
    0,
    5,
    EndTxnRequest,
    authorize=OnTransaction(Operation.WRITE, "transactional_id"),
)
async def end_txn(request: Request, asked: EndTxnRequest) -> EndTxnResponse:
    """Let the coordinator decide; the markers follow after the answer."""
    try:
        runner = request.node.transactions.runner_of(asked.transactional_id)
        return await runner.ask_with_producer_id(
            lambda shard, now, new_id: shard.handle_end_txn(asked, request.context, now, new_id)
        )
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        return EndTxnResponse(error_code=error_of(problem)[0])
