"""OffsetFetch, versions 1 to 10: the positions of groups (KIP-447 stable, KIP-709 many groups)."""

from collections.abc import Awaitable

from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.broker.scheduling.waiting import settled
from ottla.coordinator.offsets.fetch import groups_of, refuse, reply_of
from ottla.later import Later
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

Answer = OffsetFetchResponseGroup | Later[OffsetFetchResponseGroup]


@api(
    ApiKey.OFFSET_FETCH,
    1,
    10,
    OffsetFetchRequest,
    pieces("groups.topics.partition_indexes", "groups.topics.partitions"),
    pieces("topics.partition_indexes", "topics.partitions"),
)
def offset_fetch(
    request: Request, asked: OffsetFetchRequest
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Tell the committed offsets of each group."""
    answers = [_ask(request, group, asked) for group in groups_of(asked, request.version)]
    known = [one for one in answers if not isinstance(one, Later)]
    if len(known) == len(answers):
        return reply_of(known, request.version)
    return _when_known(answers, request.version)


def _ask(request: Request, group: OffsetFetchRequestGroup, asked: OffsetFetchRequest) -> Answer:
    return request.node.groups.ask(
        group.group_id,
        lambda shard, now: shard.handle_offset_fetch(
            group, request.context, now, require_stable=asked.require_stable
        ),
        lambda code, _: refuse(group, code, request.version),
    )


async def _when_known(answers: list[Answer], version: int) -> OffsetFetchResponse:
    groups = [await settled(one) for one in answers]
    return reply_of(groups, version)
