"""Changes of topics and settings: pure decisions, committed to the store."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final, Protocol

from ottla.broker.context.metadata_writer import MetadataWriter
from ottla.config import BrokerConfig
from ottla.config.dynamic import Alteration
from ottla.config.errors import ConfigError
from ottla.config.resolve import broker_values
from ottla.metadata import topics
from ottla.metadata.documents import Configs, TopicDocument, decode
from ottla.metadata.image import Image
from ottla.metadata.store import Create, Op, Update
from ottla.metadata.topics import NewTopic, RequestedTopic
from ottla.security.certificate_check import check_certificates
from ottla.wire.errors import ErrorCode, KafkaError

_CHANCE = Random()  # of its own: a program that embeds a broker may seed the other
TOPICS_IN_ONE_COMMIT: Final = 200
"""The loop takes in a commit in one go; larger ones would be felt by clients."""


class ConfiguredWriter(MetadataWriter, Protocol):
    """Commits metadata changes, and knows the settings that they depend on."""

    @property
    def config(self) -> BrokerConfig:
        """The settings in force."""


async def create_topic(metadata: ConfiguredWriter, new: NewTopic) -> TopicDocument:
    """Create a topic; raises KafkaError with what is wrong with it."""
    (outcome,) = await create_topics(metadata, [new])
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome


async def create_topics(
    metadata: ConfiguredWriter, new: Sequence[NewTopic], *, validate_only: bool = False
) -> list[TopicDocument | KafkaError]:
    """Create topics; for each what it is now, or why it could not be.

    Many are committed at once: the disk is waited for once for all of them.
    """
    try:
        topics.check_together(new, metadata.config.num_partitions)
    except KafkaError as problem:
        return [problem] * len(new)
    wanted = [RequestedTopic(each, uuid.uuid4(), _CHANCE.randrange(1 << 16)) for each in new]
    outcomes: list[TopicDocument | KafkaError] = []
    while wanted:
        some, wanted = wanted[:TOPICS_IN_ONE_COMMIT], wanted[TOPICS_IN_ONE_COMMIT:]
        outcomes += await metadata.change(
            partial(_decide_on_new, metadata, some, validate_only), _refused
        )
    return outcomes


def _refused(outcomes: Iterable[TopicDocument | KafkaError]) -> list[KafkaError]:
    return [each for each in outcomes if isinstance(each, KafkaError)]


def _decide_on_new(
    metadata: ConfiguredWriter, wanted: Sequence[RequestedTopic], validate_only: bool, image: Image
) -> tuple[list[TopicDocument | KafkaError], list[Op]]:
    outcomes, ops = topics.create_topics(
        image,
        wanted,
        default_partitions=metadata.config.num_partitions,
        default_replication_factor=metadata.config.default_replication_factor,
    )
    return outcomes, _unless(validate_only, ops)


async def delete_topic(
    metadata: ConfiguredWriter, name: str, topic_id: uuid.UUID | None = None
) -> None:
    """Delete a topic with everything in it; with an id, not another topic of that name."""
    await metadata.change(lambda image: (None, topics.delete_topic(image, name, topic_id)))


async def add_partitions(
    metadata: ConfiguredWriter,
    name: str,
    count: int,
    assignment: Sequence[Sequence[int]] | None,
    *,
    validate_only: bool,
) -> None:
    """Raise a topic's number of partitions."""
    start = _CHANCE.randrange(1 << 16)

    def decide(image: Image) -> tuple[None, list[Op]]:
        _, ops = topics.add_partitions(image, name, count, assignment, start=start)
        return None, [] if validate_only else ops

    await metadata.change(decide)


async def alter_topic_configs(
    metadata: ConfiguredWriter, name: str, alterations: Iterable[Alteration], *, validate_only: bool
) -> None:
    """Change single settings of a topic."""
    wanted = list(alterations)
    await metadata.change(
        lambda image: (
            None,
            _unless(validate_only, topics.alter_topic_configs(image, name, wanted)),
        )
    )


