"""ShareGroupDescribe, version 1: state and members of share groups (KIP-932)."""

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

DESCRIBE = Operation.DESCRIBE
HIDDEN = "The group has described topic(s) that the client is not authorized to describe."


@api(
    ApiKey.SHARE_GROUP_DESCRIBE,
    1,
    1,
    ShareGroupDescribeRequest,
    pieces("group_ids", "groups"),
    authorize=Inside(
        (Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)
    ),
)
async def share_group_describe(
    request: Request, asked: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    """Describe each group."""
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
        lambda shard, ids, now: shard.handle_share_group_describe(ids, request.context, now),
        lambda group_id, code, message: DescribedGroup(
            group_id=group_id, error_code=code, error_message=message
        ),
    )
    for group in groups:
        if asked.include_authorized_operations and not group.error_code:
            group.authorized_operations = access.operations(ResourceType.GROUP, group.group_id)
        _hide_topics(request, group)
    return ShareGroupDescribeResponse(groups=[*refused, *groups])


def _hide_topics(request: Request, group: DescribedGroup) -> None:
    """Do not tell members if the client may not see a topic that they read."""
    topics = {
        topic.topic_name for member in group.members for topic in member.assignment.topic_partitions
    }
    if not all(request.access.allows(DESCRIBE, ResourceType.TOPIC, each) for each in topics):
        group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        group.error_message = HIDDEN
        group.members = []
