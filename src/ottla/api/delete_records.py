"""DeleteRecords, versions 0 to 2: raise a partition's first offset (KIP-107).

Answered when every live replica has done so, for one that had not could show the records when it
leads.
"""

import asyncio

from ottla.api.registry import Request, api, error_of
from ottla.config.topic_names import INTERNAL_TOPICS
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
LOOK_AGAIN_SECONDS = 0.02


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
    deadline = asyncio.get_running_loop().time() + asked.timeout_ms / 1000
    for results in answer.topics:
        for result in results.partitions:
            if not result.error_code:
                await _followed(request, results.name, result, deadline)
    try:
        await request.node.maintenance.checkpoint_start_offsets()
    except OSError as problem:
        code, _ = error_of(problem)
        for result in (each for topic in answer.topics for each in topic.partitions):
            if not result.error_code:
                result.error_code, result.low_watermark = code, NO_LOW_WATERMARK
    return answer


def _delete(request: Request, topic: str, index: int, offset: int) -> int:
    known = 0 <= index < request.node.partitions.count_of(topic)
    if known and topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "an internal topic keeps its records")
    partition = request.node.partitions.find(topic, index)
    policy = partition.log.config.cleanup_policy
    if "compact" in policy and "delete" not in policy:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "the topic is compacted, not deleted from")
    if offset == TO_THE_END:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    partition.log.raise_start_offset(offset)
    partition.wake_all()
    return partition.log.start_offset


async def _followed(
    request: Request, topic: str, result: DeleteRecordsPartitionResult, deadline: float
) -> None:
    """Wait until the live followers have no record below the offset either."""
    node = request.node
    clock = asyncio.get_running_loop().time
    wanted = result.low_watermark
    try:
        while True:
            partition = node.partitions.find(topic, result.partition_index)
            leadership = partition.leadership
            if leadership is None:
                return
            lowest = leadership.low_watermark(partition.log.start_offset, node.image.brokers)
            if lowest >= wanted:
                result.low_watermark = lowest
                return
            if clock() >= deadline:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
    except KafkaError as problem:
        result.error_code, result.low_watermark = problem.code, NO_LOW_WATERMARK
