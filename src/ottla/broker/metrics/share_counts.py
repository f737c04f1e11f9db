"""What the metrics of share groups are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol


class ShareCounts(NamedTuple):
    """All share groups of a broker."""

    sessions: int
    session_partitions: int
    session_evictions: int
    acknowledged: Mapping[str, int]
    """Records, by the kind of acknowledgement."""
    loads: int
    load_ms: int
    expired_fetches: int


class SharePartitionCounts(NamedTuple):
    """One share partition."""

    group: str
    topic: str
    partition: int
    messages: int
    batches: int
    lock_timeouts: int


class SharingView(Protocol):
    """The share partitions of a broker, as far as metrics go."""

    def counts(self) -> ShareCounts:
        """What they have done together."""

    def partition_counts(self) -> Iterator[SharePartitionCounts]:
        """Each of them."""
