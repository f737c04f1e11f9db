"""Offsets that were to be read and are not in the log (pure).

Rules kept here:
1. A gap inside a log is no loss: transaction markers, aborted records and compaction make gaps.
   Lost is what lies before a log's start, and what lies after its end.
2. With failOnDataLoss every loss is an error that names topic, partition and offsets; without it
   the rest is read, and the same sentence is a warning.
3. A topic that was deleted and created again is another topic, known by its id. Where an id is not
   known, a log that ends before the place where reading was to continue tells the same. Without
   failOnDataLoss it is read from its start, by the batch that goes back: one that was planned for
   the old topic reads nothing of the new one.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.client import TopicPartition
from pyspark_ottla.source.offsets import Offsets, in_words

HINT = "set the option failOnDataLoss to false to continue with the remaining records"


class Bounds(NamedTuple):
    """What a partition's log holds: first <= offset < end."""

    first: int
    end: int


class LossCheck(NamedTuple):
    """What can be read of what was wanted, and what was lost."""

    start: Offsets
    end: Offsets
    losses: list[str]


def available(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, Bounds],
    *,
    goes_on: bool = False,
    recreated: Collection[str] = (),
) -> LossCheck:
    """Compare ranges with logs. A partition that `logs` does not have no longer exists.

    With `goes_on`, the starts are ends of earlier batches, and no user's choice (rule 3). The
    ranges of topics in `recreated` are those of a topic that was deleted.
    """
    found = LossCheck({}, {}, [])
    for partition, wanted_end in end.items():
        wanted_start = start[partition]
        log = None if partition.topic in recreated else logs.get(partition)
        if log is None:
            if wanted_start < wanted_end:
                what = (
                    f"topic {partition.topic} was deleted and created again: offsets "
                    f"{wanted_start} to {wanted_end - 1} of {in_words([partition])}, as it was,"
                    if partition.topic in recreated
                    else f"{in_words([partition])} no longer exists: "
                    f"its offsets {wanted_start} to {wanted_end - 1}"
                )
                found.losses.append(f"{what} cannot be read")
            found.start[partition] = found.end[partition] = wanted_end
            continue
        first, last = wanted_start, wanted_end
        if first > min(log.end, last):
            found.losses.append(
                f"{in_words([partition])} cannot be read from offset {first} on, "
                f"but its log ends at offset {log.end}: the topic may have been created again"
            )
            last = min(last, log.end)
            first = log.first if goes_on and wanted_end < wanted_start else last
        elif last > log.end:
            found.losses.append(
                f"{in_words([partition])} cannot be read up to offset {last}, "
                f"but its log ends at offset {log.end}"
            )
            last = log.end
        if first < log.first and first < last:
            found.losses.append(
                f"offsets {first} to {min(log.first, last) - 1} of {in_words([partition])} "
                f"no longer exist: the log starts at offset {log.first}"
            )
            first = log.first
        found.start[partition] = min(first, last)
        found.end[partition] = last
    return found


def vanished(known: Mapping[TopicPartition, int], there: Mapping[TopicPartition, int]) -> list[str]:
    """What can never be read of partitions that were known and are not there."""
    return [
        f"{in_words([partition])} no longer exists: what came after offset {offset} cannot be read"
        for partition, offset in sorted(known.items())
        if partition not in there
    ]


def recreations(known: Mapping[TopicPartition, int], topics: Collection[str]) -> list[str]:
    """What can never be read of topics that were deleted and created again."""
    losses = []
    for topic in sorted(topics):
        read = {item: offset for item, offset in sorted(known.items()) if item.topic == topic}
        places = ", ".join(
            f"offset {offset} of {in_words([item])}" for item, offset in read.items()
        )
        losses.append(
            f"topic {topic} was deleted and created again: what came after {places} in the "
            "deleted one cannot be read, and the new one is to be read from its start"
        )
    return losses
