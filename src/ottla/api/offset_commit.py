"""OffsetCommit, versions 2 to 10: a group's positions. KIP-848: from version 10 by topic id."""

from ottla.api.pieces import MOST_TOGETHER, pieces
from ottla.api.registry import Request, api
from ottla.later import Later
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
)
def offset_commit(
    request: Request, asked: OffsetCommitRequest
) -> OffsetCommitResponse | Later[OffsetCommitResponse]:
    """Keep the offsets; the answer leaves when a crash cannot lose them."""
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
