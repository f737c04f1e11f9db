"""Decisions about topics: what a request changes in the store, or Kafka's error for it. Pure.

The result is a list of store operations that expect the versions in the image: after a concurrent
change the commit conflicts, and the caller decides again on a newer image. Ids and the broker to
begin with are passed in. A change of a topic checks the topic's id, not only the version under its
name. A deletion is recorded; of the records only the newest are kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import NoReturn
from uuid import UUID

import msgspec

from ottla.config.client_metrics_configs import check_client_metrics_configs
from ottla.config.dynamic import (
    Alteration,
    altered_broker_configs,
    altered_client_metrics_configs,
    altered_group_configs,
    altered_topic_configs,
    check_dynamic_broker_configs,
)
from ottla.config.group_configs import check_group_configs
from ottla.config.topic_configs import check_topic_configs
from ottla.config.topic_names import CLUSTER_METADATA, check_topic_name, collision_key
from ottla.config.types import Value
from ottla.metadata import documents
from ottla.metadata.controller import check_topics
from ottla.metadata.documents import (
    PartitionState,
    TopicDocument,
    deleted_topic_key,
    encode,
    partition_key,
    topic_id_key,
    topic_key,
)
from ottla.metadata.elections import known_storage
from ottla.metadata.image import ConfigsImage, Image, TopicImage
from ottla.metadata.placement import spread, usable
from ottla.metadata.store import Create, Delete, Op, Update
from ottla.wire.errors import ErrorCode, KafkaError

MAX_PARTITIONS_IN_REQUEST = 10_000
UNSET = -1
DELETIONS_KEPT = 4096
"""A broker that was down for longer keeps logs as stray instead of deleting them."""


class NewTopic(msgspec.Struct, frozen=True):
    """What a CreateTopics request says about one topic; -1 takes the broker's default."""

    name: str
    partitions: int = UNSET
    replication_factor: int = UNSET
    assignment: Mapping[int, Sequence[int]] = {}
    configs: Mapping[str, str | None] = {}


def create_topic(
    image: Image,
    new: NewTopic,
    *,
    topic_id: UUID,
    start: int,
    default_partitions: int,
    default_replication_factor: int,
) -> tuple[TopicDocument, list[Op]]:
    """The topic to be, and the operations that make it with all of its partitions."""
    _check_new_name(image, new.name)
    check_topic_configs(new.configs)
    if new.assignment:
        assignment = _explicit_assignment(image, new)
    else:
        partitions, factor = _checked_counts(new, default_partitions, default_replication_factor)
        assignment = spread(usable(image), partitions, factor, start)
    configs = {name: text for name, text in new.configs.items() if text is not None}
    topic = TopicDocument(new.name, topic_id, assignment, configs)
    ops: list[Op] = [
        Create(topic_key(new.name), encode(topic)),
        Create(topic_id_key(topic_id), new.name.encode()),
    ]
    ops += _new_partitions(image, topic, first=0)
    return topic, ops


class RequestedTopic(msgspec.Struct, frozen=True):
    """A topic to be made, with its random choices."""

    new: NewTopic
    topic_id: UUID
    start: int
    """Where in the ring of brokers its first leader is."""


def create_topics(
    image: Image,
    wanted: Iterable[RequestedTopic],
    *,
    default_partitions: int,
    default_replication_factor: int,
) -> tuple[list[TopicDocument | KafkaError], list[Op]]:
    """For each topic what it will be, or why not; and the operations that make all of them."""
    outcomes: list[TopicDocument | KafkaError] = []
    ops: list[Op] = []
    collisions: dict[str | None, str] = {}
    for each in wanted:
        key = collision_key(each.new.name)
        try:
            if key is not None and key in collisions:
                _refuse_collision(each.new.name, collisions[key])
            topic, more = create_topic(
                image,
                each.new,
                topic_id=each.topic_id,
                start=each.start,
                default_partitions=default_partitions,
                default_replication_factor=default_replication_factor,
            )
        except KafkaError as problem:
            # Without its frames, which have `outcomes`: that circle would be the collector's work.
            outcomes.append(problem.with_traceback(None))
            continue
        collisions[key] = topic.name
        outcomes.append(topic)
        ops += more
    return outcomes, ops


def check_together(wanted: Iterable[NewTopic], default_partitions: int) -> None:
    """Refuse, as Kafka does, the topics of a request that have too many partitions together."""
    total = 0
    for new in wanted:
        count = default_partitions if new.partitions == UNSET else max(0, new.partitions)
        total += len(new.assignment) or count
    if total > MAX_PARTITIONS_IN_REQUEST:
        _too_many_partitions()


