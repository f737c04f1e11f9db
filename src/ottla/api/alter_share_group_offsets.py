"""AlterShareGroupOffsets, version 0: give an empty share group other start offsets."""

from msgspec.structs import replace

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


@api(
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    0,
    0,
    AlterShareGroupOffsetsRequest,
    pieces("topics.partitions", "responses.partitions"),
    authorize=Inside((Operation.READ, ResourceType.GROUP), (Operation.READ, ResourceType.TOPIC)),
)
async def alter_share_group_offsets(
    request: Request, asked: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Set the start offsets of share partitions."""
    access = request.access
    if not access.may(Operation.READ, ResourceType.GROUP, asked.group_id):
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    allowed, hidden = [], []
    for topic in asked.topics:
        if access.may(Operation.READ, ResourceType.TOPIC, topic.topic_name):
            allowed.append(topic)
        else:
            hidden.append(_hidden(topic))
    try:
        topics = await request.node.share_groups.alter(replace(asked, topics=allowed))
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        code, message = error_of(problem)
        return AlterShareGroupOffsetsResponse(error_code=code, error_message=message)
    return AlterShareGroupOffsetsResponse(responses=[*topics, *hidden])


def _hidden(topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index, error_code=code
            )
            for each in topic.partitions
        ],
    )
