"""OffsetDelete, version 0: forget positions of a group (KIP-496)."""

from msgspec.structs import replace

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.api.topic_rights import split_allowed
from ottla.later import Later
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@api(
    ApiKey.OFFSET_DELETE,
    0,
    0,
    OffsetDeleteRequest,
    pieces("topics.partitions", "topics.partitions"),
    authorize=Inside((Operation.DELETE, ResourceType.GROUP), (Operation.READ, ResourceType.TOPIC)),
)
def offset_delete(
    request: Request, asked: OffsetDeleteRequest
) -> OffsetDeleteResponse | Later[OffsetDeleteResponse]:
    """Delete offsets of partitions that no member of the group reads."""
    access = request.access
    if not access.may(Operation.DELETE, ResourceType.GROUP, asked.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    rest, hidden = split_allowed(
        asked.topics, lambda topic: access.may(Operation.READ, ResourceType.TOPIC, topic.name)
    )
    if not hidden:
        return _delete(request, asked)
    answer = _delete(request, replace(asked, topics=rest))
    if isinstance(answer, OffsetDeleteResponse):
        return _joined(answer, hidden)
    return answer.map(lambda deleted: _joined(deleted, hidden))


def _joined(
    answer: OffsetDeleteResponse, hidden: list[OffsetDeleteRequestTopic]
) -> OffsetDeleteResponse:
    refused = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                )
                for partition in topic.partitions
            ],
        )
        for topic in hidden
    ]
    return answer if answer.error_code else replace(answer, topics=answer.topics + refused)


def _delete(
    request: Request, asked: OffsetDeleteRequest
) -> OffsetDeleteResponse | Later[OffsetDeleteResponse]:
    return request.node.groups.ask(
        asked.group_id,
        lambda shard, now: shard.handle_offset_delete(asked, request.context, now),
        lambda code, _: OffsetDeleteResponse(error_code=code),
        decides_only=True,
    )
