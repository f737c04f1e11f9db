"""DescribeShareGroupOffsets, versions 0 and 1: where share groups are; from 1 on with lag.

A tagged field of ours asks for the records in flight of the partitions that this broker leads.
"""

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.wire.share_in_flight import DescribeInFlightRequest, DescribeInFlightResponse, InFlight

DESCRIBE = Operation.DESCRIBE
UNKNOWN = -1


@api(
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    0,
    1,
    DescribeInFlightRequest,
    pieces("groups.topics.partitions", "groups.topics.partitions"),
    authorize=Inside(
        (Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)
    ),
)
async def describe_share_group_offsets(
    request: Request, asked: DescribeInFlightRequest
) -> DescribeShareGroupOffsetsResponse:
    """Describe the share partitions of each group, all or those named."""
    if asked.in_flight:
        return DescribeInFlightResponse(in_flight=_in_flight(request, asked))
    answer = DescribeShareGroupOffsetsResponse()
    for group in asked.groups:
        try:
            answer.groups.append(await _group(request, group))
        except Exception as problem:  # noqa: BLE001 the reply says what went wrong
            code, message = error_of(problem)
            answer.groups.append(
                DescribeShareGroupOffsetsResponseGroup(
                    group_id=group.group_id, error_code=code, error_message=message
                )
            )
    return answer


def _in_flight(request: Request, asked: DescribeInFlightRequest) -> list[InFlight]:
    """Of the groups and topics that the client may describe; of others nothing is said."""
    access = request.access
    groups = {
        each.group_id
        for each in asked.groups
        if access.may(DESCRIBE, ResourceType.GROUP, each.group_id)
    }
    return [
        InFlight(
            group_id=live.key.group,
            topic_id=live.key.where.topic_id,
            partition=live.key.where.partition,
            records=live.machine.in_flight,
        )
        for live in request.node.sharing.live_partitions
        if live.key.group in groups
        and live.machine is not None
        and access.allows(DESCRIBE, ResourceType.TOPIC, live.partition.topic)
    ]


async def _group(
    request: Request, group: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    access, share_groups = request.access, request.node.share_groups
    access.check(DESCRIBE, ResourceType.GROUP, group.group_id)
    if group.topics is None:
        topics = await share_groups.describe_all(group.group_id, request.context)
        seen = [
            each for each in topics if access.allows(DESCRIBE, ResourceType.TOPIC, each.topic_name)
        ]
        return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=seen)
    if not group.topics:
        return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id)
    allowed, hidden = [], []
    for each in group.topics:
        if access.may(DESCRIBE, ResourceType.TOPIC, each.topic_name):
            allowed.append(each)
        else:
            hidden.append(_hidden(each))
    found = await share_groups.describe(group.group_id, allowed)
    return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=[*found, *hidden])


def _hidden(topic: DescribeShareGroupOffsetsRequestTopic) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=number,
                start_offset=UNKNOWN,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
            for number in topic.partitions
        ],
    )
