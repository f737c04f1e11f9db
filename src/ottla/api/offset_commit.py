"""OffsetCommit, versions 2 to 10: a group's positions. KIP-848: from version 10 by topic id."""

from msgspec.structs import replace

from ottla.api.authorization import Inside
from ottla.api.pieces import MOST_TOGETHER, pieces
from ottla.api.registry import Request, api
from ottla.api.topic_rights import may_use_topic, split_allowed
from ottla.later import Later
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


@api(
    ApiKey.OFFSET_COMMIT,
    2,
    10,
    OffsetCommitRequest,
    pieces("topics.partitions", "topics.partitions", MOST_TOGETHER),
    authorize=Inside((Operation.READ, ResourceType.GROUP), (Operation.READ, ResourceType.TOPIC)),
)
def offset_commit(
    request: Request, asked: OffsetCommitRequest
) -> OffsetCommitResponse | Later[OffsetCommitResponse]:
    """Keep the offsets; the answer leaves when a crash cannot lose them."""
    if not request.access.may(Operation.READ, ResourceType.GROUP, asked.group_id):
        return _refuse(asked, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    rest, hidden = split_allowed(
        asked.topics,
        lambda topic: may_use_topic(request, Operation.READ, topic.name, topic.topic_id),
    )
    if not hidden:
        return _commit(request, asked)
    refused = _refuse(replace(asked, topics=hidden), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not rest:
        return refused
    answer = _commit(request, replace(asked, topics=rest))
    if isinstance(answer, OffsetCommitResponse):
        return _joined(answer, refused)
    return answer.map(lambda committed: _joined(committed, refused))


def _joined(committed: OffsetCommitResponse, refused: OffsetCommitResponse) -> OffsetCommitResponse:
    return replace(committed, topics=committed.topics + refused.topics)


def _commit(
    request: Request, asked: OffsetCommitRequest
) -> OffsetCommitResponse | Later[OffsetCommitResponse]:
    return request.node.groups.ask_lingering(
        asked.group_id,
        lambda shard, now: shard.handle_offset_commit(asked, request.context, now),
        lambda code, _: _refuse(asked, code),
        request.connection_id,
    )


def _refuse(asked: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in asked.topics
        ]
    )
