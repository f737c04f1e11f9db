"""Whether DeleteRecords or retention explains where a leader's log starts.

A follower gives up records below its leader's log start, and so would spread a loss: of a leader
whose log was put back from an old copy, for instance. Rules kept here:
1. DeleteRecords is recorded in the partition's document before the leader's log start moves.
2. Retention deletes whole segments, the oldest first. It explains a log start where
   `retention.bytes` is set, or where the records are older than `retention.ms`: the oldest one
   that we have, and the newest one where all would go. Clocks of brokers may differ.
3. Where retention has settings that explain it, nothing is asked for: there is no false alarm.
"""

from typing import Final

from ottla.log.log import Log
from ottla.log.segments.scan import CorruptLog
from ottla.metadata.image import PartitionImage

CLOCKS_MAY_DIFFER_MS: Final = 3_600_000


def was_deleted(log: Log, state: PartitionImage | None, leader_start: int, now: int) -> bool:
    """Whether the leader may have deleted what we have below its log start."""
    if leader_start <= log.start_offset or log.start_offset >= log.end_offset:
        return True  # nothing of ours goes
    if state is None or leader_start <= state.deleted_below:
        return True
    config = log.config
    if "delete" not in config.cleanup_policy:
        return False
    if config.retention_bytes >= 0:
        return True
    if config.retention_ms < 0:
        return False
    try:
        timestamp = _newest(log) if leader_start >= log.end_offset else _oldest(log)
    except (OSError, CorruptLog) as error:
        raise log.failed(error) from error
    return timestamp < now - config.retention_ms + CLOCKS_MAY_DIFFER_MS


def _newest(log: Log) -> int:
    return max(segment.largest_timestamp() for segment in log.segments)


def _oldest(log: Log) -> int:
    first = next((segment for segment in log.segments if segment.size), None)
    return -1 if first is None else first.header(0).max_timestamp
