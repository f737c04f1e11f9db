"""A share partition: what one group has in flight of one partition, on the partition's leader.

Rules kept here:
1. The start offset (SPSO) is the first offset that is not done with. It moves up when everything
   below is settled, or when the log's start passes it. It never moves down: a reset of the group's
   offsets makes another share partition.
2. Everything from the start offset to the last one in flight counts as in flight, holes too.
3. A hole between the start offset and the last offset in flight was not stored by the leader
   before: it is fetched again. What a read of the log shows not to exist is archived.
4. A change is stored before it counts: its runs carry the number of the write until `written` or
   `write_failed`. A failed write gives the records back to the member, or where the lock has ended
   meanwhile, makes them available. The end of a lock counts at once; whether it is stored does not
   matter.
5. Acquiring is not stored. Delivery counts are stored with the change that follows.
6. With a change the start offset is stored that it leads to, and how many records after it are done
   with: so what is stored is short, and an administrator sees where the group is. (Kafka stores the
   start offset of before, and catches up with the next change.)
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.share.runs import NO_WRITE, Delivery, Run, Runs
from ottla.share.states import (
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    TERMINAL,
    RecordState,
    ShareSettings,
    StateWrite,
    StoredBatch,
)


class SharePartition:
    """The records of a partition that a group has in flight."""

    def __init__(
        self,
        settings: ShareSettings,
        start_offset: int,
        stored: Iterable[StoredBatch] = (),
        state_epoch: int = 0,
    ) -> None:
        """As it was stored: `stored` is sorted, and where it reaches below the start it is cut."""
        self.settings = settings
        self.start_offset = start_offset
        self.state_epoch = state_epoch
        self.runs = Runs()
        self.timed_out = 0
        """How many locks have ended without an acknowledgement."""
        self._writes: dict[int, tuple[StoredBatch, ...]] = {}
        self._last_write = NO_WRITE
        self._may_have_available = False
        for batch in stored:
            first = max(batch.first, start_offset)
            if first <= batch.last:
                self._load(first, batch)
        self.advance_start()

    def _load(self, first: int, batch: StoredBatch) -> None:
        state = RecordState(batch.state)
        if state is ACQUIRED:
            state = AVAILABLE
        delivery = Delivery(first, batch.last)
        self.runs.add(Run(first, batch.last, state, batch.delivery_count, delivery))
        self._may_have_available = True

    # Offsets ------------------------------------------------------------------------------

    @property
    def next_offset(self) -> int:
        """The offset after the last one in flight."""
        last = self.runs.last
        return self.start_offset if last is None else last + 1

    @property
    def in_flight(self) -> int:
        """How many records count as in flight."""
        return self.next_offset - self.start_offset

    def next_fetch_offset(self, now: int) -> int:
        """From where the log is read for the next fetch."""
        if not self._may_have_available:
            return self.next_offset
        expected = self.start_offset
        comes_later = False
        for run in self.runs:
            if run.first > expected:
                return expected
            if run.is_acquirable(now):
                return run.first
            comes_later = comes_later or run.available_at > now
            expected = run.last + 1
        self._may_have_available = comes_later
        return self.next_offset

    def can_acquire(self, now: int) -> bool:
        """True if a fetch may get records, if the log has them."""
        if self.in_flight < self.settings.max_record_locks:
            return True
        return self.next_fetch_offset(now) != self.next_offset

    def wakes_at(self, now: int) -> int | None:
        """When the next lock ends or a record that is held back is offered; None: never."""
        times = [
            run.locked_until if run.state is ACQUIRED else run.available_at
            for run in self.runs
            if (run.state is ACQUIRED and run.write == NO_WRITE) or run.available_at > now
        ]
        return min(times, default=None)

    def advance_start(self) -> None:
        """Move the start offset past what is settled."""
        start = self.start_offset
        for run in self.runs:
            if run.first > start or not run.is_settled:
                break
            start = run.last + 1
        if start != self.start_offset:
            self.start_offset = start
            self.runs.drop_below(start)

    def log_starts_at(self, offset: int) -> None:
        """The log begins here: what is below is gone."""
        if offset > self.start_offset:
            self.start_offset = offset
            self.runs.drop_below(offset)
            self.advance_start()

    def archive_missing(self, first: int, end: int) -> None:
        """The log has no records from `first` up to `end`: they are not offered."""
        if end > self.next_offset:
            if first <= self.start_offset and not len(self.runs):
                self.start_offset = end
                return
            end = self.next_offset
        first = max(first, self.start_offset)
        expected = first
        for run in self.runs.within(first, end - 1):
            self._fill_hole(expected, run.first)
            if run.state is AVAILABLE:
                run.change(ARCHIVED, NO_WRITE)
                run.settle()
                run.available_at = 0
            expected = run.last + 1
        self._fill_hole(expected, end)
        self.advance_start()

    def _fill_hole(self, first: int, end: int) -> None:
        if first < end:
            self.runs.add(Run(first, end - 1, ARCHIVED, 0, Delivery(first, end - 1)))

    # Changes ------------------------------------------------------------------------------

    def may_be_available(self) -> None:
        """Records may be acquirable below the last one in flight."""
        self._may_have_available = True

    def state_after_release(self, run: Run) -> RecordState:
        """What becomes of a run that its member gives back or loses."""
        return ARCHIVED if run.count >= self.settings.delivery_count_limit else AVAILABLE

    def new_write(self) -> int:
        """The number of a new write."""
        self._last_write += 1
        return self._last_write

    def to_store(self, number: int, changed: Iterable[Run]) -> StateWrite:
        """What is to be stored of runs that have changed, and the start offset when it is."""
        batches = tuple(joined(changed))
        self._writes[number] = batches
        start, complete = self.start_offset, 0
        for run in self.runs:
            if run.first == start and run.is_terminal and run.write in (NO_WRITE, number):
                start = run.last + 1
            elif run.is_terminal:
                complete += run.size
        return StateWrite(number, start, complete, batches)

    def expire(self, now: int) -> StateWrite | None:
        """End the locks whose time is over; returns what is to be stored."""
        changed = [
            run
            for run in self.runs
            if run.state is ACQUIRED and run.write == NO_WRITE and run.locked_until <= now
        ]
        if not changed:
            return None
        for run in changed:
            self._make_free(run, now)
            self.timed_out += run.size
        return self.to_store(self.new_write(), changed)

    def _make_free(self, run: Run, now: int) -> None:
        """A run that is no longer acquired."""
        run.change(self.state_after_release(run), NO_WRITE)
        self._offer(run, now)

    def _offer(self, run: Run, now: int) -> None:
        if run.state is AVAILABLE:
            delay = self.settings.redelivery_delay_ms
            run.available_at = now + delay if delay else 0
            self._may_have_available = True

    def written(self, number: int, now: int) -> None:
        """A write has succeeded."""
        for run in self._of_write(number):
            run.settle()
            self._offer(run, now)
        self._joined(number)

    def write_failed(self, number: int, now: int) -> None:
        """A write has failed: nothing of it counts."""
        for run in self._of_write(number):
            over = run.locked_until <= now
            run.restore()
            if over:
                self._make_free(run, now)
        self._joined(number)

    def _of_write(self, number: int) -> list[Run]:
        return [
            run
            for first, last, _, _ in self._writes[number]
            for run in self.runs.overlapping(first, last)
            if run.write == number
        ]

    def _joined(self, number: int) -> None:
        for first, last, _, _ in self._writes.pop(number):
            self.runs.join(first, last)
        self.advance_start()


def joined(runs: Iterable[Run]) -> Iterable[StoredBatch]:
    """Runs in order as batches; neighbours that are stored alike are one."""
    batch: StoredBatch | None = None
    for run in runs:
        if batch is not None and (run.first, run.state, run.count) == (
            batch.last + 1,
            batch.state,
            batch.delivery_count,
        ):
            batch = batch._replace(last=run.last)
            continue
        if batch is not None:
            yield batch
        batch = StoredBatch(run.first, run.last, run.state, run.count)
    if batch is not None:
        yield batch


def is_terminal(state: int) -> bool:
    """True if a record in this state is not delivered again."""
    return state in TERMINAL
