"""InitProducerId, versions 0 to 5: an id for a producer that wants no duplicates (KIP-98)."""

from ottla.api.registry import Request, api, error_of
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


@api(ApiKey.INIT_PRODUCER_ID, 0, 5, InitProducerIdRequest)
async def init_producer_id(
    request: Request, asked: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Give out a new producer id with epoch 0."""
    if asked.transactional_id is not None:
        code = (
            ErrorCode.COORDINATOR_NOT_AVAILABLE
            if asked.transactional_id
            else ErrorCode.INVALID_REQUEST
        )
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    try:
        return InitProducerIdResponse(producer_id=await request.node.new_producer_id())
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        return InitProducerIdResponse(error_code=error_of(problem)[0], producer_epoch=-1)
