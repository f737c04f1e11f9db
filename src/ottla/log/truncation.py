"""Truncating a log: giving up what the leader does not have.

Rules kept here:
1. Truncation goes to a batch's beginning. Everything derived (indexes, epochs, producers, the
   recovery point) goes back with it.
2. Segments go from the last one on: wherever this is killed, what is left is a prefix of the log.
3. Where it fails half-way the log goes offline, however it failed.
"""

import time

import structlog

from ottla.log.deletion import delete_segments
from ottla.log.leader_epochs import LeaderEpochFileCache
from ottla.log.local_log import LocalLog
from ottla.log.producers.manager import ProducerStateManager
from ottla.log.segments.scan import CorruptLog
from ottla.log.segments.segment import LogSegment

_log = structlog.get_logger()


class Truncation:
    """Removes records from the end of one log."""

    __slots__ = ("_epochs", "_local", "_producers")

    def __init__(
        self, local: LocalLog, epochs: LeaderEpochFileCache, producers: ProducerStateManager
    ) -> None:
        self._local = local
        self._epochs = epochs
        self._producers = producers

    def end_if_truncated_to(self, offset: int) -> int:
        """Where truncate_to(offset) would make the log end."""
        local = self._local
        local.check_online()
        if offset >= local.end_offset:
            return local.end_offset
        if offset < local.segments.first.base_offset:
            return offset
        try:
            return self._find(offset)[2]
        except (OSError, CorruptLog) as error:
            raise local.failed(error) from error

    def truncate_to(self, offset: int) -> bool:
        """Remove the batches that reach past an offset; returns whether there were any."""
        local = self._local
        local.check_online()
        if offset >= local.end_offset:
            # A leader that never wrote in its epoch left an entry at the end of its log.
            self._epochs.truncate_from_end(local.end_offset)
            return False
        if offset < local.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset, None)
            return True
        try:
            self._truncate(offset)
        except (OSError, CorruptLog) as error:
            local.fail(error)
            raise local.failed(error) from error
        return True

    def _find(self, offset: int) -> tuple[LogSegment, int, int]:
        """The segment and position to truncate at, and the offset at which the log ends then.

        A log ends where its last batch does: an offset between two batches, or inside one, is no
        end.
        """
        segment = self._local.segments.floor(offset)
        found = segment.find(offset)
        position = segment.size if found is None else found.position
        return segment, position, segment.end_before(offset, position)

    def _truncate(self, offset: int) -> None:
        now = _now()
        local = self._local
        segment, position, end_offset = self._find(offset)
        local.lower_recovery_point(end_offset)
        removed = local.segments.remove_from(segment.base_offset + 1)
        delete_segments(local, self._producers.snapshots, removed[::-1], now)
        local.truncate_active(end_offset, position)
        self._epochs.truncate_from_end(end_offset)
        self._producers.truncate_and_reload(end_offset, now)

    def truncate_fully_and_start_at(self, offset: int, start_offset: int | None) -> None:
        """Remove everything and begin again at an offset."""
        local = self._local
        local.check_online()
        try:
            self.restart_at(offset, _now())
        except OSError as error:
            local.fail(error)
            raise local.failed(error) from error
        local.start_offset = offset if start_offset is None else start_offset

    def restart_at(self, offset: int, now: int) -> None:
        """Delete all segments; the next batch gets this offset or a later one. Raises OSError."""
        local = self._local
        local.lower_recovery_point(0 if len(local.segments) else offset)
        delete_segments(local, self._producers.snapshots, local.segments.remove_from(0), now)
        local.segments.add(local.new_segment(offset, now))
        self._epochs.clear()
        self._producers.clear()
        local.set_end_offset(offset)

    def restart_if_end_is_below_start(self, now: int) -> None:
        """Where the log ends before its log start offset, begin again there, as Kafka does."""
        local = self._local
        if local.end_offset < local.start_offset:
            start_offset = local.start_offset
            if local.size:  # no record may go without a log line
                _log.warning(
                    "log ends before its log start offset; deleting its segments",
                    partition=str(local),
                    end_offset=local.end_offset,
                    start_offset=start_offset,
                    bytes=local.size,
                )
            self.restart_at(start_offset, now)
            local.start_offset = start_offset


def _now() -> int:
    return time.time_ns() // 1_000_000
