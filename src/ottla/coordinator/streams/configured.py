"""A topology as the cluster's topics are now: its tasks, and the internal topics that are missing.

Rules kept here:
1. Source topics must exist; internal topics that do not are created by the broker, with the
   application's settings. Until all are there, and have the right number of partitions, no task
   is assigned: members learn why by a status of their heartbeat.
2. It is not written: it follows from the topology and the topics.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from ottla.coordinator.streams.copartition import IncorrectlyPartitionedError, PartitionCounts
from ottla.coordinator.streams.schemas import Subtopology, TopicInfo
from ottla.coordinator.streams.topology import StreamsTopology
from ottla.coordinator.topics import TopicView

NAMED_AT_MOST = 3


class StatusCode(IntEnum):
    """What a heartbeat's status says, by Kafka's numbers."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic as it has to be."""

    name: str
    partitions: int
    replication_factor: int
    """0: the broker's default."""
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology with its number of tasks."""

    tasks: int
    sources: frozenset[str]
    """All topics that it reads."""
    source: Subtopology
    repartition_sources: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, which standby tasks can copy."""
        return bool(self.changelogs)


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology with the numbers of its tasks; `problem` says why it cannot run yet."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    problem: tuple[StatusCode, str] | None = None
    to_create: Mapping[str, InternalTopic] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None


def configure(topology: StreamsTopology, topics: TopicView) -> ConfiguredTopology:
    """The topology as things are; raises KafkaError where it makes no sense."""
    missing = sorted(
        {
            name
            for each in topology.subtopologies.values()
            for name in each.source_topics
            if topics.by_name(name) is None
        }
    )
    if missing:
        why = f"Source topics {_summary(missing)} are missing."
        return _failed(topology, StatusCode.MISSING_SOURCE_TOPICS, why)
    counts = PartitionCounts(topics)
    try:
        counts.decide(topology)
        found = {
            name: _configured(topology.subtopologies[name], counts)
            for name in sorted(topology.subtopologies)
        }
        to_create = _missing(found.values(), topics)
    except IncorrectlyPartitionedError as problem:
        return _failed(topology, StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(problem))
    why_not = None
    if to_create:
        why = f"Internal topics are missing: {_summary(to_create)}"
        why_not = StatusCode.MISSING_INTERNAL_TOPICS, why
    return ConfiguredTopology(topology.epoch, found, why_not, to_create)


def _failed(topology: StreamsTopology, code: StatusCode, why: str) -> ConfiguredTopology:
    return ConfiguredTopology(topology.epoch, problem=(code, why))


def _configured(subtopology: Subtopology, counts: PartitionCounts) -> ConfiguredSubtopology:
    repartition = tuple(_internal(each, counts) for each in subtopology.repartition_source_topics)
    return ConfiguredSubtopology(
        counts.tasks_of(subtopology),
        frozenset([*subtopology.source_topics, *(each.name for each in repartition)]),
        subtopology,
        repartition,
        tuple(_internal(each, counts) for each in subtopology.state_changelog_topics),
    )


def _internal(info: TopicInfo, counts: PartitionCounts) -> InternalTopic:
    return InternalTopic(
        info.name,
        info.partitions or counts.decided(info.name),
        info.replication_factor,
        {each.key: each.value for each in info.topic_configs},
    )


def _missing(
    subtopologies: Iterable[ConfiguredSubtopology], topics: TopicView
) -> dict[str, InternalTopic]:
    """Those internal topics that do not exist; those that do must have the right partitions."""
    internal = {
        each.name: each
        for subtopology in subtopologies
        for each in (*subtopology.repartition_sources, *subtopology.changelogs)
    }
    missing = {}
    for name, wanted in internal.items():
        topic = topics.by_name(name)
        if topic is None:
            missing[name] = wanted
        elif topic.partitions != wanted.partitions:
            raise IncorrectlyPartitionedError(
                f"Existing topic {name} has different number of partitions: expected "
                f"{wanted.partitions}, found {topic.partitions}"
            )
    return missing


def _summary(names: Iterable[str]) -> str:
    listed = list(names)
    named = ", ".join(listed[:NAMED_AT_MOST])
    more = len(listed) - NAMED_AT_MOST
    return f"{named} and {more} additional topics" if more > 0 else named
