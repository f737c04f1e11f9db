"""Quantiles of what was observed lately, from histograms that only grow. Pure.

A histogram counts since the start. Copies of it are kept for a minute, and the quantiles are those
of the difference between now and the oldest copy: as old traffic leaves, so does its latency.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

from ottla.broker.metrics.counters import LATENCY_BUCKETS, Histogram

ROLL_SECONDS: Final = 10.0
COPIES: Final = 6
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)


class RecentCounts:
    """The histograms of the last minute, by key."""

    def __init__(self) -> None:
        self._copies: deque[dict[int, list[int]]] = deque(maxlen=COPIES)

    def roll(self, histograms: Mapping[int, Histogram]) -> None:
        """Keep a copy; to be called every `ROLL_SECONDS`."""
        self._copies.append({key: list(each.counts) for key, each in histograms.items()})

    def since(self, key: int, histogram: Histogram) -> list[int]:
        """What was counted since the oldest copy, by bucket."""
        before = self._copies[0].get(key) if self._copies else None
        if before is None:
            return list(histogram.counts)
        return [now - then for now, then in zip(histogram.counts, before, strict=True)]


def quantile(counts: list[int], share: float) -> float:
    """Seconds that this share of observations took at most; NaN where there were none.

    Within a bucket, observations count as spread evenly. The last bucket has no upper bound: its
    lower one is the answer there, as in PromQL.
    """
    rank = share * sum(counts)
    if rank == 0:
        return float("nan")
    below = 0
    for place, count in enumerate(counts[:-1]):
        if count and below + count >= rank:
            lower = LATENCY_BUCKETS[place - 1] if place else 0.0
            return lower + (LATENCY_BUCKETS[place] - lower) * (rank - below) / count
        below += count
    return LATENCY_BUCKETS[-1]
