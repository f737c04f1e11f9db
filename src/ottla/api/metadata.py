"""Metadata, versions 0 to 13: brokers, topics and who leads their partitions.

Missing topics are created where the request and `auto.create.topics.enable` allow it; the answer
waits for that and has them. KIPs: 516 (topic ids), 700 (cluster operations moved away).
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from ottla.api.registry import Request, api, error_of
from ottla.broker.topics import auto_create_topic
from ottla.cluster.image import TopicImage
from ottla.config.topic_names import INTERNAL_TOPICS, topic_name_problem
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


@api(ApiKey.METADATA, 0, 13, MetadataRequest)
async def metadata(request: Request, asked: MetadataRequest) -> MetadataResponse:
    """Describe the cluster and the topics named, or all."""
    node = request.node
    if asked.topics is None or (request.version == 0 and not asked.topics):
        topics = [describe(request, topic) for topic in node.image.topics.values()]
    else:
        may_create = node.config.auto_create_topics_enable and (
            request.version < FIRST_WITH_CHOICE_OF_CREATION or asked.allow_auto_topic_creation
        )
        topics = [await _one(request, wanted, may_create) for wanted in asked.topics]
    return MetadataResponse(
        brokers=brokers(request),
        cluster_id=node.cluster_id,
        controller_id=node.controller_id,
        topics=topics,
    )


async def _one(
    request: Request, wanted: MetadataRequestTopic, may_create: bool
) -> MetadataResponseTopic:
    image = request.node.image
    name = wanted.name
    if name is None:
        if wanted.topic_id == NO_UUID:
            return unknown(ErrorCode.INVALID_REQUEST)
        topic = image.topics_by_id.get(wanted.topic_id)
        if topic is None:
            return unknown(ErrorCode.UNKNOWN_TOPIC_ID, topic_id=wanted.topic_id)
        return describe(request, topic)
    topic = image.topics.get(name)
    if topic is None:
        if topic_name_problem(name):
            return unknown(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
        if not may_create:
            return unknown(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        try:
            await auto_create_topic(request.node, name)
        except Exception as problem:  # noqa: BLE001 the reply says what went wrong
            return unknown(error_of(problem)[0], name)
        topic = image.topics.get(name)
        if topic is None:  # deleted again while we waited
            return unknown(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    return describe(request, topic)


def unknown(
    code: ErrorCode, name: str | None = None, topic_id: UUID = NO_UUID
) -> MetadataResponseTopic:
    """What is said of a topic that is not there."""
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id)


def describe(request: Request, topic: TopicImage) -> MetadataResponseTopic:
    """A topic with its partitions."""
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
    leader = request.node.leader_of(topic.name, index)
    return MetadataResponsePartition(
        error_code=0 if leader.id >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=leader.id,
        leader_epoch=leader.epoch,
        replica_nodes=replicas,
        isr_nodes=leader.isr,
        offline_replicas=leader.offline,
    )


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
