"""DeleteRecords, versions 0 to 2: raise a partition's first offset (KIP-107)."""

from ottla.api.registry import Request, api, error_of
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

TO_THE_END = -1
NO_LOW_WATERMARK = -1


@api(ApiKey.DELETE_RECORDS, 0, 2, DeleteRecordsRequest)
async def delete_records(request: Request, asked: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete what lies before each offset named; answered when a restart cannot undo it."""
    answer = DeleteRecordsResponse()
    for topic in asked.topics:
        results = DeleteRecordsTopicResult(name=topic.name)
        answer.topics.append(results)
        for wanted in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index)
            results.partitions.append(result)
            try:
                result.low_watermark = _delete(
                    request, topic.name, wanted.partition_index, wanted.offset
                )
            except Exception as problem:  # noqa: BLE001 one partition's failure is not the others'
                result.error_code, _ = error_of(problem)
                result.low_watermark = NO_LOW_WATERMARK
    try:
        await request.node.maintenance.checkpoint_start_offsets()
    except OSError as problem:
        code, _ = error_of(problem)
        for result in (each for topic in answer.topics for each in topic.partitions):
            if not result.error_code:
                result.error_code, result.low_watermark = code, NO_LOW_WATERMARK
    return answer


def _delete(request: Request, topic: str, index: int, offset: int) -> int:
    partition = request.node.partitions.find(topic, index)
    if "delete" not in partition.log.config.cleanup_policy:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "the topic is compacted, not deleted from")
    if offset == TO_THE_END:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    partition.log.raise_start_offset(offset)
    partition.wake_readers()
    return partition.log.start_offset
