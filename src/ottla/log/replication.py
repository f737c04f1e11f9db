"""What a follower does to its log: copy the leader's batches, and give up what the leader lacks.

Rules kept here:
1. A follower orders nothing: batches keep their bytes, offsets and epochs. Offsets may leave gaps
   (compaction), never go back.
2. All batches of a call are checked before the first is written. A batch cut off at the end, where
   the leader's answer was full, is left for the next fetch.
   So is a batch of a newer leader epoch than the one that was fetched for, with all that follow it
   (KAFKA-18723): the leader of that epoch has no such batch, so they come from another log.
3. Truncation goes to a batch's beginning. Everything derived (indexes, epochs, producers, the
   recovery point) goes back with it.
"""

from __future__ import annotations

import time
from itertools import takewhile
from typing import TYPE_CHECKING

from ottla.log.scan import CorruptLog
from ottla.wire.batch import crc_is_right, headers
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.log.segment import Segment
    from ottla.log.storage import Storage


def append_as_follower(
    log: Storage, view: memoryview, now: int | None, leader_epoch: int | None
) -> bool:
    """Append a leader's batches; False where some are of a newer epoch than its, and left out."""
    log.check_online()
    found = list(headers(view))
    batches = found
    if leader_epoch is not None:
        batches = list(takewhile(lambda each: each[1].leader_epoch <= leader_epoch, found))
    if not batches:
        return not found
    first = batches[0][1].base_offset
    expected = log.end_offset
    if first < expected and log.start_offset == log.end_offset and log.size == 0:
        # DeleteRecords on the leader may have left its start offset inside a batch.
        expected = first
    for position, header in batches:
        if header.base_offset < expected or header.last_offset_delta < 0:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{log}: offset {header.base_offset} cannot follow {expected - 1}",
            )
        if not crc_is_right(view[position : position + header.size], header):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{log}: the batch at {header.base_offset} has an invalid CRC",
            )
        expected = header.next_offset
    if first < log.end_offset:
        truncate_fully_and_start_at(log, first, log.start_offset)
    log.write_batches(view, batches, now)
    return len(batches) == len(found)


def end_if_truncated_to(log: Storage, offset: int) -> int:
    """Where the log would end: at the beginning of the first batch that reaches past an offset."""
    log.check_online()
    if offset >= log.end_offset:
        return log.end_offset
    if offset < log.segments.first.base_offset:
        return offset
    try:
        return _find_cut(log, offset)[2]
    except (OSError, CorruptLog) as error:
        raise log.failed(error) from error


def truncate_to(log: Storage, offset: int) -> bool:
    """Remove the batches that reach past an offset; says whether there were any."""
    log.check_online()
    if offset >= log.end_offset:
        # A leader that never wrote in its epoch left an entry at the end of its log.
        log.epochs.truncate_from_end(log.end_offset)
        return False
    if offset < log.segments.first.base_offset:
        truncate_fully_and_start_at(log, offset, None)
        return True
    try:
        _cut(log, offset)
    except (OSError, CorruptLog) as error:
        log.fail(error)  # half of it may be done: no matter how it failed
        raise log.failed(error) from error
    return True


def _find_cut(log: Storage, offset: int) -> tuple[Segment, int, int]:
    """The segment and position to cut at, and the offset at which the log ends then.

    A log ends where its last batch does: an offset between two batches, or inside one, is no end.
    """
    segment = log.segments.floor(offset)
    found = segment.find(offset)
    position = segment.size if found is None else found.position
    return segment, position, segment.end_before(offset, position)


def _cut(log: Storage, offset: int) -> None:
    now = _now()
    segments = log.segments
    segment, position, end_offset = _find_cut(log, offset)
    log.lower_recovery_point(end_offset)
    # From the end: wherever this is killed, what is left is a beginning.
    log.doom(segments.remove_from(segment.base_offset + 1)[::-1], now)
    log.cut_active(end_offset, position)
    log.epochs.truncate_from_end(end_offset)
    log.snapshots.remove_after(end_offset)
    if log.producers.by_id:
        before = log.producers
        log.producers = log.snapshots.restore(segments, end_offset)
        log.producers.seen(now)
        for producer_id, producer in log.producers.by_id.items():
            if producer_id in before.by_id:
                producer.last_seen = before.by_id[producer_id].last_seen


def truncate_fully_and_start_at(log: Storage, offset: int, start_offset: int | None) -> None:
    """Remove everything and begin again at an offset."""
    log.check_online()
    now = _now()
    try:
        log.restart_at(offset, now)
    except OSError as error:
        log.fail(error)
        raise log.failed(error) from error
    log.start_offset = offset if start_offset is None else start_offset


def _now() -> int:
    return time.time_ns() // 1_000_000
