"""ShareGroupHeartbeat, version 1: all that a member of a share group says (KIP-932)."""

from ottla.api.authorization import Inside
from ottla.api.registry import Request, api
from ottla.later import Later
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


@api(
    ApiKey.SHARE_GROUP_HEARTBEAT,
    1,
    1,
    ShareGroupHeartbeatRequest,
    authorize=Inside(
        (Operation.READ, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)
    ),
)
def share_group_heartbeat(
    request: Request, asked: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Later[ShareGroupHeartbeatResponse]:
    """Join, stay or leave; the answer has the partitions."""
    access = request.access
    if not access.may(Operation.READ, ResourceType.GROUP, asked.group_id):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for name in asked.subscribed_topic_names or ():
        if not access.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            return ShareGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return request.node.groups.ask(
        asked.group_id,
        lambda shard, now: shard.handle_share_group_heartbeat(asked, request.context, now),
        lambda code, message: ShareGroupHeartbeatResponse(error_code=code, error_message=message),
    )
