"""What is removed from a log's start: by age, by size, and by DeleteRecords; rolling by age.

Rules kept here:
1. Whole segments go, oldest first, and none that reaches past the high watermark.
2. Without the "delete" cleanup policy only what lies below the start offset goes.
3. The log start offset moves before the files do, so no reader begins to read what is deleted.
4. A log always has a segment: where all of them go, a new empty one begins first.
"""

from collections.abc import Callable

from ottla.log.appender import LogAppender
from ottla.log.deletion import delete_segments
from ottla.log.leader_epochs import LeaderEpochFileCache
from ottla.log.local_log import LocalLog
from ottla.log.producers.snapshots import ProducerSnapshots
from ottla.log.segments.scan import CorruptLog
from ottla.log.segments.segment import LogSegment
from ottla.wire.errors import ErrorCode, KafkaError


class Retention:
    """Removes records from the start of one log."""

    __slots__ = ("_appender", "_epochs", "_local", "_snapshots")

    def __init__(
        self,
        local: LocalLog,
        appender: LogAppender,
        epochs: LeaderEpochFileCache,
        snapshots: ProducerSnapshots,
    ) -> None:
        self._local = local
        self._appender = appender
        self._epochs = epochs
        self._snapshots = snapshots

    def maintain(self, now: int) -> bool:
        """Remove the segments that are too old or too many, and roll one that is old enough.

        In this order: a full disk may refuse the new segment, and needs what goes all the more.
        """
        local = self._local
        try:
            changed = self._remove_below_start(now) | self._remove_by_config(now)
            active = local.segments.active
            if active.size and now - active.created > local.config.max_segment_ms - active.jitter:
                self._appender.roll(local.end_offset, now)
                changed = True
            return changed
        except (OSError, CorruptLog) as error:
            raise local.failed(error) from error

    def raise_start_offset(self, offset: int) -> None:
        """Move the log start offset; maintain() removes the segments below it."""
        local = self._local
        local.check_online()
        if offset > local.committed_offset or offset < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{local} cannot start at {offset}: its high watermark is {local.committed_offset}",
            )
        if offset > local.start_offset:
            local.start_offset = offset
            self._epochs.truncate_from_start(offset)

    def _remove_below_start(self, now: int) -> bool:
        local = self._local
        start_offset = local.start_offset
        return self._remove(now, lambda _, end: end <= start_offset)

    def _remove_by_config(self, now: int) -> bool:
        local = self._local
        config = local.config
        if "delete" not in config.cleanup_policy:
            return False
        removed = False
        if 0 <= config.retention_bytes < local.size:
            surplus = local.size - config.retention_bytes

            def is_surplus(segment: LogSegment, _: int) -> bool:
                nonlocal surplus
                if surplus < segment.size:
                    return False
                surplus -= segment.size
                return True

            removed = self._remove(now, is_surplus)
        if config.retention_ms >= 0:
            oldest = now - config.retention_ms
            removed |= self._remove(now, lambda segment, _: segment.age_timestamp() < oldest)
        return removed

    def _remove(self, now: int, may_go: Callable[[LogSegment, int], bool]) -> bool:
        """Remove segments from the oldest on while they may go."""
        local = self._local
        segments = list(local.segments)
        ends = [segment.base_offset for segment in segments[1:]] + [local.end_offset]
        high_watermark = local.committed_offset
        count = 0
        for segment, end in zip(segments, ends, strict=True):
            is_last_and_empty = segment is segments[-1] and segment.size == 0
            if is_last_and_empty or end > high_watermark or not may_go(segment, end):
                break
            count += 1
        if count == 0:
            return False
        if count == len(segments):
            try:
                self._appender.roll(local.end_offset, now)
            except KafkaError:
                count -= 1  # the last one stays until there is room for the next
                if local.offline or count == 0:
                    raise
        start_offset = ends[count - 1]
        if start_offset > local.start_offset:
            local.start_offset = start_offset
            self._epochs.truncate_from_start(start_offset)
        delete_segments(local, self._snapshots, local.segments.remove_first(count), now)
        return True
