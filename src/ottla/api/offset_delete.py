"""OffsetDelete, version 0: forget positions of a group (KIP-496)."""

from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.later import Later
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


@api(
    ApiKey.OFFSET_DELETE,
    0,
    0,
    OffsetDeleteRequest,
    pieces("topics.partitions", "topics.partitions"),
)
def offset_delete(
    request: Request, asked: OffsetDeleteRequest
) -> OffsetDeleteResponse | Later[OffsetDeleteResponse]:
    """Delete offsets of partitions that no member of the group reads."""
    return request.node.groups.ask(
        asked.group_id,
        lambda shard, now: shard.handle_offset_delete(asked, request.context, now),
        lambda code, _: OffsetDeleteResponse(error_code=code),
        decides_only=True,
    )
