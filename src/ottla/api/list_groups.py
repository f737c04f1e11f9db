"""ListGroups, versions 0 to 5: the groups of this broker (KIP-518 states, KIP-848 types)."""

from ottla.api.authorization import Inside
from ottla.api.registry import Request, api, error_of
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@api(
    ApiKey.LIST_GROUPS,
    0,
    5,
    ListGroupsRequest,
    authorize=Inside(
        (Operation.DESCRIBE, ResourceType.CLUSTER), (Operation.DESCRIBE, ResourceType.GROUP)
    ),
)
async def list_groups(request: Request, asked: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups of every coordinator partition here that pass the filters."""
    answer = ListGroupsResponse()
    try:
        for groups in await request.node.groups.ask_all(
            lambda shard, now: shard.handle_list_groups(asked, request.context, now)
        ):
            answer.groups += groups
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        return ListGroupsResponse(error_code=error_of(problem)[0])
    access = request.access
    if not access.allows(Operation.DESCRIBE, ResourceType.CLUSTER):
        answer.groups = [
            each
            for each in answer.groups
            if access.allows(Operation.DESCRIBE, ResourceType.GROUP, each.group_id)
        ]
    return answer
