"""DescribeGroups, versions 0 to 6: state and members of classic groups."""

from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.broker.metadata.authorized import ON_A_GROUP
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


@api(ApiKey.DESCRIBE_GROUPS, 0, 6, DescribeGroupsRequest, pieces("groups", "groups"))
async def describe_groups(request: Request, asked: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe each group."""
    groups = await request.node.groups.ask_about(
        asked.groups,
        lambda shard, ids, now: shard.handle_describe_groups(ids, request.context, now),
        lambda group_id, code, message: DescribedGroup(
            group_id=group_id, error_code=code, error_message=message
        ),
    )
    if asked.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = ON_A_GROUP
    return DescribeGroupsResponse(groups=groups)
