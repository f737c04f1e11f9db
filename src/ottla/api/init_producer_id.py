"""InitProducerId, versions 0 to 5: an id and epoch for a producer (KIP-98, KIP-360).

With a transactional id the transaction coordinator decides; without one any new id does.
As in Kafka, a timeout that none would accept is refused where there is no coordinator yet, too.
"""

from ottla.api.authorization import Inside
from ottla.api.registry import Request, api, error_of
from ottla.coordinator.transactions.init import check_timeout
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID = -1
NO_EPOCH = -1


@api(
    ApiKey.INIT_PRODUCER_ID,
    0,
    5,
    InitProducerIdRequest,
    authorize=Inside(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        (Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
        (Operation.WRITE, ResourceType.TOPIC),
    ),
)
async def init_producer_id(
    request: Request, asked: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Give a producer its id and epoch."""
    node = request.node
    try:
        _check(request, asked.transactional_id)
        if (asked.producer_id == NO_PRODUCER_ID) != (asked.producer_epoch == NO_EPOCH):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if asked.transactional_id is None:
            return InitProducerIdResponse(producer_id=await node.producer_ids.next())
        if not asked.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        check_timeout(asked.transaction_timeout_ms, node.config.transaction_max_timeout_ms)
        runner = node.transactions.runner_of(asked.transactional_id)
        return await runner.ask_with_producer_id(
            lambda shard, now, new_id: shard.handle_init_producer_id(
                asked, request.context, now, new_id
            )
        )
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        return InitProducerIdResponse(error_code=error_of(problem)[0], producer_epoch=NO_EPOCH)


def _check(request: Request, transactional_id: str | None) -> None:
    """Who may write to any topic may have an id without a transaction (KIP-679)."""
    access = request.access
    if transactional_id is not None:
        access.check(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    elif not access.allows_any(Operation.WRITE, ResourceType.TOPIC):
        access.check(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
