"""ConsumerGroupHeartbeat, versions 0 and 1: all that a member of a new group says (KIP-848)."""

from ottla.api.authorization import Inside
from ottla.api.group_protocols import serves
from ottla.api.registry import Request, api
from ottla.coordinator.group import GroupType
from ottla.later import Later
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


@api(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    0,
    1,
    ConsumerGroupHeartbeatRequest,
    authorize=Inside(
        (Operation.READ, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)
    ),
)
def consumer_group_heartbeat(
    request: Request, asked: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Later[ConsumerGroupHeartbeatResponse]:
    """Join, stay, acknowledge or leave; the answer has the partitions."""
    if not serves(request, GroupType.CONSUMER):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    access = request.access
    if not access.may(Operation.READ, ResourceType.GROUP, asked.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for name in asked.subscribed_topic_names or ():
        if not access.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return request.node.groups.ask(
        asked.group_id,
        lambda shard, now: shard.handle_consumer_group_heartbeat(asked, request.context, now),
        lambda code, _: ConsumerGroupHeartbeatResponse(error_code=code),
    )
