"""ListGroups, versions 0 to 5: the groups of this broker (KIP-518 states, KIP-848 types)."""

from ottla.api.registry import Request, api, error_of
from ottla.wire.apis import ApiKey
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


@api(ApiKey.LIST_GROUPS, 0, 5, ListGroupsRequest)
async def list_groups(request: Request, asked: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups of every coordinator partition here that pass the filters."""
    answer = ListGroupsResponse()
    try:
        parts: list[list[ListedGroup]] = await request.node.groups.ask_all(
            lambda shard, now: shard.handle_list_groups(asked, request.context, now)
        )
        for groups in parts:
            answer.groups += groups
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        return ListGroupsResponse(error_code=error_of(problem)[0])
    return answer
