"""DescribeTopicPartitions, version 0: topics in pages of a bounded size (KIP-966)."""

from ottla.api.authorization import Inside
from ottla.api.metadata import NO_LEADER, unreachable
from ottla.api.registry import Request, api
from ottla.config.topic_names import INTERNAL_TOPICS, topic_name_problem
from ottla.metadata.image import TopicImage
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


@api(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    0,
    0,
    DescribeTopicPartitionsRequest,
    authorize=Inside((Operation.DESCRIBE, ResourceType.TOPIC)),
)
def describe_topic_partitions(
    request: Request, asked: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Describe the topics named, or all, in order of names, from the cursor on."""
    node = request.node
    topics = node.image.topics
    may = request.access.may if asked.topics else request.access.allows
    names = sorted({topic.name for topic in asked.topics} if asked.topics else topics)
    left = max(1, min(asked.response_partition_limit, node.config.max_request_partition_size_limit))
    first = 0
    answer = DescribeTopicPartitionsResponse()
    cursor = asked.cursor
    if cursor is not None and (
        cursor.partition_index < 0 or (asked.topics and cursor.topic_name not in names)
    ):
        answer.topics = [
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name)
            for name in names
        ]
        return answer
    for name in names:
        if cursor is not None:
            if name < cursor.topic_name:
                continue
            first = cursor.partition_index if name == cursor.topic_name else 0
        topic = topics.get(name)
        if not may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            if asked.topics:
                answer.topics.append(_hidden(name))
            continue
        if topic is None:
            answer.topics.append(_missing(name))
            continue
        if left == 0:
            answer.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        stop = min(len(topic.assignment), first + left)
        answer.topics.append(_describe(request, topic, range(first, stop)))
        left -= max(0, stop - first)
        if stop < len(topic.assignment):
            answer.next_cursor = Cursor(topic_name=name, partition_index=stop)
            break
    return answer


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
    )


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    bad = topic_name_problem(name) is not None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.INVALID_TOPIC_EXCEPTION
        if bad
        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
    )


def _describe(
    request: Request, topic: TopicImage, indexes: range
) -> DescribeTopicPartitionsResponseTopic:
    result = DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=request.access.operations(ResourceType.TOPIC, topic.name),
    )
    hidden = unreachable(request)
    for index in indexes:
        leader = request.node.leaders.of(topic.name, index)
        replicas = topic.assignment[index]
        gone = {*leader.offline, *hidden}
        # Unlike in Metadata it is no error that nobody leads.
        result.partitions.append(
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=NO_LEADER if leader.id in hidden else leader.id,
                leader_epoch=leader.epoch,
                replica_nodes=replicas,
                isr_nodes=leader.isr,
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=[one for one in replicas if one in gone] if gone else [],
            )
        )
    return result
