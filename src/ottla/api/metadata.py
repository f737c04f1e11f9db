"""Metadata, versions 0 to 13: brokers, topics and who leads their partitions.

Missing topics are created where the request and `auto.create.topics.enable` allow it; the answer
waits for that, if it does not take long, and has them.
Version 0 names no replica that is not alive, and says REPLICA_NOT_AVAILABLE instead, as in Kafka.
KIPs: 516 (topic ids), 700 (cluster operations moved away).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from ottla.api.authorization import Inside
from ottla.api.mutation_quota import may_create_automatically
from ottla.api.pieces import pieces
from ottla.api.registry import LONG_BYTES, Outcome, Request, handled, raw_api
from ottla.config.topic_names import INTERNAL_TOPICS, topic_name_problem
from ottla.metadata.image import TopicImage
from ottla.security.operations import NOT_ASKED, Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.message import NO_UUID
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

FIRST_WITH_CHOICE_OF_CREATION = 4
FIRST_BY_ID = 12
FIRST_WITH_LISTENER_NOT_FOUND = 6
NO_LEADER = -1
TOPIC = ResourceType.TOPIC
_WAYS = (pieces("topics", "topics"),)


@raw_api(
    ApiKey.METADATA,
    0,
    13,
    authorize=Inside(
        (Operation.DESCRIBE, ResourceType.TOPIC),
        (Operation.CREATE, ResourceType.TOPIC),
        (Operation.CREATE, ResourceType.CLUSTER),
        (Operation.DESCRIBE, ResourceType.CLUSTER),
    ),
)
def metadata(request: Request, body: memoryview, at: int) -> Outcome:
    """Describe the cluster and the topics named, or all; a large answer is kept for the next."""
    kept = request.node.metadata_responses
    if not kept.may_be_large or len(body) - at > LONG_BYTES:
        return handled(request, body, at, MetadataRequest, _metadata, _WAYS)
    question = (request.version, request.listener, request.access.view, bytes(body[at:]))
    known = kept.find(question)
    if known is not None:
        return (known,)
    answer = handled(request, body, at, MetadataRequest, _metadata, _WAYS)
    if isinstance(answer, tuple) and isinstance(answer[0], bytes):
        kept.keep(question, answer[0])
    return answer


def _metadata(
    request: Request, asked: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    node = request.node
    if asked.topics is None or (request.version == 0 and not asked.topics):
        return _answer(
            request,
            asked,
            [
                _describe(request, each)
                for each in node.image.topics.values()
                if request.access.allows(Operation.DESCRIBE, TOPIC, each.name)
            ],
        )
    may_create = creates(request, asked)
    named = (
        [
            wanted.name
            for wanted in asked.topics
            if wanted.name is not None and wanted.topic_id == NO_UUID
        ]
        if may_create
        else []
    )
    missing = list(
        dict.fromkeys(
            name for name in named if _can_be_created(request, name) and _may_create(request, name)
        )
    )
    if missing and may_create_automatically(request, len(missing)):
        return _create_then_answer(request, asked, missing)
    return _answer(request, asked, _look_up_each(request, asked))


def _can_be_created(request: Request, name: str) -> bool:
    return name not in request.node.image.topics and not topic_name_problem(name)


def _may_create(request: Request, name: str) -> bool:
    """Whether the client may have the topic made, and see it then."""
    access = request.access
    return access.allows(Operation.DESCRIBE, TOPIC, name) and (
        access.allows(Operation.CREATE, ResourceType.CLUSTER)
        or access.may(Operation.CREATE, TOPIC, name)
    )


async def _create_then_answer(
    request: Request, asked: MetadataRequest, missing: list[str]
) -> MetadataResponse:
    await request.node.auto_topic_creation.create(missing)
    return _answer(request, asked, _look_up_each(request, asked))


def _answer(
    request: Request, asked: MetadataRequest, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    if asked.include_topic_authorized_operations:
        for topic in topics:
            if not topic.error_code and topic.name is not None:
                operations = request.access.operations(TOPIC, topic.name)
                topic.topic_authorized_operations = operations
    hidden = unreachable(request)
    if hidden:
        _leave_out(topics, hidden, request.version)
    if request.version == 0:
        _leave_out_replicas(topics)
    return MetadataResponse(
        brokers=brokers(request),
        cluster_id=request.node.cluster_id,
        controller_id=request.node.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations(request)
        if asked.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def cluster_operations(request: Request) -> int:
    """The authorized operations on the cluster; 0 for a client without DESCRIBE."""
    access = request.access
    if not access.allows(Operation.DESCRIBE, ResourceType.CLUSTER):
        return 0
    return access.operations(ResourceType.CLUSTER)


def _leave_out(topics: list[MetadataResponseTopic], hidden: set[int], version: int) -> None:
    """Who leads, but has no listener of this name, is nobody that the client could ask."""
    for topic in topics:
        for partition in topic.partitions:
            gone = {*partition.offline_replicas, *hidden}
            partition.offline_replicas = [one for one in partition.replica_nodes if one in gone]
            if partition.leader_id in hidden:
                partition.leader_id = NO_LEADER
                partition.error_code = (
                    ErrorCode.LISTENER_NOT_FOUND
                    if version >= FIRST_WITH_LISTENER_NOT_FOUND
                    else ErrorCode.LEADER_NOT_AVAILABLE
                )


def _leave_out_replicas(topics: list[MetadataResponseTopic]) -> None:
    for topic in topics:
        for partition in topic.partitions:
            gone = set(partition.offline_replicas)
            if gone and not partition.error_code:
                partition.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
            partition.replica_nodes = [one for one in partition.replica_nodes if one not in gone]
            partition.isr_nodes = [one for one in partition.isr_nodes if one not in gone]


def _look_up_each(request: Request, asked: MetadataRequest) -> list[MetadataResponseTopic]:
    """The topics asked for; one that is named twice is listed once, as in Kafka."""
    named = {(wanted.name, wanted.topic_id): wanted for wanted in asked.topics or ()}
    may_create = creates(request, asked)
    return [_look_up(request, wanted, may_create) for wanted in named.values()]


def creates(request: Request, asked: MetadataRequest) -> bool:
    """Whether topics that are missing are to be made."""
    return request.node.config.auto_create_topics_enable and (
        request.version < FIRST_WITH_CHOICE_OF_CREATION or asked.allow_auto_topic_creation
    )


def _look_up(
    request: Request, wanted: MetadataRequestTopic, may_create: bool
) -> MetadataResponseTopic:
    image = request.node.image
    name = wanted.name
    if request.version < FIRST_BY_ID and (name is None or wanted.topic_id != NO_UUID):
        # Versions 10 and 11 have the fields of KIP-516, but not the feature.
        return MetadataResponseTopic(
            error_code=ErrorCode.INVALID_REQUEST, name=name or "", topic_id=wanted.topic_id
        )
    if name is None or wanted.topic_id != NO_UUID:
        topic = image.topics_by_id.get(wanted.topic_id)
        if topic is None:
            if wanted.topic_id == NO_UUID:
                return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name="")
            code = ErrorCode.UNKNOWN_TOPIC_ID
            return MetadataResponseTopic(error_code=code, name=None, topic_id=wanted.topic_id)
        if not request.access.may(Operation.DESCRIBE, TOPIC, topic.name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return MetadataResponseTopic(error_code=code, name=None, topic_id=wanted.topic_id)
        return _describe(request, topic)
    topic = image.topics.get(name)
    if not request.access.may(Operation.DESCRIBE, TOPIC, name) or (
        topic is None and may_create and not _may_create(request, name)
    ):
        return MetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            name=name,
            is_internal=name in INTERNAL_TOPICS,
        )
    if topic is None:
        bad = topic_name_problem(name) is not None
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponseTopic(
            error_code=code, name=name, is_internal=name in INTERNAL_TOPICS
        )
    return _describe(request, topic)


def _describe(request: Request, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(request, topic, index, replicas)
            for index, replicas in enumerate(topic.assignment)
        ],
    )


def _partition(
    request: Request, topic: TopicImage, index: int, replicas: list[int]
) -> MetadataResponsePartition:
    leader = request.node.leaders.of(topic.name, index)
    return MetadataResponsePartition(
        error_code=0 if leader.id >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=leader.id,
        leader_epoch=leader.epoch,
        replica_nodes=replicas,
        isr_nodes=leader.isr,
        offline_replicas=leader.offline,
    )


def unreachable(request: Request) -> set[int]:
    """The live brokers that have no listener of this name."""
    found = request.node.image.brokers.values()
    return {broker.id for broker in found if broker.endpoint(request.listener) is None}


def brokers(request: Request) -> list[MetadataResponseBroker]:
    """The live brokers, as clients of this listener reach them."""
    found: Iterable[MetadataResponseBroker | None] = (
        MetadataResponseBroker(
            node_id=broker.id, host=where.host, port=where.port, rack=broker.rack
        )
        if (where := broker.endpoint(request.listener))
        else None
        for broker in request.node.image.brokers.values()
    )
    return [broker for broker in found if broker is not None]
