"""Share partitions under thousands of interleavings, against a plain model of every offset.

The invariants: no acknowledged and stored offset is delivered again, failover included; ACQUIRED
means an owner and a lock; a released or expired record below its limit is delivered again; delivery
counts never fall within one leadership; the start offset moves back by a reset only; the bytes that
are stored give the live state, also from the last snapshots on; a stale leader's write, or one of
before a reset, changes nothing.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.coordinator.shard import CoordinatorRecord, Result
from ottla.coordinator.share_state.records import SharePartitionKey
from ottla.coordinator.share_state.shard import ShareStateConfig, ShareStateShard
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
from ottla.wire.errors import ErrorCode as E
from ottla.wire.errors import KafkaError
from ottla.wire.messages import initialize_share_group_state as initializing
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import write_share_group_state as writing
from tests.coordinator.groups_world import Topics

TOPICS = Topics(a=1)
KEY = SharePartitionKey("g", TOPICS.id_of("a"), 0)
MEMBERS = ("a", "b", "c")
LOCK_MS = 100
LIMIT = 4
CHANGES = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)


class Store:
    """The real share coordinator, and the bytes of its log."""

    def __init__(self) -> None:
        self.shard = self._new_shard()
        self.log: list[CoordinatorRecord] = []
        self.state_epoch = 0
        self.begin(0)

    @staticmethod
    def _new_shard() -> ShareStateShard:
        return ShareStateShard(ShareStateConfig(updates_per_snapshot=5), TOPICS)

    def _take(self, result: Result[Any]) -> Any:
        for record in result.records:
            self.shard.replay(record, len(self.log))
            self.log.append(CoordinatorRecord(record.key, record.value))
        return result.reply

    def begin(self, start: int) -> None:
        """An administrator sets the group to an offset: another state epoch."""
        self.state_epoch += 1
        asked = initializing.PartitionData(
            partition=0, state_epoch=self.state_epoch, start_offset=start
        )
        reply = self._take(self.shard.handle_initialize(KEY, asked, 0))
        assert reply.error_code == 0

    def take(self, write: StateWrite, leader_epoch: int, state_epoch: int) -> bool:
        """A write of a leader; a fenced one changes nothing. True if it is stored."""
        asked = writing.PartitionData(
            partition=0,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=write.delivery_complete_count,
            state_batches=[
                writing.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in write.batches
            ],
        )
        before, length = self.shard.states[KEY], len(self.log)
        reply = self._take(self.shard.handle_write(KEY, asked, 0))
        if reply.error_code:
            assert reply.error_code in (E.FENCED_LEADER_EPOCH, E.FENCED_STATE_EPOCH)
            assert (self.shard.states[KEY], len(self.log)) == (before, length)
            return False
        assert self.shard.states[KEY].start_offset >= before.start_offset
        return True

    def read(self, leader_epoch: int, log_start: int) -> tuple[int, int, list[StoredBatch]]:
        """Start offset, state epoch and batches for a new leader, by a coordinator of its own."""
        again = self._new_shard()
        begin = self.shard.redundant_below or 0
        for offset, record in enumerate(self.log[begin:], begin):
            again.replay(record, offset)
        assert again.states[KEY] == self.shard.states[KEY], "replay does not give the live state"
        self.shard = again
        asked = reading.PartitionData(partition=0, leader_epoch=leader_epoch)
        reply = self._take(self.shard.handle_read(KEY, asked, 0))
        assert reply.error_code == 0
        batches = [
            StoredBatch(
                each.first_offset, each.last_offset, each.delivery_state, each.delivery_count
            )
            for each in reply.state_batches
        ]
        start = max(reply.start_offset, log_start)
        return start, reply.state_epoch, [each for each in batches if each.last >= start]


class Sharing:
    """One share partition, its members, its store and its leaders."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = 1000
        self.log: list[LogBatch] = []
        self.log_start = self.log_end = 0
        self.store = Store()
        self.done: set[int] = set()
        self.counts: dict[int, int] = {}
        self.starts_seen = 0
        self.held: dict[int, str] = {}
        self.writes: list[StateWrite] = []
        self.answered: dict[int, list[int]] = {}
        self.config = ShareSettings(LIMIT, LOCK_MS, 40)
        self.leader_epoch = 0
        self.late: list[tuple[StateWrite, int, int]] = []
        """Writes of earlier leaders that have not arrived yet."""
        self.partition = SharePartition(self.config, 0, (), self.store.state_epoch)

    def append(self) -> None:
        """A producer appends; some offsets do not exist."""
        base = self.log_end + self.rng.choice((0, 0, 0, 3))
        self.log.append(LogBatch(base, base + self.rng.randrange(9)))
        self.log_end = self.log[-1].last + 1

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
            ok = self.store.take(write, self.leader_epoch, self.partition.state_epoch) and ok
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
        self.log_start = min(self.log_start + self.rng.randrange(1, 7), self.log_end)
        self.log = [each for each in self.log if each.last >= self.log_start]
        self.partition.log_starts_at(self.log_start)
        self._hold_what_is_held()

    def fail_over(self) -> None:
        """Another leader loads what was stored; writes under way come late, or never."""
        epochs = self.leader_epoch, self.partition.state_epoch
        self.late += [(write, *epochs) for write in self.writes if self.rng.random() < 0.7]
        self.writes.clear()
        self.answered.clear()
        self.held.clear()
        self.counts = {}
        self.leader_epoch += 1
        start, state_epoch, batches = self.store.read(self.leader_epoch, self.log_start)
        self.partition = SharePartition(self.config, start, batches, state_epoch)
        self.starts_seen = self.partition.start_offset

    def late_write(self) -> None:
        """A write of an earlier leader, or of before a reset, arrives: it changes nothing."""
        if self.late:
            assert not self.store.take(*self.late.pop(self.rng.randrange(len(self.late))))

    def reset(self) -> None:
        """An administrator sets the empty group back, or forward."""
        self.store.begin(self.rng.randrange(self.log_start, self.log_end + 1))
        self.done.clear()
        self.fail_over()

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
    *(Sharing.fail_over, Sharing.late_write) * 2,
    Sharing.reset,
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
