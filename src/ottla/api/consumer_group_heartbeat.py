"""ConsumerGroupHeartbeat, versions 0 and 1: all that a member of a new group says (KIP-848)."""

from ottla.api.registry import Request, api
from ottla.later import Later
from ottla.wire.apis import ApiKey
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


@api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, ConsumerGroupHeartbeatRequest)
def consumer_group_heartbeat(
    request: Request, asked: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Later[ConsumerGroupHeartbeatResponse]:
    """Join, stay, acknowledge or leave; the answer has the partitions."""
    return request.node.groups.ask(
        asked.group_id,
        lambda shard, now: shard.handle_consumer_group_heartbeat(asked, request.context, now),
        lambda code, _: ConsumerGroupHeartbeatResponse(error_code=code),
    )