def delete_topic(image: Image, name: str, topic_id: UUID | None = None) -> list[Op]:
    """Remove the topic and all of its partitions; with an id, only the topic that has it."""
    topic = _existing(image, name, "This server does not host this topic-partition.")
    if topic_id not in (None, topic.id):
        _refuse(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    ops: list[Op] = [Delete(topic_key(name), topic.version)]
    if topic.id in image.topic_ids:
        ops.append(Delete(topic_id_key(topic.id)))
    # Without versions: a change of leadership meanwhile must not keep the topic alive.
    ops += [
        Delete(partition_key(name, index))
        for index in range(len(topic.assignment))
        if (name, index) in image.partitions
    ]
    ops.append(Create(deleted_topic_key(topic.id), name.encode()))
    ops += [Delete(deleted_topic_key(oldest)) for oldest in _too_old_deletions(image)]
    return ops


def _too_old_deletions(image: Image) -> list[UUID]:
    """The oldest records of deletions, which go when one more is added."""
    count = len(image.deleted_topics) + 1 - DELETIONS_KEPT
    return nsmallest(count, image.deleted_topics, key=lambda each: image.deleted_topics[each])


def add_partitions(
    image: Image,
    name: str,
    count: int,
    assignment: Sequence[Sequence[int]] | None,
    *,
    start: int,
) -> tuple[TopicDocument, list[Op]]:
    """The topic with `count` partitions in all, and the operations that make the new ones."""
    old = _existing(image, name, None)
    have = len(old.assignment)
    if count < have:
        _refuse(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {have} partition(s); {count} would not be an "
            "increase.",
        )
    if count == have:
        _refuse(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    added = count - have
    if added > MAX_PARTITIONS_IN_REQUEST:
        _too_many_partitions()
    factor = len(old.assignment[0])
    if assignment is None:
        more = spread(usable(image), added, factor, start)
    else:
        if len(assignment) != added:
            _refuse(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only "
                f"{len(assignment)} assignment(s) were specified.",
            )
        more = checked_assignment(image, assignment, factor)
    topic = TopicDocument(name, old.id, [*old.assignment, *more], old.configs)
    ops = check_topics(image, [old.id])
    ops.append(Update(topic_key(name), encode(topic), old.version))
    ops += _new_partitions(image, topic, first=have)
    return topic, ops


def alter_topic_configs(image: Image, name: str, alterations: Iterable[Alteration]) -> list[Op]:
    """Change single settings of a topic."""
    _check_configured_name(name)
    known = image.topics.get(name)
    configs = altered_topic_configs({} if known is None else known.configs, alterations)
    return _set_topic_configs(image, _configured(image, name), configs)


def replace_topic_configs(image: Image, name: str, configs: Mapping[str, str | None]) -> list[Op]:
    """Give a topic exactly these settings."""
    _check_configured_name(name)
    check_topic_configs(configs)
    chosen = {n: text for n, text in configs.items() if text is not None}
    return _set_topic_configs(image, _configured(image, name), chosen)


def alter_broker_configs(
    image: Image, broker: int | None, alterations: Iterable[Alteration]
) -> list[Op]:
    """Change single dynamic settings of a broker; None for the cluster's defaults."""
    old = image.broker_configs.get(broker)
    configs = altered_broker_configs(
        old.configs if old else {}, alterations, cluster_wide=broker is None
    )
    return _set_broker_configs(image, broker, configs)


def replace_broker_configs(
    image: Image, broker: int | None, configs: Mapping[str, str]
) -> list[Op]:
    """Give a broker, or the cluster, exactly these dynamic settings."""
    check_dynamic_broker_configs(configs, cluster_wide=broker is None)
    return _set_broker_configs(image, broker, dict(configs))


def alter_group_configs(
    image: Image, group_id: str, alterations: Iterable[Alteration], broker: Mapping[str, Value]
) -> list[Op]:
    """Change single settings of a consumer group; `broker` has the broker's values."""
    old = image.group_configs.get(group_id)
    configs = altered_group_configs(old.configs if old else {}, alterations, broker)
    return _set_group_configs(image, group_id, configs)


def replace_group_configs(
    image: Image, group_id: str, configs: Mapping[str, str], broker: Mapping[str, Value]
) -> list[Op]:
    """Give a consumer group exactly these settings."""
    check_group_configs(configs, broker)
    return _set_group_configs(image, group_id, dict(configs))


def alter_client_metrics_configs(
    image: Image, name: str, alterations: Iterable[Alteration]
) -> list[Op]:
    """Change single settings of a subscription to clients' metrics."""
    old = image.client_metrics_configs.get(name)
    configs = altered_client_metrics_configs(old.configs if old else {}, alterations)
    return _set_client_metrics_configs(image, name, configs)


def replace_client_metrics_configs(image: Image, name: str, configs: Mapping[str, str]) -> list[Op]:
    """Give a subscription to clients' metrics exactly these settings."""
    check_client_metrics_configs(configs)
    return _set_client_metrics_configs(image, name, dict(configs))


def _check_configured_name(name: str) -> None:
    """As in Kafka, the request is checked before whether the topic exists."""
    if not name:
        _refuse(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_topic_name(name)


def _check_new_name(image: Image, name: str) -> None:
    check_topic_name(name)
    if name == CLUSTER_METADATA:
        _refuse(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if name in image.topics:
        _refuse(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    colliding = image.names_by_collision_key.get(collision_key(name) or "")
    if colliding:
        _refuse_collision(name, min(colliding))


def _checked_counts(new: NewTopic, default_partitions: int, default_factor: int) -> tuple[int, int]:
    if new.replication_factor < UNSET or new.replication_factor == 0:
        _refuse(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if new.partitions < UNSET or new.partitions == 0:
        _refuse(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    partitions = default_partitions if new.partitions == UNSET else new.partitions
    if partitions > MAX_PARTITIONS_IN_REQUEST:
        _too_many_partitions()
    factor = default_factor if new.replication_factor == UNSET else new.replication_factor
    return partitions, factor


def _explicit_assignment(image: Image, new: NewTopic) -> list[list[int]]:
    for given, what in (
        (new.replication_factor, "replication factor"),
        (new.partitions, "numPartitions"),
    ):
        if given != UNSET:
            _refuse(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    if len(new.assignment) > MAX_PARTITIONS_IN_REQUEST:
        _too_many_partitions()
    if set(new.assignment) != set(range(len(new.assignment))):
        _refuse(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    in_order = [new.assignment[index] for index in range(len(new.assignment))]
    return checked_assignment(image, in_order, factor=None)


def checked_assignment(
    image: Image, assignment: Sequence[Sequence[int]], factor: int | None
) -> list[list[int]]:
    """A manual assignment, if its brokers are registered; `factor` None: any number."""
    for replicas in assignment:
        if not replicas:
            _refuse_assignment("includes an empty replica list.")
        for broker in replicas:
            if broker not in image.brokers:
                _refuse_assignment(f"includes broker {broker}, but no such broker is registered.")
            if list(replicas).count(broker) > 1:
                _refuse_assignment(f"includes the broker {broker} more than once.")
        if factor is None:
            factor = len(replicas)
        if len(replicas) != factor:
            _refuse_assignment(
                f"includes a partition with {len(replicas)} replica(s), but this is not "
                f"consistent with previous partitions, which have {factor} replica(s)."
            )
    return [list(replicas) for replicas in assignment]


def _new_partitions(image: Image, topic: TopicDocument, first: int) -> list[Op]:
    ops: list[Op] = []
    for index in range(first, len(topic.assignment)):
        replicas = topic.assignment[index]
        state = PartitionState(
            topic.id,
            leader=replicas[0],
            leader_epoch=0,
            isr=replicas,
            isr_epochs=[image.brokers[broker].epoch for broker in replicas],
            isr_storage=known_storage(image.brokers[broker].storage for broker in replicas),
        )
        ops.append(Create(partition_key(topic.name, index), encode(state)))
    return ops


def _set_topic_configs(image: Image, topic: TopicImage, configs: dict[str, str]) -> list[Op]:
    if configs == topic.configs:
        return []
    new = TopicDocument(topic.name, topic.id, topic.assignment, configs)
    update = Update(topic_key(topic.name), encode(new), topic.version)
    return [*check_topics(image, [topic.id]), update]


def _set_broker_configs(image: Image, broker: int | None, configs: dict[str, str]) -> list[Op]:
    old = image.broker_configs.get(broker)
    if configs == (old.configs if old else {}):
        return []
    key, value = documents.broker_configs_key(broker), encode(documents.Configs(configs))
    return [Update(key, value, old.version) if old else Create(key, value)]


def _set_group_configs(image: Image, group_id: str, configs: dict[str, str]) -> list[Op]:
    if not group_id:
        _refuse(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    key = documents.group_configs_key(group_id)
    return _set_named_configs(key, image.group_configs.get(group_id), configs)


def _set_client_metrics_configs(image: Image, name: str, configs: dict[str, str]) -> list[Op]:
    if not name:
        _refuse(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    key = documents.client_metrics_configs_key(name)
    return _set_named_configs(key, image.client_metrics_configs.get(name), configs)


def _set_named_configs(key: str, old: ConfigsImage | None, configs: dict[str, str]) -> list[Op]:
    if configs == (old.configs if old else {}):
        return []
    value = encode(documents.Configs(configs))
    if old is None:
        return [Create(key, value)]
    # What has no settings left is not among those that have some.
    return [Update(key, value, old.version) if configs else Delete(key, old.version)]


def _existing(image: Image, name: str, otherwise: str | None) -> TopicImage:
    """The topic, or Kafka's error for this request."""
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, otherwise)
    return topic


def _configured(image: Image, name: str) -> TopicImage:
    return _existing(image, name, f"The topic '{name}' does not exist.")


def _too_many_partitions() -> NoReturn:
    _refuse(
        ErrorCode.POLICY_VIOLATION,
        "Excessively large number of partitions per request: at most "
        f"{MAX_PARTITIONS_IN_REQUEST} are allowed.",
    )


def _refuse_collision(name: str, existing: str) -> NoReturn:
    _refuse(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic '{name}' collides with existing topic: {existing}",
    )


def _refuse_assignment(problem: str) -> NoReturn:
    _refuse(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {problem}")


def _refuse(code: ErrorCode, message: str) -> NoReturn:
    raise KafkaError(code, message)
