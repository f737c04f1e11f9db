"""Share partitions under thousands of interleavings, against a plain model of every offset.

The invariants: no acknowledged and stored offset is delivered again, failover included; ACQUIRED
means an owner and a lock; a released or expired record below its limit is delivered again; delivery
counts never fall within one leadership; the start offset never moves back; what is stored gives the
live state.
"""

from __future__ import annotations

from random import Random

import pytest

from ottla.share.acknowledging import acknowledge, release
from ottla.share.acquiring import acquire
from ottla.share.partition import SharePartition, is_terminal
from ottla.share.runs import NO_WRITE
from ottla.share.states import (
    ACQUIRED,
    NOBODY,
    Acknowledgement,
    AcknowledgeType,
    AcquireMode,
    LogBatch,
    ShareSettings,
    StateWrite,
    StoredBatch,
)
from ottla.wire.errors import KafkaError

MEMBERS = ("a", "b", "c")
LOCK_MS = 100
LIMIT = 4
CHANGES = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)


class Store:
    """What the share coordinator keeps: of each offset the highest count, then state."""

    def __init__(self) -> None:
        self.start = 0
        self.states: dict[int, tuple[int, int]] = {}

    def take(self, write: StateWrite) -> None:
        self.start = max(self.start, write.start_offset)
        for first, last, state, count in write.batches:
            for offset in range(first, last + 1):
                self.states[offset] = max(self.states.get(offset, (0, 0)), (count, state))


