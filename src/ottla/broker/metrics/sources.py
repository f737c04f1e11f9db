"""What the metrics are read from: as much of the broker as they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from ottla.broker.metrics.counters import TopicMetrics
from ottla.metadata.image import Image


class PartitionCounts(Protocol):
    """The partitions of this broker, counted."""

    def __len__(self) -> int:
        """Partitions here."""

    def sizes(self) -> dict[str, int]:
        """Bytes on disk by topic."""

    def replication(self) -> tuple[int, int, int]:
        """Partitions led here; those with replicas out of sync; those below the least in sync."""

    def halted_count(self) -> int:
        """Replicas that do not copy because their leader lacks committed records."""

    def offline_count(self) -> int:
        """Partitions that cannot be served because of their disk."""


class SessionCounts(Protocol):
    """The cache of fetch sessions, counted."""

    evictions: int

    def __len__(self) -> int:
        """Sessions in the cache."""

    @property
    def partition_count(self) -> int:
        """Partitions in the sessions."""


class DelayedCounts(Protocol):
    """How many requests wait."""

    fetches: int
    produces: int


class NamedMetrics(Protocol):
    """Has metrics of its own: name, description and value."""

    def gauges(self) -> Iterator[tuple[str, str, float]]:
        """Values that go up and down."""

    def counters(self) -> Iterator[tuple[str, str, float]]:
        """Values that only grow."""


class MetricsSource(Protocol):
    """A broker, as far as its metrics go."""

    @property
    def id(self) -> int:
        """The broker's id."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of its registration."""

    @property
    def ready(self) -> bool:
        """Whether it serves clients."""

    @property
    def image(self) -> Image:
        """The metadata."""

    @property
    def topic_metrics(self) -> Mapping[str, TopicMetrics]:
        """Counters by topic."""

    @property
    def partitions(self) -> PartitionCounts:
        """The partitions."""

    @property
    def fetch_sessions(self) -> SessionCounts:
        """The fetch sessions."""

    @property
    def delayed(self) -> DelayedCounts:
        """The requests that wait."""

    @property
    def log_cleaner(self) -> NamedMetrics:
        """The log cleaner."""
