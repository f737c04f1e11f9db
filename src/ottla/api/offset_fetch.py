"""OffsetFetch, versions 1 to 10: the positions of groups (KIP-447 stable, KIP-709 many groups)."""

from collections.abc import Awaitable

from msgspec.structs import replace

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.api.topic_rights import may_use_topic, split_allowed
from ottla.broker.scheduling.waiting import settled
from ottla.coordinator.offsets.fetch import groups_of, refuse, reply_of, same_for_all
from ottla.later import Later
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)

Answer = OffsetFetchResponseGroup | Later[OffsetFetchResponseGroup]


@api(
    ApiKey.OFFSET_FETCH,
    1,
    10,
    OffsetFetchRequest,
    pieces("groups.topics.partition_indexes", "groups.topics.partitions"),
    pieces("topics.partition_indexes", "topics.partitions"),
    authorize=Inside(
        (Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)
    ),
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
    """The offsets of one group that the client may see."""
    if not request.access.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
        return refuse(group, ErrorCode.GROUP_AUTHORIZATION_FAILED, request.version)
    if group.topics is None:
        answer = _committed(request, group, asked)
        if isinstance(answer, Later):
            return answer.map(lambda found: _without_hidden(request, found))
        return _without_hidden(request, answer)
    rest, hidden = split_allowed(
        group.topics,
        lambda topic: may_use_topic(request, Operation.DESCRIBE, topic.name, topic.topic_id),
    )
    if not hidden:
        return _committed(request, group, asked)
    refused = [same_for_all(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in hidden]
    answer = _committed(request, replace(group, topics=rest), asked)
    if isinstance(answer, Later):
        return answer.map(lambda found: replace(found, topics=found.topics + refused))
    return replace(answer, topics=answer.topics + refused)


def _without_hidden(request: Request, found: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
    """All that a group has committed, but for topics that the client may not see."""
    by_id = request.node.image.topics_by_id

    def sees(topic: OffsetFetchResponseTopics) -> bool:
        known = by_id.get(topic.topic_id)
        name = topic.name or ("" if known is None else known.name)
        return request.access.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)

    return replace(found, topics=[topic for topic in found.topics if sees(topic)])


def _committed(
    request: Request, group: OffsetFetchRequestGroup, asked: OffsetFetchRequest
) -> Answer:
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
