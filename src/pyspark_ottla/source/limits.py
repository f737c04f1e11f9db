"""How far the next micro-batch goes (pure).

Rules kept here:
1. A limit counts offsets, as in Spark's Kafka source: rows may be fewer where there are gaps.
2. `maxOffsetsPerTrigger` is shared among partitions in proportion to what each has waiting; a
   partition with little gets at least one, so that none starves.
3. `minOffsetsPerTrigger` holds a batch back until as many offsets wait, or until the last batch is
   `maxTriggerDelay` ago. A query's first batch is not held back.
"""

from collections.abc import Mapping

from ottla.client import TopicPartition
from pyspark_ottla.source.offsets import Offsets


def waiting(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> int:
    """How many offsets lie between two places."""
    return sum(max(end - start[partition], 0) for partition, end in latest.items())


def limited(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], most: int
) -> Offsets:
    """The end of a batch that takes about `most` offsets."""
    sizes = {partition: max(end - start[partition], 0) for partition, end in latest.items()}
    if sum(sizes.values()) <= most:
        return dict(latest)
    # One for each partition that has something, and a share of what the limit leaves.
    left = max(most - sum(size > 0 for size in sizes.values()), 0)
    beyond_first = max(sum(size - 1 for size in sizes.values() if size), 1)
    return {
        partition: start[partition] + 1 + left * (size - 1) // beyond_first if size else end
        for (partition, end), size in zip(latest.items(), sizes.values(), strict=True)
    }


class Patience:
    """Decides whether a batch waits for more data."""

    def __init__(self, least: int, longest_delay: float) -> None:
        self._least = least
        self._longest_delay = longest_delay
        self._last: float | None = None

    def holds_back(self, count: int, now: float) -> bool:
        """True where `count` offsets are too few for now (seconds)."""
        waits = self._last is not None and now < self._last + self._longest_delay
        if count == 0 or (count < self._least and waits):
            return True
        self._last = now
        return False
