"""A topology: the subtopologies of an application, with the topics that each reads and writes.

Rules kept here:
1. A topology is kept as its record. Two are the same where their records are, whatever the order
   of their subtopologies.
2. What no application could run is refused with STREAMS_INVALID_TOPOLOGY when it comes. (Kafka
   answers UNKNOWN_SERVER_ERROR to some of it.)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.coordinator.streams.schemas import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import streams_group_heartbeat as messages


def invalid(message: str) -> KafkaError:
    """The refusal of a topology."""
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


@dataclass(frozen=True, slots=True)
class StreamsTopology:
    """One topology."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]
    by_source: Mapping[str, Subtopology] = field(compare=False)
    """The subtopology that reads each topic."""

    @classmethod
    def of(cls, value: StreamsGroupTopologyValue) -> "StreamsTopology":
        """The topology of a record."""
        found = {each.subtopology_id: each for each in value.subtopologies}
        by_source = {name: each for each in found.values() for name in sources(each)}
        return cls(value.epoch, found, by_source)

    @property
    def required_topics(self) -> frozenset[str]:
        """All topics that tasks read or keep their state in."""
        return frozenset(
            name
            for each in self.subtopologies.values()
            for name in (*sources(each), *(topic.name for topic in each.state_changelog_topics))
        )


def sources(subtopology: Subtopology) -> list[str]:
    """The topics that a subtopology reads."""
    return [
        *subtopology.source_topics,
        *(topic.name for topic in subtopology.repartition_source_topics),
    ]


def topic_names(topology: messages.Topology) -> list[str]:
    """All topics that a requested topology names, each once."""
    names = (
        name
        for each in topology.subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    )
    return list(dict.fromkeys(names))


def topology_value(topology: messages.Topology) -> StreamsGroupTopologyValue:
    """The record of a requested topology."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=list(each.source_topics),
                source_topic_regex=list(each.source_topic_regex),
                state_changelog_topics=_topics(each.state_changelog_topics),
                repartition_sink_topics=list(each.repartition_sink_topics),
                repartition_source_topics=_topics(each.repartition_source_topics),
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies
        ],
    )


def _topics(infos: Iterable[messages.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=info.name,
            partitions=info.partitions,
            replication_factor=info.replication_factor,
            topic_configs=[KeyValue(key=each.key, value=each.value) for each in info.topic_configs],
        )
        for info in infos
    ]


def check_topology(topology: messages.Topology) -> None:
    """Refuse a topology that cannot be one."""
    if topology.epoch < 0:
        raise invalid("Topology epoch must be non-negative.")
    seen: set[str] = set()
    for each in topology.subtopologies:
        name = each.subtopology_id
        if name in seen:
            raise invalid(f"Subtopology {name} is there twice.")
        seen.add(name)
        for topic in each.state_changelog_topics:
            if topic.partitions:
                raise invalid(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it "
                    f"is set to {topic.partitions}."
                )
        for topic in each.repartition_source_topics:
            if topic.partitions < 0:
                raise invalid(f"Repartition topic {topic.name} has {topic.partitions} partitions.")
        if not each.source_topics and not each.repartition_source_topics:
            raise invalid(f"No source topics found for subtopology {name}")
        for group in each.copartition_groups:
            _check_places(group.source_topics, len(each.source_topics), name)
            _check_places(
                group.repartition_source_topics, len(each.repartition_source_topics), name
            )


def _check_places(places: Iterable[int], count: int, name: str) -> None:
    for place in places:
        if not 0 <= place < count:
            raise invalid(f"A copartition group of subtopology {name} names topic {place}.")
