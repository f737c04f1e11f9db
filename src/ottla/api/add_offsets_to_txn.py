"""AddOffsetsToTxn, versions 0 to 4: a group's offsets join a transaction (KIP-98)."""

from ottla.api.authorization import Inside
from ottla.api.registry import Request, api, error_of
from ottla.broker.scheduling.waiting import settled
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


@api(
    ApiKey.ADD_OFFSETS_TO_TXN,
    0,
    4,
    AddOffsetsToTxnRequest,
    authorize=Inside(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID), (Operation.READ, ResourceType.GROUP)
    ),
)
async def add_offsets_to_txn(
    request: Request, asked: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Add the partition that keeps the group's offsets to the transaction."""
    node = request.node
    try:
        request.access.check(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, asked.transactional_id)
        request.access.check(Operation.READ, ResourceType.GROUP, asked.group_id)
        await node.groups.ensure_topic()
        offsets = node.groups.partition_of(asked.group_id)
        runner = node.transactions.runner_of(asked.transactional_id)
        return await settled(
            runner.ask(
                lambda shard, now: shard.handle_add_offsets(asked, request.context, now, offsets)
            )
        )
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        return AddOffsetsToTxnResponse(error_code=error_of(problem)[0])
