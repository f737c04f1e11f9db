"""Stretches of partitions, and how they are shared out among tasks (pure).

Rules kept here:
1. Every offset of a stretch is in exactly one part, and the parts of a partition are in order.
2. `maxRecordsPerPartition` bounds every part. `minPartitions` splits the largest stretches until
   there are about as many parts, as in Spark's Kafka source; it never joins any.
3. Numbers are of offsets: gaps (transaction markers, compaction) are not looked for.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.client import TopicPartition


class OffsetRange(NamedTuple):
    """The offsets of a partition with start <= offset < end."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets there are; rows may be fewer."""
        return self.end - self.start


def ranges(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> list[OffsetRange]:
    """What lies between two places; partitions without anything are left out."""
    return [
        OffsetRange(*partition, start[partition], stop)
        for partition, stop in sorted(end.items())
        if start[partition] < stop
    ]


def split(
    whole: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """The parts that tasks read."""
    parts = [max(1, -(-item.size // max_records)) if max_records else 1 for item in whole]
    if min_partitions is not None and sum(parts) < min_partitions:
        parts = _more_parts(whole, parts, min_partitions)
    return [part for item, count in zip(whole, parts, strict=True) for part in _cut(item, count)]


def _more_parts(whole: Sequence[OffsetRange], least: list[int], wanted: int) -> list[int]:
    """Parts in proportion to sizes, once those that stay whole are out of the sum."""
    total = sum(item.size for item in whole)
    stay = [round(item.size / total * wanted) <= 1 for item in whole]
    divided = sum(item.size for item, stays in zip(whole, stay, strict=True) if not stays)
    share = max(wanted - sum(stay), 1)
    return [
        at_least if stays else max(at_least, round(item.size / divided * share))
        for item, stays, at_least in zip(whole, stay, least, strict=True)
    ]


def _cut(item: OffsetRange, count: int) -> list[OffsetRange]:
    """Equal parts of a range: at most one part for each offset."""
    count = min(count, item.size)
    edges = [item.start + item.size * index // count for index in range(count + 1)]
    return [item._replace(start=first, end=last) for first, last in pairwise(edges)]
