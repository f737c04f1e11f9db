"""Deleting segments: rename first, remove later (`file.delete.delay.ms`).

Rules kept here:
1. A deleted segment's files end in `.deleted` before it counts as gone; opening the log removes
   what a crash left of them.
2. The producer snapshot at a segment's base offset goes with the segment.
3. Readers keep the files that they have open.
"""

from ottla.log.local_log import LocalLog
from ottla.log.producers.snapshots import ProducerSnapshots
from ottla.log.segments.segment import LogSegment


def delete_segments(
    local: LocalLog, snapshots: ProducerSnapshots, segments: list[LogSegment], now: int
) -> None:
    """Rename the files of segments that are no longer in the log; they are removed later."""
    due = now + local.config.file_delete_delay_ms
    for segment in segments:
        if segment in local.unflushed_sealed:
            local.unflushed_sealed.remove(segment)
        local.size -= segment.size
        paths: list[str | None] = [*segment.rename_as_deleted()]
        paths.append(snapshots.rename_as_deleted(segment.base_offset))
        local.doomed += [(path, due) for path in paths if path is not None]
    local.directory_changed = True
    local.forget_positions()


def remove_doomed(local: LocalLog, now: int) -> int | None:
    """Remove the files that are due; returns when the next one is."""
    while local.doomed and local.doomed[0][1] <= now:
        path, _ = local.doomed.pop(0)
        try:
            local.files.unlink_if_exists(path)
        except OSError:
            pass  # opening the log removes what is left
    return local.doomed[0][1] if local.doomed else None
