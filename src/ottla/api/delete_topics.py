"""DeleteTopics, versions 1 to 6: by name, or from version 6 by id (KIP-516)."""

from collections import Counter

from ottla.api.authorization import Inside
from ottla.api.mutation_quota import charge_mutations, mutation_wait_ms
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.metadata.topics import delete_topic
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import NO_UUID
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

FIRST_STRICT = 5
"""From this version on a client over its quota of changes is refused."""
TOPIC_DELETION_DISABLED_FROM = 3
"""Earlier versions do not know that error."""


@api(
    ApiKey.DELETE_TOPICS,
    1,
    6,
    DeleteTopicsRequest,
    pieces("topics", "responses"),
    pieces("topic_names", "responses"),
    authorize=Inside(
        (Operation.DELETE, ResourceType.CLUSTER),
        (Operation.DELETE, ResourceType.TOPIC),
        (Operation.DESCRIBE, ResourceType.TOPIC),
    ),
)
async def delete_topics(request: Request, asked: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete each topic; its readers and writers learn it at once."""
    wanted = asked.topics or [DeleteTopicState(name=name) for name in asked.topic_names]
    if not request.node.config.delete_topic_enable:
        return _refuse_all(request, wanted)
    named = Counter((topic.name, topic.topic_id) for topic in wanted)
    once = {(topic.name, topic.topic_id): topic for topic in wanted}
    answer = DeleteTopicsResponse(
        responses=[await _delete(request, once[key], times > 1) for key, times in named.items()]
    )
    answer.throttle_time_ms = mutation_wait_ms(request)
    return answer


def _refuse_all(request: Request, wanted: list[DeleteTopicState]) -> DeleteTopicsResponse:
    code, message = ErrorCode.TOPIC_DELETION_DISABLED, None
    if request.version < TOPIC_DELETION_DISABLED_FROM:
        code, message = ErrorCode.INVALID_REQUEST, "Topic deletion is disabled."
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message
            )
            for topic in wanted
        ]
    )


async def _delete(
    request: Request, topic: DeleteTopicState, named_twice: bool
) -> DeletableTopicResult:
    result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
    try:
        if named_twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        name = _name_of(request, topic)
        _check(request, name, by_name=topic.name is not None, result=result)
        result.name = name
        found = request.node.image.topics.get(result.name)
        if found is not None:
            charge_mutations(request, len(found.assignment), strict_from=FIRST_STRICT)
        by_id = None if topic.topic_id == NO_UUID else topic.topic_id
        await delete_topic(request.node.metadata, result.name, by_id)
        if found is not None:
            result.topic_id = found.id
    except Exception as problem:  # noqa: BLE001 one topic's failure is not the others'
        result.error_code, result.error_message = error_of(problem)
    return result


def _check(request: Request, name: str, *, by_name: bool, result: DeletableTopicResult) -> None:
    """Refuse a client that may not delete; it learns no name, and not whether there is a topic."""
    access = request.access
    sees = access.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)
    if sees and not by_name:
        result.name = name
    if (not sees and by_name) or not (
        access.allows(Operation.DELETE, ResourceType.CLUSTER)
        or access.may(Operation.DELETE, ResourceType.TOPIC, name)
    ):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _name_of(request: Request, topic: DeleteTopicState) -> str:
    if topic.name is not None:
        if topic.topic_id != NO_UUID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
            )
        return topic.name
    if topic.topic_id == NO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    found = request.node.image.topics_by_id.get(topic.topic_id)
    if found is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return found.name
