"""DescribeGroups, versions 0 to 6: state and members of classic groups."""

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.api.topic_rights import split_allowed
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


@api(
    ApiKey.DESCRIBE_GROUPS,
    0,
    6,
    DescribeGroupsRequest,
    pieces("groups", "groups"),
    authorize=Inside((Operation.DESCRIBE, ResourceType.GROUP)),
)
async def describe_groups(request: Request, asked: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe each group."""
    access = request.access
    seen, refused = split_allowed(
        asked.groups, lambda each: access.may(Operation.DESCRIBE, ResourceType.GROUP, each)
    )
    hidden = [
        DescribedGroup(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for each in refused
    ]
    groups = await request.node.groups.ask_about(
        seen,
        lambda shard, ids, now: shard.handle_describe_groups(ids, request.context, now),
        lambda group_id, code, message: DescribedGroup(
            group_id=group_id, error_code=code, error_message=message
        ),
    )
    if asked.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = access.operations(ResourceType.GROUP, group.group_id)
    return DescribeGroupsResponse(groups=[*hidden, *groups])
