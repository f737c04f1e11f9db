"""Heartbeat, versions 0 to 4: a member of a classic group is alive."""

from ottla.api.authorization import OnGroup
from ottla.api.registry import Request, api
from ottla.later import Later
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@api(ApiKey.HEARTBEAT, 0, 4, HeartbeatRequest, authorize=OnGroup(Operation.READ, "group_id"))
def heartbeat(
    request: Request, asked: HeartbeatRequest
) -> HeartbeatResponse | Later[HeartbeatResponse]:
    """Keep the member's session."""
    return request.node.groups.ask(
        asked.group_id,
        lambda shard, now: shard.handle_heartbeat(asked, request.context, now),
        lambda code, _: HeartbeatResponse(error_code=code),
    )
