"""Which share partitions of a group have state at the share coordinator, as record 15 says.

Rules kept here:
1. A share partition is initializing from the decision until the share coordinator has its state,
   then initialized. Only initialized ones are assigned to members.
2. What fails to be initialized is no longer initializing: the next heartbeat begins it again. So
   does one that was begun by a coordinator that is gone, or too long ago
   (`group.share.initialize.retry.interval.ms`).
3. A topic whose offsets are deleted is deleting until the share coordinator has deleted them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from ottla.coordinator.share.member import Partitions
from ottla.coordinator.share.schemas import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from ottla.coordinator.topics import TopicView

_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """The share partitions of one group."""

    initializing: Partitions = field(default_factory=dict)
    initialized: Partitions = field(default_factory=dict)
    deleting: frozenset[UUID] = frozenset()
    names: Mapping[UUID, str] = field(default_factory=dict)
    """The names of all these topics, which may be deleted by now."""

    def missing(
        self, topics: Iterable[str], view: TopicView, under_way: frozenset[UUID]
    ) -> dict[UUID, frozenset[int]]:
        """The partitions of these topics that have no state, and get none at the moment."""
        found: dict[UUID, frozenset[int]] = {}
        for name in topics:
            topic = view.by_name(name)
            if topic is None:
                continue
            topic_id = topic.topic_id
            known = self.initialized.get(topic_id, _NONE)
            if topic_id in under_way:
                known |= self.initializing.get(topic_id, _NONE)
            if lacking := frozenset(range(topic.partitions)) - known:
                found[topic_id] = lacking
        return found

    def begun(self, partitions: Partitions, names: Mapping[UUID, str]) -> "StatePartitions":
        """These partitions are initializing."""
        return replace(
            self,
            initializing=_union(self.initializing, partitions),
            deleting=self.deleting - partitions.keys(),
            names={**self.names, **names},
        )

    def ended(self, done: Partitions, failed: Partitions) -> "StatePartitions":
        """These are initialized; those have failed."""
        return replace(
            self,
            initializing=_without(_without(self.initializing, done), failed),
            initialized=_union(self.initialized, done),
        )

    def deletion_begun(self, topics: Iterable[UUID]) -> "StatePartitions":
        """The state of these topics is being deleted."""
        gone = frozenset(topics)
        return replace(
            self,
            initializing={key: each for key, each in self.initializing.items() if key not in gone},
            initialized={key: each for key, each in self.initialized.items() if key not in gone},
            deleting=self.deleting | gone,
        )

    def forgotten(self, topics: Iterable[UUID]) -> "StatePartitions":
        """The state of these topics is deleted."""
        gone = frozenset(topics)
        return replace(self.deletion_begun(gone), deleting=self.deleting - gone)

    def to_value(self) -> ShareGroupStatePartitionMetadataValue:
        """The record's value."""
        return ShareGroupStatePartitionMetadataValue(
            initializing_topics=self._infos(self.initializing),
            initialized_topics=self._infos(self.initialized),
            deleting_topics=[
                TopicInfo(topic_id=topic_id, topic_name=self.names.get(topic_id, ""))
                for topic_id in sorted(self.deleting)
            ],
        )

    def _infos(self, partitions: Partitions) -> list[TopicPartitionsInfo]:
        return [
            TopicPartitionsInfo(
                topic_id=topic_id,
                topic_name=self.names.get(topic_id, ""),
                partitions=sorted(numbers),
            )
            for topic_id, numbers in sorted(partitions.items())
        ]


def from_value(value: ShareGroupStatePartitionMetadataValue) -> StatePartitions:
    """What a record says."""
    initializing, initialized = value.initializing_topics, value.initialized_topics
    infos = [*initializing, *initialized]
    return StatePartitions(
        initializing={each.topic_id: frozenset(each.partitions) for each in initializing},
        initialized={each.topic_id: frozenset(each.partitions) for each in initialized},
        deleting=frozenset(each.topic_id for each in value.deleting_topics),
        names={
            **{each.topic_id: each.topic_name for each in infos},
            **{each.topic_id: each.topic_name for each in value.deleting_topics},
        },
    )


def _union(first: Partitions, second: Partitions) -> dict[UUID, frozenset[int]]:
    return {
        topic_id: first.get(topic_id, _NONE) | second.get(topic_id, _NONE)
        for topic_id in {**first, **second}
    }


def _without(first: Partitions, second: Partitions) -> dict[UUID, frozenset[int]]:
    left = {key: numbers - second.get(key, _NONE) for key, numbers in first.items()}
    return {key: numbers for key, numbers in left.items() if numbers}
