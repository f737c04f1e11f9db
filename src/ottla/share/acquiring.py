"""What a fetch acquires of a share partition.

Rules kept here (Kafka's SharePartition.acquire):
1. Records that were delivered before come first, where the fetch passes them; then new ones.
2. batch_optimized rounds up to the end of the producer's batch, and cuts what it acquires at the
   producers' batches once it is larger than the batch size that the member asked for. record_limit
   takes at most the number asked for; the rest of the batch stays available.
3. At `share.partition.max.record.locks` only offsets that are in flight already can be acquired.
4. Records that were delivered often are offered in small parts: from half of the limit on (at least
   2), a delivery of n records is offered n >> 1, n >> 2, ... at a time and alone; a record on its
   last attempt alone.
5. read_committed: records of aborted transactions are archived instead of acquired.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from ottla.share.partition import SharePartition
from ottla.share.runs import NO_WRITE, Delivery, Run
from ottla.share.states import (
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    Acquired,
    AcquireMode,
    LogBatch,
)

LEAST_THROTTLED: Final = 2
_DELIVERY = attrgetter("delivery")


def acquire(
    partition: SharePartition,
    now: int,
    member: str,
    *,
    fetch_offset: int,
    batches: Sequence[LogBatch],
    max_records: int,
    batch_size: int,
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
    aborted: Iterable[LogBatch] = (),
) -> list[Acquired]:
    """Acquire records for a member out of whole batches that were read at `fetch_offset`.

    `aborted` are those of the batches that are not to be delivered.
    """
    if max_records <= 0 or not batches or batches[-1].last < partition.start_offset:
        return []
    last, room = _limits(partition, fetch_offset, max_records, batches[-1].last)
    if room <= 0:
        return []
    if fetch_offset < batches[0].base:
        partition.archive_missing(fetch_offset, batches[0].base)
    acquiring = _Acquiring(partition, now, member, batches, batch_size, mode, room)
    acquiring.take(max(batches[0].base, partition.start_offset), last)
    return _without(partition, acquiring.acquired, aborted)


def _limits(
    partition: SharePartition, fetch_offset: int, max_records: int, last: int
) -> tuple[int, int]:
    """The last offset, and how many records may be acquired."""
    room = min(max_records, partition.settings.max_record_locks - partition.in_flight)
    end = partition.next_offset - 1
    if room <= 0 and fetch_offset <= end:
        return min(last, end), min(max_records, end - fetch_offset + 1)
    return last, room


def throttled_from(limit: int) -> int:
    """From which delivery count on records are offered in small parts."""
    return max(LEAST_THROTTLED, -(-limit // 2))


class _Acquiring:
    """One fetch at work."""

    def __init__(
        self,
        partition: SharePartition,
        now: int,
        member: str,
        batches: Sequence[LogBatch],
        batch_size: int,
        mode: AcquireMode,
        room: int,
    ) -> None:
        self._partition = partition
        self._now = now
        self._member = member
        self._batches = batches
        self._batch_size = batch_size
        self._counts_records = mode == AcquireMode.RECORD_LIMIT
        self._locked_until = now + partition.settings.lock_duration_ms
        self._limit = partition.settings.delivery_count_limit
        self._throttled_from = throttled_from(self._limit)
        self._room = room
        self.acquired: list[Acquired] = []

    def take(self, first: int, last: int) -> None:
        """Acquire from a range of offsets, in order."""
        expected = first
        found = self._partition.runs.overlapping(first, last)
        for delivery, runs in groupby(found, key=_DELIVERY):
            parts = list(runs)
            end = parts[-1].last
            if parts[0].first > expected:
                self._take_new(expected, parts[0].first - 1, parts[0].first - 1)
            if self._room <= 0:
                return
            self._take_again(delivery, parts, first, last)
            if self._room <= 0:
                return
            expected = end + 1
        if expected <= last:
            self._take_new(expected, last, None)

    # Delivered before ---------------------------------------------------------------------

    def _take_again(self, delivery: Delivery, runs: list[Run], first: int, last: int) -> None:
        """Acquire what is available of one delivery."""
        available = [run for run in runs if run.is_acquirable(self._now)]
        if not available:
            return
        throttled = max(run.count for run in available) >= self._throttled_from
        if throttled and self.acquired:
            self._room = 0
            return
        taken = self._take_parts(delivery, available, first, last)
        self._room = 0 if throttled and taken else self._room - taken

    def _take_parts(self, delivery: Delivery, runs: list[Run], first: int, last: int) -> int:
        taken = 0
        most: int | None = self._room if self._counts_records else None
        small: int | None = None
        results: list[Acquired] = []
        for run in runs:
            start, end = max(run.first, first), min(run.last, last)
            is_last_attempt = self._limit > LEAST_THROTTLED and run.count == self._limit - 1
            if is_last_attempt and taken:
                break
            if run.count >= self._throttled_from and small is None:
                small = max(1, delivery.size >> (run.count - self._throttled_from + 1))
            ends = [limit - taken for limit in (most, small) if limit is not None]
            if is_last_attempt:
                ends.append(1)
            end = min(end, start + max(0, min(ends, default=end)) - 1) if ends else end
            if end < start:
                break
            results.append(self._lock(start, end))
            taken += end - start + 1
            if is_last_attempt or any(
                limit is not None and taken >= limit for limit in (most, small)
            ):
                break
        self._report(results)
        return taken

    def _lock(self, first: int, last: int) -> Acquired:
        (run,) = self._partition.runs.within(first, last)
        run.acquire(self._member, self._locked_until)
        return Acquired(first, last, run.count)

    def _report(self, results: Iterable[Acquired]) -> None:
        """Add what was acquired of one delivery; neighbours with the same count are one."""
        previous: Acquired | None = None
        for each in results:
            if (
                previous is not None
                and previous.last + 1 == each.first
                and previous.delivery_count == each.delivery_count
            ):
                self.acquired.pop()
                each = previous._replace(last=each.last)
            self.acquired.append(each)
            previous = each

    # New ----------------------------------------------------------------------------------

    def _take_new(self, first: int, last: int, hole_end: int | None) -> None:
        """Acquire what was not in flight; up to `hole_end` where something follows that is."""
        if self._room < last - first + 1:
            last = self._end_of_batch(first + self._room - 1)
            if hole_end is not None:
                last = min(last, hole_end)
        if self._counts_records:
            taken = min(last, first + self._room - 1)
            delivery = Delivery(first, last)
            self._add(first, taken, delivery)
            if taken < last:
                self._partition.runs.add(Run(taken + 1, last, AVAILABLE, 0, delivery))
                self._partition.may_be_available()
            self._room -= taken - first + 1
            return
        for start, end in self._parts(first, last):
            self._add(start, end, Delivery(start, end))
        self._room -= last - first + 1

    def _add(self, first: int, last: int, delivery: Delivery) -> None:
        run = Run(first, last, AVAILABLE, 0, delivery)
        run.acquire(self._member, self._locked_until)
        self._partition.runs.add(run)
        self.acquired.append(Acquired(first, last, run.count))

    def _end_of_batch(self, offset: int) -> int:
        """The last offset of the producer's batch that an offset is in."""
        for batch in self._batches:
            if batch.base <= offset <= batch.last:
                return batch.last
        return offset

    def _parts(self, first: int, last: int) -> Iterable[tuple[int, int]]:
        if last - first + 1 > self._batch_size:
            for batch in self._batches:
                if batch.base > last:
                    break
                if batch.base - first >= self._batch_size:
                    yield first, batch.base - 1
                    first = batch.base
        yield first, last


def _without(
    partition: SharePartition, acquired: list[Acquired], aborted: Iterable[LogBatch]
) -> list[Acquired]:
    """Archive what belongs to aborted transactions, and return the rest."""
    any_aborted = False
    for batch in aborted:
        kept: list[Acquired] = []
        for each in acquired:
            first, last = max(each.first, batch.base), min(each.last, batch.last)
            if first > last:
                kept.append(each)
                continue
            for run in partition.runs.within(first, last):
                if run.state is ACQUIRED and run.write == NO_WRITE:
                    run.change(ARCHIVED, NO_WRITE)
            if each.first < first:
                kept.append(each._replace(last=first - 1))
            if last < each.last:
                kept.append(each._replace(first=last + 1))
            any_aborted = True
        acquired = kept
    if any_aborted:
        partition.advance_start()
    return acquired
