"""JoinGroup, versions 0 to 9: become a member of a classic group (KIP-345, KIP-394, KIP-800)."""

from collections.abc import Awaitable

from ottla.api.registry import Request, api
from ottla.wire.apis import ApiKey
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


@api(ApiKey.JOIN_GROUP, 0, 9, JoinGroupRequest)
def join_group(
    request: Request, asked: JoinGroupRequest
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Join; the answer comes when the rebalance is complete."""
    return request.node.groups.ask(
        asked.group_id,
        lambda shard, now: shard.handle_join_group(asked, request.context, now),
        lambda code, _: JoinGroupResponse(error_code=code),
    )
