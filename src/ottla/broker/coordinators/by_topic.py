"""Which coordinators belong to which internal topic."""

from __future__ import annotations

from typing import Any

from ottla.broker.coordinators.coordinators import Coordinators
from ottla.broker.replicas.partition import Partition
from ottla.metadata.topics import NewTopic


class CoordinatorsByTopic:
    """The coordinators of one broker, by the topic that they keep their state in."""

    def __init__(self, *coordinators: Coordinators[Any]) -> None:
        self._by_topic = {each.topic: each for each in coordinators}

    def begins_to_lead(self, partition: Partition) -> None:
        """A partition is led here: serve what it coordinates."""
        coordinators = self._by_topic.get(partition.topic)
        if coordinators is not None:
            coordinators.opened(partition)

    def ends_to_lead(self, partition: Partition) -> None:
        """A partition is no longer led here."""
        coordinators = self._by_topic.get(partition.topic)
        if coordinators is not None:
            coordinators.closed(partition)

    def new_topic(self, name: str) -> NewTopic:
        """A topic as it is created where a client only named it."""
        coordinators = self._by_topic.get(name)
        return NewTopic(name) if coordinators is None else coordinators.new_topic()

    def replication_factors(self) -> dict[str, int]:
        """The replicas that each internal topic should have."""
        return {name: each.replication_factor() for name, each in self._by_topic.items()}
