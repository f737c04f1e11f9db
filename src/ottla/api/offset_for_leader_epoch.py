"""OffsetForLeaderEpoch, versions 2 to 4: where a leader epoch ends in this log (KIP-320)."""

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@api(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    2,
    4,
    OffsetForLeaderEpochRequest,
    pieces("topics.partitions", "topics.partitions"),
    authorize=Inside(
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER), (Operation.DESCRIBE, ResourceType.TOPIC)
    ),
)
def offset_for_leader_epoch(
    request: Request, asked: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Tell each partition's end offset for the epoch asked, or for the one before it."""
    answer = OffsetForLeaderEpochResponse()
    access = request.access
    is_broker = access.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    for topic in asked.topics:
        results = OffsetForLeaderTopicResult(topic=topic.topic)
        answer.topics.append(results)
        sees = is_broker or access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        for wanted in topic.partitions:
            try:
                if not sees:
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                result = _end_of(request, topic.topic, wanted)
            except Exception as problem:  # noqa: BLE001 one partition's failure is not the others'
                code, _ = error_of(problem)
                result = EpochEndOffset(error_code=code, partition=wanted.partition)
            results.partitions.append(result)
    return answer


def _end_of(request: Request, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    epoch = wanted.current_leader_epoch
    partition = request.node.partitions.find(topic, wanted.partition, epoch)
    partition.check_leader_epoch(epoch)
    if partition.log.offline:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    result = EpochEndOffset(partition=wanted.partition)
    found = partition.end_of_epoch(wanted.leader_epoch)
    if found is not None:
        result.leader_epoch, result.end_offset = found
    return result
