"""DeleteShareGroupOffsets, version 0: forget where an empty share group is in some topics."""

from msgspec.structs import replace

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


@api(
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    0,
    0,
    DeleteShareGroupOffsetsRequest,
    pieces("topics", "responses"),
    authorize=Inside((Operation.DELETE, ResourceType.GROUP), (Operation.READ, ResourceType.TOPIC)),
)
async def delete_share_group_offsets(
    request: Request, asked: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """Delete the state of the share partitions of each topic."""
    access = request.access
    if not access.may(Operation.DELETE, ResourceType.GROUP, asked.group_id):
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    allowed, hidden = [], []
    for each in asked.topics:
        if access.may(Operation.READ, ResourceType.TOPIC, each.topic_name):
            allowed.append(each)
        else:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            hidden.append(
                DeleteShareGroupOffsetsResponseTopic(topic_name=each.topic_name, error_code=code)
            )
    try:
        topics = await request.node.share_groups.delete(replace(asked, topics=allowed))
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        code, message = error_of(problem)
        return DeleteShareGroupOffsetsResponse(error_code=code, error_message=message)
    return DeleteShareGroupOffsetsResponse(responses=[*hidden, *topics])
