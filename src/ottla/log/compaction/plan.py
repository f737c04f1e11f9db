"""How dirty a log is, and what may be compacted of it.

Rules kept here (Kafka's LogCleanerManager):
1. Whole segments are compacted, and never the active one, nor one that reaches past the last stable
   offset or the high watermark, nor one with a record younger than `min.compaction.lag.ms`.
2. A log is due when the dirty part of what may be compacted exceeds `min.cleanable.dirty.ratio`, or
   holds a segment that began more than `max.compaction.lag.ms` ago.
3. A plan is valid as long as its segments are the log's, complete and in order. The log may be
   truncated, retained or deleted meanwhile: then the plan is dropped.
4. Recovery must never rebuild the producers from compacted batches: before a plan is carried out
   the log is flushed, and the new recovery point is checkpointed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.log.compaction.order import Cleaned, Order
from ottla.log.config import FOREVER

if TYPE_CHECKING:
    from ottla.log.log import Log
    from ottla.log.segments.segment import LogSegment


@dataclass(slots=True, eq=False)
class Plan:
    """What may be compacted of a log, and how much there is to gain."""

    log: Log
    segments: list[LogSegment]
    """Those still to be compacted, from the log's first on."""
    truncations: int
    """How often the log had been truncated when the plan was made."""
    first_dirty: int
    end: int
    """Where the first segment begins that must not be touched."""
    total_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """For how long the log should have been compacted already."""

    @property
    def dirty_ratio(self) -> float:
        """The dirty part of all that may be compacted."""
        return self.dirty_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """True if the log should be compacted now."""
        return self.dirty_bytes > 0 and (
            self.overdue_ms > 0 or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio
        )

    @property
    def still_holds(self) -> bool:
        """False if the log changed so that the plan is no longer valid."""
        log = self.log
        return (
            not log.offline
            and "compact" in log.config.cleanup_policy
            and log.truncations == self.truncations
            and log.segments.holds(self.segments)
        )

    def carry_out(self, cleaned: Cleaned, now: int) -> None:
        """Replace the first segments of the plan by a new one; raises as Log does."""
        count = len(cleaned.segments)
        replaced = self.segments[:count]
        assert [each.base_offset for each in replaced] == cleaned.segments
        self.log.replace_segments(replaced, now)
        del self.segments[:count]

    def order(self, now: int, *, memory: int, bytes_per_second: float) -> Order:
        """The order for the child process."""
        log, config = self.log, self.log.config
        producers: dict[int, tuple[int, int]] = {}
        for producer_id, producer in log.producers.by_id.items():
            last_offset = producer.batches[-1].last_offset if producer.batches else -1
            if last_offset < self.end:
                producers[producer_id] = last_offset, producer.epoch
        return Order(
            directory=str(log.directory),
            segments=[(each.base_offset, each.size) for each in self.segments],
            later=[each.base_offset for each in log.segments.starting_with(self.end)],
            first_dirty=self.first_dirty,
            end=self.end,
            producers=producers,
            now=now,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            delete_retention_ms=config.delete_retention_ms,
            memory=memory,
            bytes_per_second=bytes_per_second,
        )


def plan(log: Log, first_dirty: int | None, now: int) -> Plan | None:
    """What may be compacted of a log that is clean up to an offset; None if that is nothing.

    Raises OSError and CorruptLog if the timestamps of a segment cannot be read.
    """
    segments = list(log.segments)
    if len(segments) == 1:
        return None
    if first_dirty is None or not log.start_offset <= first_dirty <= log.end_offset:
        first_dirty = log.start_offset
    ends = [segment.base_offset for segment in segments[1:]]
    oldest_dirty = next((at for at, end in enumerate(ends) if end > first_dirty), len(ends))
    count = _touchable(log, segments, ends, oldest_dirty, now)
    if count <= oldest_dirty:
        return None
    end = ends[count - 1]
    if log.producers.by_id and log.snapshots.newest < end:
        return None  # rule 4; rolling or closing the log takes the snapshot
    return Plan(
        log,
        segments[:count],
        log.truncations,
        first_dirty,
        end,
        sum(segment.size for segment in segments[:count]),
        sum(segment.size for segment in segments[oldest_dirty:count]),
        _overdue(segments[oldest_dirty:-1], log.config.max_compaction_lag_ms, now),
    )


def _touchable(
    log: Log, segments: list[LogSegment], ends: list[int], oldest_dirty: int, now: int
) -> int:
    """How many segments may be compacted, from the first on."""
    bound = log.last_stable_offset
    lag = log.config.min_compaction_lag_ms
    for at, end in enumerate(ends):
        is_young = lag > 0 and at >= oldest_dirty and segments[at].age_timestamp() > now - lag
        if end > bound or is_young:
            return at
    return len(ends)


def _overdue(dirty: list[LogSegment], max_lag: int, now: int) -> int:
    if max_lag == FOREVER:
        return 0
    timestamps = [_first_timestamp(segment) for segment in dirty if segment.size]
    earliest = min((each for each in timestamps if each > 0), default=now)
    return max(0, now - max_lag - earliest)


def _first_timestamp(segment: LogSegment) -> int:
    if segment.first_timestamp < 0:
        segment.first_timestamp = segment.header(0).max_timestamp
    return segment.first_timestamp
