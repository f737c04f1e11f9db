"""DeleteGroups, versions 0 to 2: forget groups without members, with their offsets."""

from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.wire.apis import ApiKey
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@api(ApiKey.DELETE_GROUPS, 0, 2, DeleteGroupsRequest, pieces("groups_names", "results"))
async def delete_groups(request: Request, asked: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete each group."""
    groups = await request.node.groups.ask_about(
        asked.groups_names,
        lambda shard, ids, now: shard.handle_delete_groups(ids, request.context, now),
        lambda group_id, code, _: DeletableGroupResult(group_id=group_id, error_code=code),
    )
    return DeleteGroupsResponse(results=groups)
