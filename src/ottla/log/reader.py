"""Reading a log: the batches from an offset on, and the aborted transactions among them.

Rules kept here:
1. A reader gets batches from the one that holds its offset on, none that reaches its limit. Its
   file stays open until it is done, whatever happens to the segment.
2. A reader that may not wait for the disk gets ColdReadError, which says what to read first.
3. read() is on the hot path: what a reader at the end of the log needs is remembered.
"""

from operator import itemgetter
from typing import Protocol

from ottla.log.local_log import LocalLog
from ottla.log.segments.scan import CorruptLog
from ottla.log.segments.segment import LogSegment
from ottla.log.storage.file_cache import Slice
from ottla.log.storage.page_cache import ColdReadError
from ottla.wire.errors import ErrorCode, KafkaError


class Read(Protocol):
    """The signature of LogReader.read(), which a log has as its own."""

    def __call__(
        self,
        offset: int,
        max_bytes: int,
        limit: int,
        whole_first: bool,
        *,
        may_wait: bool = True,
    ) -> Slice | None: ...


class LogReader:
    """Reads one log."""

    __slots__ = ("_local",)

    def __init__(self, local: LocalLog) -> None:
        self._local = local

    def read(
        self,
        offset: int,
        max_bytes: int,
        limit: int,
        whole_first: bool,
        *,
        may_wait: bool = True,
    ) -> Slice | None:
        """The batches from the one that holds an offset on, up to `max_bytes` or the segment's end.

        No batch that reaches `limit` (a high watermark or a last stable offset) is in it; the last
        one may be incomplete because of `max_bytes`, as Kafka's clients expect. A first batch
        larger than `max_bytes` comes whole if `whole_first`, else nothing does. None if there is
        nothing. Raises ColdReadError if the disk would have to be read and `may_wait` is False.
        """
        local = self._local
        end_offset = local.end_offset
        if offset < local.start_offset or offset > end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{local} has offsets from {local.start_offset} to {end_offset}, not {offset}",
            )
        if local.offline:
            local.check_online()
        if limit > end_offset:
            limit = end_offset
        if offset >= limit:
            return None
        tail = local.tail_position
        if tail is not None and tail[0] == offset and limit == end_offset:
            _, segment, position = tail
            if 0 < segment.size - position <= max_bytes:
                file = segment.file
                local.tail_position = (limit, segment, segment.size)
                try:
                    file.pin()
                except OSError as error:
                    raise local.failed(error) from error
                return Slice(file, position, segment.size - position)
        segments = local.segments
        segment = segments.active
        if offset < segment.base_offset:
            segment = segments.floor(offset)
        try:
            found = segment.find(offset, may_wait=may_wait)
            while found is None:
                following = segments.after(segment)
                if following is None:
                    return None
                segment = following
                found = segment.find(offset, may_wait=may_wait)
            position, _, size = found
            end = (
                segment.size if limit == end_offset else self._position_of(limit, segment, may_wait)
            )
            available = end - position
            if size > max_bytes:
                if not whole_first or available <= 0:
                    return None
            elif available > max_bytes:
                size = max_bytes
            elif available > 0:
                size = available
                local.tail_position = (limit, segment, end)
            else:
                return None
            segment.file.pin()
        except (OSError, CorruptLog) as error:
            raise local.failed(error) from error
        return Slice(segment.file, position, size)

    def _position_of(self, limit: int, segment: LogSegment, may_wait: bool) -> int:
        """Where in a segment the first batch lies that reaches a limit."""
        local = self._local
        following = local.segments.after(segment)
        if following is not None and following.base_offset <= limit:
            return segment.size
        known = local.limit_position
        if known is not None and known[0] == limit and known[1] is segment:
            return known[2]
        found = segment.find(limit, may_wait=may_wait)
        if found is None:
            return segment.size
        local.limit_position = (limit, segment, found.position)
        return found.position

    def end_of(self, offset: int, read: Slice) -> int:
        """The offset after the last whole batch of what read() gave for an offset.

        It does not wait for the disk: where the last batches are not in memory it is estimated from
        the index, and never too high.
        """
        local = self._local
        segment = self._segment_of(offset, read)
        if segment is None:
            return offset
        stop = read.position + read.size
        if stop == segment.size:
            following = local.segments.after(segment)
            return local.end_offset if following is None else following.base_offset
        try:
            return max(offset, segment.end_before_stop(read.position, stop))
        except ColdReadError:
            return max(offset, segment.base_offset + segment.index.whole_before(stop) + 1)
        except (OSError, CorruptLog):
            return offset

    def _segment_of(self, offset: int, read: Slice) -> LogSegment | None:
        local = self._local
        segment: LogSegment | None = local.segments.floor(offset)
        while segment is not None and segment.file is not read.file:
            segment = local.segments.after(segment)
        return segment

    def aborted_in(self, offset: int, read: Slice, limit: int) -> list[tuple[int, int]]:
        """The aborted transactions that a reader needs for what read() gave for an offset.

        As in Kafka they are those up to the next indexed batch behind it, not all up to the
        reader's limit: a reader that is far behind would get all of them with every fetch.
        """
        local = self._local
        segment = self._segment_of(offset, read)
        if segment is not None:
            try:
                relative = segment.index.last_offset_from(read.position + read.size)
            except OSError as error:
                raise local.failed(error) from error
            following = local.segments.after(segment)
            if relative is not None:
                limit = min(limit, segment.base_offset + relative)
            elif following is not None:
                limit = min(limit, following.base_offset)
        return self.aborted_transactions(offset, limit)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """Producer id and first offset of each aborted transaction with records in [start, end).

        In the order of first offsets: a reader can then skip them in one pass.
        """
        local = self._local
        local.check_online()
        result: list[tuple[int, int]] = []
        try:
            for segment in local.segments.starting_with(start):
                found, complete = segment.aborted(start, end)
                result += [(each.producer_id, each.first_offset) for each in found]
                if complete:
                    break
        except OSError as error:
            raise local.failed(error) from error
        result.sort(key=itemgetter(1))
        return result
