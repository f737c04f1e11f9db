"""OffsetFetch, versions 1 to 10: the positions of groups (KIP-447 stable, KIP-709 many groups)."""

from ottla.api.registry import Request, api, settled
from ottla.coordinator.offset_fetch import groups_of, refuse, reply_of
from ottla.wire.apis import ApiKey
from ottla.wire.errors import KafkaError
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)


@api(ApiKey.OFFSET_FETCH, 1, 10, OffsetFetchRequest)
async def offset_fetch(request: Request, asked: OffsetFetchRequest) -> OffsetFetchResponse:
    """Tell the committed offsets of each group."""
    version = request.version
    groups = [await _fetch(request, group, asked) for group in groups_of(asked, version)]
    return reply_of(groups, version)


async def _fetch(
    request: Request, group: OffsetFetchRequestGroup, asked: OffsetFetchRequest
) -> OffsetFetchResponseGroup:
    try:
        runner = request.node.groups.runner_of(group.group_id)
        return await settled(
            runner.ask(
                lambda shard, now: shard.handle_offset_fetch(
                    group, request.context, now, require_stable=asked.require_stable
                )
            )
        )
    except KafkaError as problem:
        return refuse(group, problem.code, request.version)
