"""What the fetches of a broker share: partitions, sessions, threads, and the count of those parked.

A fetch takes this instead of the broker.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Protocol

from ottla.broker.context.clock import Clock
from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.broker.replicas.decoding import Decoding
from ottla.broker.replicas.fetch_sessions import FetchSessions
from ottla.broker.replicas.leaders import Leaders
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.scheduling.background import Background
from ottla.metadata.image import Image


class IsrWatch(Protocol):
    """Sees whether the ISR of a partition must change."""

    def look_at(self, partition: Partition) -> None:
        """A follower that is not in the ISR has fetched."""


class DelayedOperations:
    """How many requests wait: Kafka's purgatory sizes."""

    __slots__ = ("fetches", "produces")

    def __init__(self) -> None:
        self.fetches = 0
        self.produces = 0


class FetchContext:
    """What every fetch of one broker uses."""

    __slots__ = (
        "background",
        "clock",
        "cold_readers",
        "config",
        "decoding",
        "delayed",
        "image",
        "isr_watch",
        "leaders",
        "partitions",
        "sessions",
    )

    def __init__(
        self,
        *,
        partitions: Partitions,
        sessions: FetchSessions,
        leaders: Leaders,
        image: Image,
        config: DynamicConfig,
        clock: Clock,
        isr_watch: IsrWatch,
        delayed: DelayedOperations,
        decoding: Decoding,
        cold_readers: Executor,
        background: Background,
    ) -> None:
        self.partitions = partitions
        self.sessions = sessions
        self.leaders = leaders
        self.image = image
        self.config = config
        self.clock = clock
        self.isr_watch = isr_watch
        self.delayed = delayed
        self.decoding = decoding
        self.cold_readers = cold_readers
        self.background = background
