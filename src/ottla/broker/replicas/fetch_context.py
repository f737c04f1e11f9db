"""What the fetches of a broker share: partitions, sessions, threads, and the count of those parked.

A fetch takes this instead of the broker.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Final, Protocol

from ottla.broker.context.broker_context import BrokerContext
from ottla.broker.replicas.decoding import Decoding
from ottla.broker.replicas.fetch_sessions import FetchSessions
from ottla.broker.replicas.leaders import Leaders
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.scheduling.background import Background
from ottla.metadata.image import PartitionKey

_CHANCE = Random()  # of its own: a program that embeds a broker may seed the other
COLD_READERS: Final = 2
"""Threads for what is not in the page cache. Each competes with the loop for the interpreter's lock
after every read: with six of them the p99 of a small produce was twice as long."""


class IsrWatch(Protocol):
    """Sees whether the ISR of a partition must change."""

    def look_at(self, partition: Partition) -> None:
        """A follower that is not in the ISR has fetched."""


class LeaderThrottle(Protocol):
    """Holds back what followers that are not in sync are sent."""

    def is_throttled(self, key: PartitionKey, replica: int) -> bool:
        """Whether what is sent of a partition to a broker counts."""

    def wait(self) -> float:
        """For how many seconds nothing that counts may be sent."""

    def used(self, amount: int) -> None:
        """Bytes that count were sent."""


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
        "throttle",
    )

    def __init__(
        self,
        context: BrokerContext,
        *,
        partitions: Partitions,
        leaders: Leaders,
        isr_watch: IsrWatch,
        background: Background,
        throttle: LeaderThrottle,
    ) -> None:
        _, self.config, self.clock, self.image = context
        self.partitions = partitions
        self.leaders = leaders
        self.isr_watch = isr_watch
        self.throttle = throttle
        self.background = background
        self.delayed = DelayedOperations()
        self.decoding = Decoding()
        self.cold_readers = ThreadPoolExecutor(COLD_READERS, "ottla-cold-reads")
        self.sessions = FetchSessions(
            self.config.current.max_incremental_fetch_session_cache_slots,
            lambda: _CHANCE.randrange(1, 2**31),
        )

    def stop(self) -> None:
        """Begin no new work in threads."""
        self.cold_readers.shutdown(wait=False)
        self.decoding.stop()
