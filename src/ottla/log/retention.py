"""What a log may forget: `segment.ms`, `retention.ms`, `retention.bytes`, and DeleteRecords.

Rules kept here:
1. Whole segments go, oldest first, and none that reaches past the high watermark.
2. Without the "delete" cleanup policy only what lies below the start offset goes.
3. The start offset moves before the files do, so nobody begins to read what is about to go.
4. A log always has a segment: where all of them go, a new empty one begins first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.log.scan import CorruptLog
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.log.segment import Segment
    from ottla.log.storage import Storage


def maintain(log: Storage, now: int) -> bool:
    """Remove the segments that are too old or too many, and roll one that is old enough.

    In this order: a full disk may refuse the new segment, and needs what goes all the more.
    """
    try:
        changed = _remove_below_start(log, now) | _remove_by_config(log, now)
        active = log.segments.active
        if active.size and now - active.created > log.config.max_segment_ms - active.jitter:
            log.roll(now)
            changed = True
        return changed
    except (OSError, CorruptLog) as error:
        raise log.failed(error) from error


def raise_start_offset(log: Storage, offset: int) -> None:
    """Nobody reads below this offset any more; what lies wholly below it goes at maintain()."""
    log.check_online()
    if offset > _high_watermark(log) or offset < 0:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log} cannot start at {offset}: its high watermark is {_high_watermark(log)}",
        )
    if offset > log.start_offset:
        log.start_offset = offset
        log.epochs.truncate_from_start(offset)


def _high_watermark(log: Storage) -> int:
    return log.end_offset if log.high_watermark is None else log.high_watermark


def _remove_below_start(log: Storage, now: int) -> bool:
    start_offset = log.start_offset
    return _remove(log, now, lambda _, end: end <= start_offset)


def _remove_by_config(log: Storage, now: int) -> bool:
    config = log.config
    if "delete" not in config.cleanup_policy:
        return False
    removed = False
    if 0 <= config.retention_bytes < log.size:
        surplus = log.size - config.retention_bytes

        def is_surplus(segment: Segment, _: int) -> bool:
            nonlocal surplus
            if surplus < segment.size:
                return False
            surplus -= segment.size
            return True

        removed = _remove(log, now, is_surplus)
    if config.retention_ms >= 0:
        oldest = now - config.retention_ms
        removed |= _remove(log, now, lambda segment, _: segment.age_timestamp() < oldest)
    return removed


def _remove(log: Storage, now: int, may_go: Callable[[Segment, int], bool]) -> bool:
    """Remove segments from the oldest on while they may go."""
    segments = list(log.segments)
    ends = [segment.base_offset for segment in segments[1:]] + [log.end_offset]
    high_watermark = _high_watermark(log)
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
            log.roll(now)
        except KafkaError:
            count -= 1  # the last one stays until there is room for the next
            if log.offline or count == 0:
                raise
    start_offset = ends[count - 1]
    if start_offset > log.start_offset:
        log.start_offset = start_offset
        log.epochs.truncate_from_start(start_offset)
    log.doom(log.segments.remove_first(count), now)
    return True
