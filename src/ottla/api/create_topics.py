"""CreateTopics, versions 2 to 7. KIPs: 195 and 464 (defaults), 525 (settings in the reply)."""

from collections import Counter

from ottla.api.authorization import Inside
from ottla.api.mutation_quota import charge_mutations, mutation_wait_ms
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.metadata.topics import create_topics as create
from ottla.config import describe_topic
from ottla.metadata.documents import TopicDocument
from ottla.metadata.topics import NewTopic
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

FIRST_STRICT = 6
"""From this version on a client over its quota of changes is refused."""


@api(
    ApiKey.CREATE_TOPICS,
    2,
    7,
    CreateTopicsRequest,
    pieces("topics", "topics"),
    authorize=Inside(
        (Operation.CREATE, ResourceType.CLUSTER),
        (Operation.CREATE, ResourceType.TOPIC),
        (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
    ),
)
async def create_topics(request: Request, asked: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create each topic, or only check it; answered when it can be written to."""
    named = Counter(topic.name for topic in asked.topics)
    answer = CreateTopicsResponse()
    for name, times in named.items():
        if times > 1:
            answer.topics.append(
                CreatableTopicResult(
                    name=name,
                    error_code=ErrorCode.INVALID_REQUEST,
                    error_message="Duplicate topic name.",
                )
            )
    answer.topics += await _create(
        request, [topic for topic in asked.topics if named[topic.name] == 1], asked.validate_only
    )
    answer.throttle_time_ms = mutation_wait_ms(request)
    return answer


async def _create(
    request: Request, asked: list[CreatableTopic], validate_only: bool
) -> list[CreatableTopicResult]:
    results: dict[str, CreatableTopicResult] = {}
    wanted: list[NewTopic] = []
    access = request.access
    may_create_any = access.allows(Operation.CREATE, ResourceType.CLUSTER)
    for topic in asked:
        try:
            if not may_create_any and not access.may(
                Operation.CREATE, ResourceType.TOPIC, topic.name
            ):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
            new = _wanted(topic)
            if not validate_only:
                count = len(topic.assignments) or topic.num_partitions
                count = count if count > 0 else request.node.config.num_partitions
                charge_mutations(request, count, strict_from=FIRST_STRICT)
            wanted.append(new)
        except KafkaError as problem:
            results[topic.name] = _refused(topic.name, problem)
    try:
        outcomes = await create(request.node.metadata, wanted, validate_only=validate_only)
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        results |= {new.name: _refused(new.name, problem) for new in wanted}
    else:
        for new, outcome in zip(wanted, outcomes, strict=True):
            results[new.name] = (
                _refused(new.name, outcome)
                if isinstance(outcome, KafkaError)
                else _created(request, outcome)
            )
    return [results[topic.name] for topic in asked]


def _refused(name: str, problem: Exception) -> CreatableTopicResult:
    code, message = error_of(problem)
    return CreatableTopicResult(name=name, error_code=code, error_message=message)


def _created(request: Request, created: TopicDocument) -> CreatableTopicResult:
    if not request.access.allows(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, created.name):
        return CreatableTopicResult(
            name=created.name,
            topic_id=created.id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    return CreatableTopicResult(
        name=created.name,
        topic_id=created.id,
        error_message=None,
        num_partitions=len(created.assignment),
        replication_factor=len(created.assignment[0]),
        configs=_settings(request, created),
    )


def _wanted(topic: CreatableTopic) -> NewTopic:
    assignment = {each.partition_index: each.broker_ids for each in topic.assignments}
    if len(assignment) != len(topic.assignments):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for one partition.",
        )
    # As in Kafka the last one counts where a setting is named twice.
    configs = {each.name: each.value for each in topic.configs}
    return NewTopic(topic.name, topic.num_partitions, topic.replication_factor, assignment, configs)


def _settings(request: Request, created: TopicDocument) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=each.name,
            value=each.value,
            read_only=each.read_only,
            config_source=each.source,
            is_sensitive=each.sensitive,
        )
        for each in describe_topic(created.configs, request.node.config.settings)
    ]