async def replace_topic_configs(
    metadata: ConfiguredWriter, name: str, configs: Mapping[str, str | None], *, validate_only: bool
) -> None:
    """Give a topic exactly these settings."""
    await metadata.change(
        lambda image: (
            None,
            _unless(validate_only, topics.replace_topic_configs(image, name, configs)),
        )
    )


async def alter_broker_configs(
    metadata: ConfiguredWriter,
    broker: int | None,
    alterations: Iterable[Alteration],
    *,
    validate_only: bool,
) -> None:
    """Change single dynamic settings of a broker, or with None of all."""
    wanted = list(alterations)

    def decide(image: Image) -> tuple[None, list[Op]]:
        ops = topics.alter_broker_configs(image, broker, wanted)
        _check_fit(metadata, broker, ops)
        return None, _unless(validate_only, ops)

    await metadata.change(decide)


async def replace_broker_configs(
    metadata: ConfiguredWriter,
    broker: int | None,
    configs: Mapping[str, str],
    *,
    validate_only: bool,
) -> None:
    """Give a broker, or with None all of them, exactly these dynamic settings."""

    def decide(image: Image) -> tuple[None, list[Op]]:
        ops = topics.replace_broker_configs(image, broker, configs)
        _check_fit(metadata, broker, ops)
        return None, _unless(validate_only, ops)

    await metadata.change(decide)


async def alter_group_configs(
    metadata: ConfiguredWriter,
    group_id: str,
    alterations: Iterable[Alteration],
    *,
    validate_only: bool,
) -> None:
    """Change single settings of a consumer group, which need not exist yet."""
    wanted, broker = list(alterations), broker_values(metadata.config.settings)
    await metadata.change(
        lambda image: (
            None,
            _unless(validate_only, topics.alter_group_configs(image, group_id, wanted, broker)),
        )
    )


async def replace_group_configs(
    metadata: ConfiguredWriter, group_id: str, configs: Mapping[str, str], *, validate_only: bool
) -> None:
    """Give a consumer group exactly these settings."""
    broker = broker_values(metadata.config.settings)
    await metadata.change(
        lambda image: (
            None,
            _unless(validate_only, topics.replace_group_configs(image, group_id, configs, broker)),
        )
    )


async def alter_client_metrics_configs(
    metadata: ConfiguredWriter, name: str, alterations: Iterable[Alteration], *, validate_only: bool
) -> None:
    """Change single settings of a subscription to clients' metrics."""
    wanted = list(alterations)
    await metadata.change(
        lambda image: (
            None,
            _unless(validate_only, topics.alter_client_metrics_configs(image, name, wanted)),
        )
    )


async def replace_client_metrics_configs(
    metadata: ConfiguredWriter, name: str, configs: Mapping[str, str], *, validate_only: bool
) -> None:
    """Give a subscription to clients' metrics exactly these settings."""
    await metadata.change(
        lambda image: (
            None,
            _unless(validate_only, topics.replace_client_metrics_configs(image, name, configs)),
        )
    )


def _check_fit(metadata: ConfiguredWriter, broker: int | None, ops: list[Op]) -> None:
    """Refuse dynamic settings that do not go together with the others; raises KafkaError."""
    settings = metadata.config.settings
    for op in ops:
        if isinstance(op, Create | Update):
            configs = decode(op.value, Configs).configs
            try:
                if broker is None:
                    metadata.config.with_dynamic(configs, settings.dynamic_broker)
                else:
                    wanted = metadata.config.with_dynamic(settings.dynamic_default, configs)
                    if configs != settings.dynamic_broker:
                        check_certificates(wanted, configs)
            except ConfigError as problem:
                raise KafkaError(ErrorCode.INVALID_REQUEST, problem.message) from None


def _unless(validate_only: bool, ops: list[Op]) -> list[Op]:
    return [] if validate_only else ops
