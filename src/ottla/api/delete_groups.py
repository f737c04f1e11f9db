"""DeleteGroups, versions 0 to 2: forget groups without members, with their offsets.

The state of a share group's partitions is deleted before the group.
"""

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.api.topic_rights import split_allowed
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@api(
    ApiKey.DELETE_GROUPS,
    0,
    2,
    DeleteGroupsRequest,
    pieces("groups_names", "results"),
    authorize=Inside((Operation.DELETE, ResourceType.GROUP)),
)
async def delete_groups(request: Request, asked: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete each group."""
    access = request.access
    allowed, hidden = split_allowed(
        asked.groups_names, lambda each: access.may(Operation.DELETE, ResourceType.GROUP, each)
    )
    refused = [
        DeletableGroupResult(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for each in hidden
    ]
    failed = {}
    for group_id in dict.fromkeys(allowed):
        code = await request.node.share_groups.delete_state_of_group(group_id)
        if code:
            failed[group_id] = DeletableGroupResult(group_id=group_id, error_code=code)
    groups = await request.node.groups.ask_about(
        [each for each in allowed if each not in failed],
        lambda shard, ids, now: shard.handle_delete_groups(ids, request.context, now),
        lambda group_id, code, _: DeletableGroupResult(group_id=group_id, error_code=code),
    )
    return DeleteGroupsResponse(results=[*refused, *failed.values(), *groups])
