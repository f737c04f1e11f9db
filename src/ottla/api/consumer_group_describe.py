"""ConsumerGroupDescribe, versions 0 and 1: state and members of new groups (KIP-848)."""

from ottla.api.authorization import Inside
from ottla.api.group_protocols import serves
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.coordinator.group import GroupType
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

DESCRIBE = Operation.DESCRIBE
HIDDEN = "The group has described topic(s) that the client is not authorized to describe."


@api(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    0,
    1,
    ConsumerGroupDescribeRequest,
    pieces("group_ids", "groups"),
    authorize=Inside(
        (Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)
    ),
)
async def consumer_group_describe(
    request: Request, asked: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Describe each group."""
    if not serves(request, GroupType.CONSUMER):
        code = ErrorCode.UNSUPPORTED_VERSION
        return ConsumerGroupDescribeResponse(
            groups=[DescribedGroup(group_id=each, error_code=code) for each in asked.group_ids]
        )
    access = request.access
    groups = await request.node.groups.ask_about(
        [each for each in asked.group_ids if access.allows(DESCRIBE, ResourceType.GROUP, each)],
        lambda shard, ids, now: shard.handle_consumer_group_describe(ids, request.context, now),
        lambda group_id, code, message: DescribedGroup(
            group_id=group_id, error_code=code, error_message=message
        ),
    )
    if asked.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = access.operations(ResourceType.GROUP, group.group_id)
    for group in groups:
        _hide_topics(request, group)
    return ConsumerGroupDescribeResponse(
        groups=[
            *(
                DescribedGroup(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
                for each in asked.group_ids
                if not access.may(DESCRIBE, ResourceType.GROUP, each)
            ),
            *groups,
        ]
    )


def _hide_topics(request: Request, group: DescribedGroup) -> None:
    """Do not tell members if the client may not see a topic that they read."""
    topics = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if not all(request.access.allows(DESCRIBE, ResourceType.TOPIC, each) for each in topics):
        group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        group.error_message = HIDDEN
        group.members = []
