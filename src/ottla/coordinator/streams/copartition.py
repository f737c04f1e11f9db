"""How many partitions the internal topics of a topology get. Pure.

Rules kept here:
1. A repartition topic with a number of its own has that number. Any other has the largest among
   the sources of the subtopology that writes it.
2. Topics of a copartition group have the same number: that of the external ones, or of those that
   are fixed, or the largest.
3. A changelog has as many as its subtopology has tasks.
4. A topic that exists has the number that it has.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.coordinator.streams.schemas import CopartitionGroup, Subtopology
from ottla.coordinator.streams.topology import StreamsTopology, invalid, sources
from ottla.coordinator.topics import TopicView


class IncorrectlyPartitionedError(Exception):
    """Topics that must have the same number of partitions have not."""


class _Repartition(NamedTuple):
    """The repartition topics of a topology."""

    fixed: frozenset[str]
    flexible: frozenset[str]


class PartitionCounts:
    """The numbers of partitions, as they are found out."""

    def __init__(self, topics: TopicView) -> None:
        self._topics = topics
        self._decided: dict[str, int] = {}

    def decide(self, topology: StreamsTopology) -> None:
        """Find them all out; raises KafkaError and IncorrectlyPartitionedError.

        All source topics of the topology exist.
        """
        subtopologies = [topology.subtopologies[name] for name in sorted(topology.subtopologies)]
        self._decided |= self._of_repartition_topics(subtopologies)
        repartition = _Repartition(
            frozenset(
                topic.name
                for each in subtopologies
                for topic in each.repartition_source_topics
                if topic.partitions
            ),
            frozenset(
                topic.name
                for each in subtopologies
                for topic in each.repartition_source_topics
                if not topic.partitions
            ),
        )
        for each in subtopologies:
            for group in each.copartition_groups:
                self._enforce(_names(each, group), repartition)
        for each in subtopologies:
            count = self.tasks_of(each)
            self._decided.update((topic.name, count) for topic in each.state_changelog_topics)

    def tasks_of(self, subtopology: Subtopology) -> int:
        """How many tasks a subtopology has."""
        return max(self.of(name) for name in sources(subtopology))

    def decided(self, name: str) -> int:
        """What was found out for an internal topic."""
        return self._decided[name]

    def of(self, name: str) -> int:
        """How many partitions a topic has, or will have."""
        known = self._known(name)
        if known is None:
            raise invalid(f"Number of partitions is not set for topic: {name}")
        return known

    def _known(self, name: str) -> int | None:
        topic = self._topics.by_name(name)
        return self._decided.get(name) if topic is None else topic.partitions

    def _of_repartition_topics(self, subtopologies: Iterable[Subtopology]) -> dict[str, int]:
        counts = {
            topic.name: topic.partitions
            for each in subtopologies
            for topic in each.repartition_source_topics
            if topic.partitions
        }
        open_sinks = {
            (name, each.subtopology_id): each
            for each in subtopologies
            for name in each.repartition_sink_topics
        }
        while open_sinks:
            before = len(open_sinks)
            for (name, subtopology_id), each in list(open_sinks.items()):
                if name not in counts:
                    count = self._largest_source(each, counts)
                    if count is None:
                        continue
                    counts[name] = count
                del open_sinks[name, subtopology_id]
            if len(open_sinks) == before:
                raise invalid(
                    "Failed to compute number of partitions for all repartition topics. There may "
                    "be loops in the topology that cannot be resolved."
                )
        for each in subtopologies:
            if any(topic.name not in counts for topic in each.repartition_source_topics):
                raise invalid(
                    "Failed to compute number of partitions for all repartition topics, because a "
                    "repartition source topic is never used as a sink topic."
                )
        return counts

    def _largest_source(self, subtopology: Subtopology, counts: dict[str, int]) -> int | None:
        found = [counts.get(each.name) for each in subtopology.repartition_source_topics]
        found += [self._known(name) for name in subtopology.source_topics]
        return max((count for count in found if count is not None), default=None)

    def _enforce(self, group: frozenset[str], repartition: _Repartition) -> None:
        """Give the repartition topics of a copartition group the same number."""
        if not group:
            return
        internal = sorted(group & (repartition.fixed | repartition.flexible))
        external = sorted(group.difference(internal))
        if external:
            count = self._same(external)
        elif repartition.fixed:
            count = self._same(sorted(repartition.fixed))
        else:
            count = max(self.of(name) for name in internal)
        for name in internal:
            if name in repartition.fixed and self.of(name) != count:
                raise IncorrectlyPartitionedError(
                    f"Number of partitions [{self.of(name)}] of repartition topic [{name}] doesn't "
                    f"match number of partitions [{count}] of the source topic."
                )
        self._decided.update(dict.fromkeys(internal, count))

    def _same(self, names: list[str]) -> int:
        counts = {name: self.of(name) for name in names}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name}={count}" for name, count in counts.items())
            raise IncorrectlyPartitionedError(
                f"Following topics do not have the same number of partitions: [{{{listed}}}]"
            )
        return counts[names[0]]


def _names(subtopology: Subtopology, group: CopartitionGroup) -> frozenset[str]:
    return frozenset(
        [
            *(subtopology.source_topics[place] for place in group.source_topics),
            *(
                subtopology.repartition_source_topics[place].name
                for place in group.repartition_source_topics
            ),
        ]
    )
