"""ConsumerGroupDescribe, versions 0 and 1: state and members of new groups (KIP-848)."""

from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.broker.metadata.authorized import ON_A_GROUP
from ottla.wire.apis import ApiKey
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


@api(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    0,
    1,
    ConsumerGroupDescribeRequest,
    pieces("group_ids", "groups"),
)
async def consumer_group_describe(
    request: Request, asked: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Describe each group."""
    groups = await request.node.groups.ask_about(
        asked.group_ids,
        lambda shard, ids, now: shard.handle_consumer_group_describe(ids, request.context, now),
        lambda group_id, code, message: DescribedGroup(
            group_id=group_id, error_code=code, error_message=message
        ),
    )
    if asked.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = ON_A_GROUP
    return ConsumerGroupDescribeResponse(groups=groups)
