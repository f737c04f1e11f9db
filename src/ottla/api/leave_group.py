"""LeaveGroup, versions 0 to 5: members leave a classic group (KIP-345, KIP-800)."""

from ottla.api.authorization import OnGroup
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.later import Later
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


@api(
    ApiKey.LEAVE_GROUP,
    0,
    5,
    LeaveGroupRequest,
    pieces("members", "members"),
    authorize=OnGroup(Operation.READ, "group_id"),
)
def leave_group(
    request: Request, asked: LeaveGroupRequest
) -> LeaveGroupResponse | Later[LeaveGroupResponse]:
    """Remove the members named."""
    return request.node.groups.ask(
        asked.group_id,
        lambda shard, now: shard.handle_leave_group(asked, request.context, now),
        lambda code, _: LeaveGroupResponse(error_code=code),
    )
