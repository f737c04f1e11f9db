"""StreamsGroupDescribe, version 0: state, topology and members of streams groups (KIP-1071)."""

from ottla.api.authorization import Inside
from ottla.api.group_protocols import serves
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.coordinator.group import GroupType
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

DESCRIBE = Operation.DESCRIBE
HIDDEN = "The described group uses topics that the client is not authorized to describe."


@api(
    ApiKey.STREAMS_GROUP_DESCRIBE,
    0,
    0,
    StreamsGroupDescribeRequest,
    pieces("group_ids", "groups"),
    authorize=Inside(
        (Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)
    ),
)
async def streams_group_describe(
    request: Request, asked: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    """Describe each group."""
    if not serves(request, GroupType.STREAMS):
        code = ErrorCode.UNSUPPORTED_VERSION
        return StreamsGroupDescribeResponse(
            groups=[DescribedGroup(group_id=each, error_code=code) for each in asked.group_ids]
        )
    access = request.access
    allowed, refused = [], []
    for each in asked.group_ids:
        if access.may(DESCRIBE, ResourceType.GROUP, each):
            allowed.append(each)
        else:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            refused.append(DescribedGroup(group_id=each, error_code=code))
    groups = await request.node.groups.ask_about(
        allowed,
        lambda shard, ids, now: shard.handle_streams_group_describe(ids, request.context, now),
        lambda group_id, code, message: DescribedGroup(
            group_id=group_id, error_code=code, error_message=message
        ),
    )
    for group in groups:
        if asked.include_authorized_operations and not group.error_code:
            group.authorized_operations = access.operations(ResourceType.GROUP, group.group_id)
    shown = [_shown(request, group) for group in groups]
    return StreamsGroupDescribeResponse(groups=[*refused, *shown])


def _shown(request: Request, group: DescribedGroup) -> DescribedGroup:
    """The group, or no more than its name to a client that may not see its topics."""
    subtopologies = [] if group.topology is None else group.topology.subtopologies or []
    topics = {
        name
        for each in subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    }
    if all(request.access.allows(DESCRIBE, ResourceType.TOPIC, each) for each in topics):
        return group
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DescribedGroup(group_id=group.group_id, error_code=code, error_message=HIDDEN)