class Sharing:
    """One share partition, its members, its store and its leaders."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = 1000
        self.log: list[LogBatch] = []
        self.log_start = 0
        self.store = Store()
        self.done: set[int] = set()
        self.counts: dict[int, int] = {}
        self.starts_seen = 0
        self.held: dict[int, str] = {}
        self.writes: list[StateWrite] = []
        self.answered: dict[int, list[int]] = {}
        self.config = ShareSettings(LIMIT, LOCK_MS, 40)
        self.partition = SharePartition(self.config, 0)

    def append(self) -> None:
        """A producer appends; some offsets do not exist."""
        base = self.log[-1].last + 1 if self.log else 0
        base += self.rng.choice((0, 0, 0, 3))
        self.log.append(LogBatch(base, base + self.rng.randrange(9)))

    def fetch(self) -> None:
        """A member fetches."""
        if not self.partition.can_acquire(self.now):
            return
        rng = self.rng
        member = rng.choice(MEMBERS)
        records = rng.randrange(1, 13)
        mode = rng.choice(list(AcquireMode))
        offset = self.partition.next_fetch_offset(self.now)
        if offset < self.log_start:
            self.partition.log_starts_at(self.log_start)
            return
        found = [each for each in self.log if each.last >= offset][: rng.randrange(1, 5)]
        gone = found[:1] if rng.random() < 0.1 else []
        got = acquire(
            self.partition,
            self.now,
            member,
            fetch_offset=offset,
            batches=found,
            max_records=records,
            batch_size=rng.randrange(1, 9),
            mode=mode,
            aborted=gone,
        )
        total = 0
        for each in got:
            total += each.last - each.first + 1
            for offset in range(each.first, each.last + 1):
                assert offset not in self.done, "delivered again after it was acknowledged"
                assert offset not in self.held, "two owners"
                assert not any(batch.base <= offset <= batch.last for batch in gone)
                assert self.counts.get(offset, 0) < each.delivery_count
                self.counts[offset] = each.delivery_count
                self.held[offset] = member
        if mode == AcquireMode.RECORD_LIMIT:
            assert total <= records

    def acknowledge(self) -> None:
        """A member acknowledges some of what it holds, or what another holds."""
        if not self.held:
            return
        rng = self.rng
        kind = rng.choice(CHANGES)
        first = rng.choice(sorted(self.held))
        member = self.held[first] if rng.random() < 0.9 else rng.choice(MEMBERS)
        last = first
        while self.held.get(last + 1) == member and rng.random() < 0.8:
            last += 1
        if rng.random() < 0.1:
            last += rng.randrange(5)
        owners = {self.held.get(offset) for offset in range(first, last + 1)}
        before = [repr(run) for run in self.partition.runs]
        given = Acknowledgement(first, last, (kind,))
        try:
            write = acknowledge(self.partition, self.now, member, [given])
        except KafkaError:
            assert owners != {member}
            assert [repr(run) for run in self.partition.runs] == before
            return
        assert owners <= {member, None}, "a hole may be between, after a failover"
        assert write is not None
        self.writes.append(write)
        offsets = [offset for offset in range(first, last + 1) if offset in self.held]
        for offset in offsets:
            del self.held[offset]
        self.answered[write.number] = offsets if kind is not AcknowledgeType.RELEASE else []

    def renew(self) -> None:
        """A member renews its locks."""
        member = self.rng.choice(MEMBERS)
        for offset, owner in self.held.items():
            if owner == member:
                given = Acknowledgement(offset, offset, (AcknowledgeType.RENEW,))
                assert acknowledge(self.partition, self.now, member, [given]) is None

    def leave(self) -> None:
        """A member's session ends."""
        member = self.rng.choice(MEMBERS)
        write = release(self.partition, member)
        self.held = {offset: owner for offset, owner in self.held.items() if owner != member}
        if write is not None:
            self.writes.append(write)
            self.answered[write.number] = []

    def outcome(self) -> None:
        """A write succeeds, or fails: then it may have been stored all the same."""
        if not self.writes:
            return
        write = self.writes.pop(self.rng.randrange(len(self.writes)))
        ok, stored = self.rng.random() < 0.7, self.rng.random() < 0.5
        if ok or stored:
            self.store.take(write)
        if ok:
            self.partition.written(write.number, self.now)
            self.done.update(self.answered.pop(write.number))
        else:
            self.partition.write_failed(write.number, self.now)
            self.answered.pop(write.number)
            self._hold_what_is_held()

    def time_passes(self) -> None:
        """Locks end."""
        self.now += self.rng.choice((1, 20, 60, 101))
        write = self.partition.expire(self.now)
        if write is not None:
            self.writes.append(write)
            self.answered[write.number] = []
        self._hold_what_is_held()

    def delete_records(self) -> None:
        """The log's start moves up."""
        end = self.log[-1].last + 1 if self.log else 0
        self.log_start = min(self.log_start + self.rng.randrange(1, 7), end)
        self.log = [each for each in self.log if each.last >= self.log_start]
        self.partition.log_starts_at(self.log_start)
        self._hold_what_is_held()

    def fail_over(self) -> None:
        """Another leader loads what was stored; writes under way reach the store or do not."""
        self.writes.clear()
        self.answered.clear()
        self.held.clear()
        self.counts = {}
        stored = SharePartition(self.config, self.store.start, self._stored())
        self.starts_seen = stored.start_offset
        self.partition = stored

    def _stored(self) -> list[StoredBatch]:
        return [
            StoredBatch(offset, offset, state, count)
            for offset, (count, state) in sorted(self.store.states.items())
        ]

    def _hold_what_is_held(self) -> None:
        self.held = {
            offset: run.member
            for run in self.partition.runs
            if run.state is ACQUIRED
            for offset in range(run.first, run.last + 1)
        }

    def runs_are_sound(self) -> None:
        """Runs are sorted; ACQUIRED means an owner and a lock; nothing settled is first."""
        expected = self.partition.start_offset
        assert expected >= self.starts_seen
        self.starts_seen = expected
        for run in self.partition.runs:
            assert run.first >= expected
            assert run.last >= run.first
            expected = run.last + 1
            assert (run.state is ACQUIRED) == (run.member != NOBODY)
            if run.state is ACQUIRED:
                assert run.write == NO_WRITE
                assert self.now < run.locked_until <= self.now + LOCK_MS
                assert 0 < run.count <= LIMIT
        first = next(iter(self.partition.runs), None)
        if first is not None and first.first == self.partition.start_offset and not self.writes:
            assert not first.is_settled

    def owners_are_known(self) -> None:
        """What members believe to hold is what the partition says."""
        live = {
            offset: run.member
            for run in self.partition.runs
            if run.state is ACQUIRED
            for offset in range(run.first, run.last + 1)
        }
        assert live == self.held

    def end(self) -> None:
        """In the end every record is delivered: accepted, or archived at its limit."""
        for write in self.writes:
            self.partition.write_failed(write.number, self.now)
        for _ in range(2000):
            self.now += LOCK_MS + 1
            ended = self.partition.expire(self.now)
            if ended is not None:
                self.partition.written(ended.number, self.now)
            offset = self.partition.next_fetch_offset(self.now)
            found = [each for each in self.log if each.last >= offset]
            if not found:
                break
            got = acquire(
                self.partition,
                self.now,
                "z",
                fetch_offset=offset,
                batches=found,
                max_records=500,
                batch_size=500,
            )
            moved = self.partition.next_fetch_offset(self.now) != offset
            assert got or moved, "nothing is offered, though there are records"
            for first, last, _ in got:
                assert not set(range(first, last + 1)) & self.done
                given = Acknowledgement(first, last, (AcknowledgeType.ACCEPT,))
                accepted = acknowledge(self.partition, self.now, "z", [given])
                assert accepted is not None
                assert all(is_terminal(batch.state) for batch in accepted.batches)
                self.partition.written(accepted.number, self.now)
        else:
            raise AssertionError("not all records were delivered")


STEPS = (
    *(Sharing.append, Sharing.fetch, Sharing.acknowledge, Sharing.outcome) * 6,
    *(Sharing.time_passes, Sharing.renew, Sharing.leave) * 2,
    Sharing.delete_records,
    Sharing.fail_over,
)


@pytest.mark.parametrize(
    "seeds", [range(start, start + 50) for start in range(0, 200, 50)], ids=str
)
def test_every_interleaving_keeps_the_invariants(seeds: range) -> None:
    for seed in seeds:
        rng = Random(seed)
        sharing = Sharing(rng)
        for _ in range(150):
            rng.choice(STEPS)(sharing)
            sharing.runs_are_sound()
            sharing.owners_are_known()
        sharing.end()
