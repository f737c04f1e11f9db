"""The little that groups must know of the cluster's topics: names, ids, numbers of partitions."""

from collections.abc import Set
from typing import Protocol
from uuid import UUID

from msgspec import Struct


class TopicSummary(Struct, frozen=True, gc=False):
    """One topic."""

    name: str
    topic_id: UUID
    partitions: int


class TopicView(Protocol):
    """The cluster's topics as they are now."""

    @property
    def version(self) -> int:
        """A number that grows with every topic created, deleted or given partitions.

        It may be lower after a restart of the broker: groups then look again.
        """

    def by_name(self, name: str) -> TopicSummary | None:
        """The topic of a name."""

    def by_id(self, topic_id: UUID) -> TopicSummary | None:
        """The topic of an id."""


class TopicMatcher(Protocol):
    """Finds topics by pattern."""

    def __call__(self, regex: str) -> Set[str]:
        """The names of all topics that the whole of a pattern matches.

        Raises ValueError, with the reason as its text, where it is not a pattern.
        """
