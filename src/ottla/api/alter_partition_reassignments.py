"""AlterPartitionReassignments, versions 0 and 1: move replicas to other brokers (KIP-455, 860)."""

from collections import Counter
from collections.abc import Sequence

from ottla.api.authorization import OnCluster
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.metadata.reassigning import alter_reassignments
from ottla.metadata.image import PartitionKey
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


@api(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    0,
    1,
    AlterPartitionReassignmentsRequest,
    pieces("topics.partitions", "responses.partitions"),
    authorize=OnCluster(Operation.ALTER),
)
async def alter_partition_reassignments(
    request: Request, asked: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin or cancel each reassignment; one's failure is not the others'."""
    answer = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=asked.allow_replication_factor_change, error_message=None
    )
    named = Counter(
        (topic.name, partition.partition_index)
        for topic in asked.topics
        for partition in topic.partitions
    )
    targets: dict[PartitionKey, Sequence[int] | None] = {}
    refused: dict[PartitionKey, KafkaError | None] = {}
    for topic in asked.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            problem = None if named[key] == 1 else _named_twice()
            if problem is None and not asked.allow_replication_factor_change:
                problem = _other_factor(request, key, partition.replicas)
            if problem is None:
                targets[key] = partition.replicas
            else:
                refused[key] = problem
    try:
        refused |= await alter_reassignments(request.node.metadata, targets)
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        answer.error_code, answer.error_message = error_of(problem)
        return answer
    for topic in asked.topics:
        results = ReassignableTopicResponse(name=topic.name)
        answer.responses.append(results)
        for partition in topic.partitions:
            index = partition.partition_index
            wrong = refused.get((topic.name, index))
            results.partitions.append(
                ReassignablePartitionResponse(
                    partition_index=index,
                    error_code=ErrorCode.NONE if wrong is None else wrong.code,
                    error_message=None if wrong is None else wrong.message,
                )
            )
    return answer


def _named_twice() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate partition in the request.")


def _other_factor(
    request: Request, key: PartitionKey, target: Sequence[int] | None
) -> KafkaError | None:
    """What is wrong with a target that has more or fewer replicas than there are now."""
    name, index = key
    topic = request.node.image.topics.get(name)
    state = request.node.image.partitions.get(key)
    if target is None or topic is None or state is None:
        return None
    now = [one for one in topic.assignment[index] if one not in state.adding]
    if len(now) == len(target):
        return None
    return KafkaError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"The replication factor is changed from {len(now)} to {len(target)}.",
    )
