"""What the metrics are read from: as much of the broker as they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from typing import Protocol

from ottla.broker.metrics.counters import ReplicaMetrics, TopicMetrics
from ottla.broker.metrics.group_lag import GroupPositions
from ottla.broker.metrics.share_counts import SharingView
from ottla.metadata.image import Image


class LogView(Protocol):
    """A log on disk."""

    @property
    def start_offset(self) -> int:
        """Its first offset."""

    @property
    def end_offset(self) -> int:
        """The offset after its last record."""

    @property
    def size(self) -> int:
        """Its bytes."""


class LeadershipView(Protocol):
    """The replicas of a partition that is led here."""

    @property
    def isr(self) -> Sized:
        """Those in sync."""

    @property
    def replicas(self) -> Sized:
        """All of them."""

    @property
    def min_isr(self) -> int:
        """`min.insync.replicas`."""


class PartitionView(Protocol):
    """A replica on this broker."""

    @property
    def topic(self) -> str:
        """The topic's name."""

    @property
    def index(self) -> int:
        """The partition's number."""

    @property
    def leads(self) -> bool:
        """Whether this replica leads."""

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are committed."""

    @property
    def log(self) -> LogView:
        """Its log."""

    @property
    def leadership(self) -> LeadershipView | None:
        """Its followers, where it leads and has any."""


class PartitionCounts(Protocol):
    """The partitions of this broker, counted."""

    def __iter__(self) -> Iterator[PartitionView]:
        """All of them."""

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
    def replica_metrics(self) -> ReplicaMetrics:
        """Counters of elections and of changes of the ISR."""

    async def group_positions(self) -> GroupPositions:
        """What the groups have committed that this broker coordinates."""

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

    @property
    def sharing(self) -> SharingView:
        """The share partitions."""
