"""SyncGroup, versions 0 to 5: get the partitions that the leader of a classic group gave out."""

from ottla.api.authorization import OnGroup
from ottla.api.registry import Request, api
from ottla.later import Later
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@api(ApiKey.SYNC_GROUP, 0, 5, SyncGroupRequest, authorize=OnGroup(Operation.READ, "group_id"))
def sync_group(
    request: Request, asked: SyncGroupRequest
) -> SyncGroupResponse | Later[SyncGroupResponse]:
    """The answer comes with the leader's assignment."""
    return request.node.groups.ask(
        asked.group_id,
        lambda shard, now: shard.handle_sync_group(asked, request.context, now),
        lambda code, _: SyncGroupResponse(error_code=code),
    )
