"""OffsetDelete, version 0: forget positions of a group (KIP-496)."""

from ottla.api.registry import Request, api
from ottla.broker.promise import Promise
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


@api(ApiKey.OFFSET_DELETE, 0, 0, OffsetDeleteRequest)
def offset_delete(
    request: Request, asked: OffsetDeleteRequest
) -> OffsetDeleteResponse | Promise[OffsetDeleteResponse]:
    """Delete offsets of partitions that no member of the group reads."""
    return request.node.groups.ask(
        asked.group_id,
        lambda shard, now: shard.handle_offset_delete(asked, request.context, now),
        lambda code, _: OffsetDeleteResponse(error_code=code),
    )
