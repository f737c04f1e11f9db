"""Changes of topics and settings: pure decisions, committed to the store."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cluster import topics
from ottla.cluster.documents import Configs, Topic, decode
from ottla.cluster.image import Image
from ottla.cluster.store import Create, Op, Update
from ottla.cluster.topics import NewTopic
from ottla.config.dynamic import Alteration
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def create_topic(node: Node, new: NewTopic, *, validate_only: bool = False) -> Topic:
    """Create a topic; raises KafkaError with what is wrong with it."""
    topic_id = uuid.uuid4()
    start = random.randrange(1 << 16)

    def decide(image: Image) -> tuple[Topic, list[Op]]:
        topic, ops = topics.create_topic(
            image,
            new,
            topic_id=topic_id,
            start=start,
            default_partitions=node.config.num_partitions,
            default_replication_factor=node.config.default_replication_factor,
        )
        return topic, [] if validate_only else ops

    return await node.change(decide)


async def auto_create_topic(node: Node, name: str) -> None:
    """Create a topic that a client asked about, unless somebody else was faster."""
    try:
        await create_topic(node, NewTopic(name))
    except KafkaError as problem:
        if problem.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def delete_topic(node: Node, name: str) -> None:
    """Delete a topic with everything in it."""
    await node.change(lambda image: (None, topics.delete_topic(image, name)))


async def add_partitions(
    node: Node,
    name: str,
    count: int,
    assignment: Sequence[Sequence[int]] | None,
    *,
    validate_only: bool,
) -> None:
    """Raise a topic's number of partitions."""
    start = random.randrange(1 << 16)

    def decide(image: Image) -> tuple[None, list[Op]]:
        _, ops = topics.add_partitions(image, name, count, assignment, start=start)
        return None, [] if validate_only else ops

    await node.change(decide)


async def alter_topic_configs(
    node: Node, name: str, alterations: Iterable[Alteration], *, validate_only: bool
) -> None:
    """Change single settings of a topic."""
    wanted = list(alterations)
    await node.change(
        lambda image: (
            None,
            _unless(validate_only, topics.alter_topic_configs(image, name, wanted)),
        )
    )


async def replace_topic_configs(
    node: Node, name: str, configs: Mapping[str, str | None], *, validate_only: bool
) -> None:
    """Give a topic exactly these settings."""
    await node.change(
        lambda image: (
            None,
            _unless(validate_only, topics.replace_topic_configs(image, name, configs)),
        )
    )


async def alter_broker_configs(
    node: Node, broker: int | None, alterations: Iterable[Alteration], *, validate_only: bool
) -> None:
    """Change single dynamic settings of a broker, or with None of all."""
    wanted = list(alterations)

    def decide(image: Image) -> tuple[None, list[Op]]:
        ops = topics.alter_broker_configs(image, broker, wanted)
        _check_fit(node, broker, ops)
        return None, _unless(validate_only, ops)

    await node.change(decide)


async def replace_broker_configs(
    node: Node, broker: int | None, configs: Mapping[str, str], *, validate_only: bool
) -> None:
    """Give a broker, or with None all of them, exactly these dynamic settings."""

    def decide(image: Image) -> tuple[None, list[Op]]:
        ops = topics.replace_broker_configs(image, broker, configs)
        _check_fit(node, broker, ops)
        return None, _unless(validate_only, ops)

    await node.change(decide)


def _check_fit(node: Node, broker: int | None, ops: list[Op]) -> None:
    """Refuse dynamic settings that do not go together with the others; raises ConfigError."""
    settings = node.config.settings
    for op in ops:
        if isinstance(op, Create | Update):
            configs = decode(op.value, Configs).configs
            if broker is None:
                node.config.with_dynamic(configs, settings.dynamic_broker)
            else:
                node.config.with_dynamic(settings.dynamic_default, configs)


def _unless(validate_only: bool, ops: list[Op]) -> list[Op]:
    return [] if validate_only else ops
