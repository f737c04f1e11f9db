"""CreatePartitions, versions 0 to 3: raise a topic's number of partitions (KIP-195)."""

from collections import Counter

from ottla.api.authorization import Inside
from ottla.api.mutation_quota import charge_mutations, mutation_wait_ms
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.metadata.topics import add_partitions
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

FIRST_STRICT = 3
"""From this version on a client over its quota of changes is refused."""


@api(
    ApiKey.CREATE_PARTITIONS,
    0,
    3,
    CreatePartitionsRequest,
    pieces("topics", "results"),
    authorize=Inside((Operation.ALTER, ResourceType.TOPIC)),
)
async def create_partitions(
    request: Request, asked: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Add partitions to each topic, or only check it."""
    named = Counter(topic.name for topic in asked.topics)
    answer = CreatePartitionsResponse()
    for topic in {topic.name: topic for topic in asked.topics}.values():
        result = CreatePartitionsTopicResult(name=topic.name)
        answer.results.append(result)
        try:
            if named[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            request.access.check(Operation.ALTER, ResourceType.TOPIC, topic.name)
            known = request.node.image.topics.get(topic.name)
            more = topic.count - (0 if known is None else len(known.assignment))
            if not asked.validate_only and more > 0:
                charge_mutations(request, more, strict_from=FIRST_STRICT)
            assignment = None
            if topic.assignments is not None:
                assignment = [each.broker_ids for each in topic.assignments]
            await add_partitions(
                request.node.metadata,
                topic.name,
                topic.count,
                assignment,
                validate_only=asked.validate_only,
            )
        except Exception as problem:  # noqa: BLE001 one topic's failure is not the others'
            result.error_code, result.error_message = error_of(problem)
    answer.throttle_time_ms = mutation_wait_ms(request)
    return answer
