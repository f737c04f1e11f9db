"""DeleteRecords, versions 0 to 2: raise a partition's first offset (KIP-107).

Answered when every live replica has done so, for one that had not could show the records when it
leads. What is deleted is recorded in the partition's document first: followers take a higher log
start only where it is explained (`replication/follower.py`).
"""

import asyncio

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.broker_server import BrokerServer
from ottla.broker.replicas.partition import Partition
from ottla.config.topic_names import INTERNAL_TOPICS
from ottla.metadata.deleted_records import record_deletions
from ottla.metadata.image import PartitionKey
from ottla.metadata.store import StoreError
from ottla.security.operations import Operation, ResourceType
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


@api(
    ApiKey.DELETE_RECORDS,
    0,
    2,
    DeleteRecordsRequest,
    pieces("topics.partitions", "topics.partitions"),
    authorize=Inside((Operation.DELETE, ResourceType.TOPIC)),
)
async def delete_records(request: Request, asked: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete what lies before each offset named; answered when a restart cannot undo it."""
    answer = DeleteRecordsResponse()
    offsets: dict[PartitionKey, int] = {}
    for topic in asked.topics:
        results = DeleteRecordsTopicResult(name=topic.name)
        answer.topics.append(results)
        for wanted in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index)
            results.partitions.append(result)
            try:
                request.access.check(Operation.DELETE, ResourceType.TOPIC, topic.name)
                partition = _find(request, topic.name, wanted.partition_index)
                result.low_watermark = _checked(partition, wanted.offset)
            except Exception as problem:  # noqa: BLE001 one partition's failure is not the others'
                _fail(result, problem)
            else:
                if partition.leadership is not None:
                    offsets[topic.name, result.partition_index] = result.low_watermark
    node = request.node
    problem_of_store: Exception | None = None
    if offsets:
        try:
            await node.metadata.change(
                lambda image: (None, record_deletions(image, offsets, node.id, node.broker_epoch))
            )
        except StoreError as problem:
            problem_of_store = problem
    for results in answer.topics:
        for result in results.partitions:
            if result.error_code:
                continue
            try:
                if problem_of_store and (results.name, result.partition_index) in offsets:
                    raise problem_of_store
                partition = _find(request, results.name, result.partition_index)
                result.low_watermark = _delete(node, partition, result.low_watermark)
            except Exception as problem:  # noqa: BLE001 as above
                _fail(result, problem)
    deadline = asyncio.get_running_loop().time() + asked.timeout_ms / 1000
    for results in answer.topics:
        for result in results.partitions:
            if not result.error_code:
                await _followed(request, results.name, result, deadline)
    try:
        await node.log_manager.checkpoint_start_offsets()
    except OSError as problem:
        code, _ = error_of(problem)
        for result in (each for topic in answer.topics for each in topic.partitions):
            if not result.error_code:
                result.error_code, result.low_watermark = code, NO_LOW_WATERMARK
    return answer


def _fail(result: DeleteRecordsPartitionResult, problem: Exception) -> None:
    result.error_code, _ = error_of(problem)
    result.low_watermark = NO_LOW_WATERMARK


def _find(request: Request, topic: str, index: int) -> Partition:
    known = 0 <= index < request.node.partitions.count_of(topic)
    if known and topic in INTERNAL_TOPICS:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, "records of an internal topic cannot be deleted"
        )
    return request.node.partitions.find(topic, index)


def _checked(partition: Partition, offset: int) -> int:
    """The offset to delete to; raises KafkaError where it is none."""
    policy = partition.log.config.cleanup_policy
    if "compact" in policy and "delete" not in policy:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, "cleanup.policy of the topic does not include delete"
        )
    if offset == TO_THE_END:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return offset


def _delete(node: BrokerServer, partition: Partition, offset: int) -> int:
    """Delete what lies before an offset; the first one that is left."""
    state = node.image.partitions.get((partition.topic, partition.index))
    if partition.leadership is not None and (state is None or offset > state.deleted_below):
        # It got other replicas, or another leader, while the deletion was recorded.
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
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
