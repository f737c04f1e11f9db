"""The share coordinator's shard: fencing, snapshots and updates, and replay of its bytes."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ottla.coordinator.shard import CoordinatorRecord, Result, SetTimer
from ottla.coordinator.share_state.records import SharePartitionKey
from ottla.coordinator.share_state.shard import (
    COLD_SNAPSHOTS,
    PRUNE,
    PruneLog,
    ShareStateConfig,
    ShareStateShard,
)
from ottla.coordinator.share_state.state import ShareState
from ottla.wire.errors import ErrorCode
from ottla.wire.message import NO_UUID
from ottla.wire.messages import initialize_share_group_state as initializing
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import write_share_group_state as writing

from ..groups_world import Topics

START = 1_000_000


class World:
    """A shard, its log and its clock."""

    def __init__(self, **config: int) -> None:
        self.topics = Topics(a=4, b=1)
        self.config = ShareStateConfig(**config)
        self.log: list[CoordinatorRecord] = []
        self.now = START
        self.shard = ShareStateShard(self.config, self.topics)
        self.take(self.shard.loaded(self.now))

    def take(self, result: Result[Any]) -> Any:
        for record in result.records:
            self.shard.replay(record, len(self.log))
            self.log.append(record)
        self.now += 1
        return result.reply

    def key(self, partition: int = 0, topic: str = "a") -> SharePartitionKey:
        return SharePartitionKey("g", self.topics.id_of(topic), partition)

    def initialize(self, epoch: int = 1, start: int = -1, partition: int = 0) -> Any:
        asked = initializing.PartitionData(
            partition=partition, state_epoch=epoch, start_offset=start
        )
        return self.take(self.shard.handle_initialize(self.key(partition), asked, self.now))

    def read(self, leader_epoch: int = 0, partition: int = 0) -> Any:
        asked = reading.PartitionData(partition=partition, leader_epoch=leader_epoch)
        return self.take(self.shard.handle_read(self.key(partition), asked, self.now))

    def write(
        self,
        *batches: tuple[int, int, int, int],
        state_epoch: int = 1,
        leader_epoch: int = 0,
        start: int = -1,
        complete: int = 0,
        partition: int = 0,
    ) -> Any:
        asked = writing.PartitionData(
            partition=partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=complete,
            state_batches=[
                writing.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in batches
            ],
        )
        return self.take(self.shard.handle_write(self.key(partition), asked, self.now))

    def replayed(self, begin: int = 0) -> dict[SharePartitionKey, ShareState]:
        """What another coordinator knows after it has read the log's bytes from an offset."""
        other = ShareStateShard(self.config, self.topics)
        for offset, record in enumerate(self.log[begin:], begin):
            other.replay(CoordinatorRecord(record.key, record.value), offset)
        return other.states


def test_what_is_written_is_read_back() -> None:
    world = World()
    assert world.initialize(start=10).error_code == 0
    assert world.write((10, 19, 2, 1), (15, 24, 0, 2), start=10).error_code == 0
    found = world.read()
    assert (found.state_epoch, found.start_offset) == (1, 10)
    assert [(each.first_offset, each.last_offset) for each in found.state_batches] == [
        (10, 14),
        (15, 24),
    ]


@pytest.mark.parametrize("what", ["read", "write"])
def test_what_is_not_initialized_cannot_be_read_or_written(what: str) -> None:
    world = World()
    assert getattr(world, what)().error_code == ErrorCode.INVALID_REQUEST
    assert not world.log
    summary = world.take(world.shard.handle_summary(world.key(), world.now))
    assert (summary.start_offset, summary.delivery_complete_count) == (-1, -1)


def test_a_write_that_was_overtaken_moves_nothing_back() -> None:
    world = World()
    world.initialize(start=0)
    world.write((0, 9, 2, 1), (10, 14, 2, 1), start=10, complete=5)
    late = world.write((0, 4, 0, 1), (10, 14, 0, 1), start=0, complete=0)
    assert late.error_code == 0
    found = world.read()
    assert found.start_offset == 10
    assert [(each.first_offset, each.delivery_state) for each in found.state_batches] == [(10, 2)]
    (state,) = world.replayed().values()
    assert (state.start_offset, state.delivery_complete_count) == (10, 5)


def test_a_leader_of_a_group_that_was_created_again_is_fenced() -> None:
    world = World()
    world.initialize(epoch=5, start=20)
    world.take(world.shard.handle_delete(world.key(), world.now))
    gone = world.write((20, 24, 2, 1), state_epoch=5, start=25)
    assert gone.error_code == ErrorCode.INVALID_REQUEST
    world.initialize(epoch=1, start=0)
    late = world.write((20, 24, 2, 1), state_epoch=5, start=25)
    assert late.error_code == ErrorCode.FENCED_STATE_EPOCH
    assert world.read().start_offset == 0


def test_a_newer_leader_that_reads_fences_the_older() -> None:
    world = World()
    world.initialize(start=0)
    assert world.read(leader_epoch=5).error_code == 0
    before = world.replayed()
    written = len(world.log)
    assert world.write((0, 1, 2, 1), leader_epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert world.read(leader_epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert world.read(leader_epoch=5).error_code == 0
    assert len(world.log) == written
    assert world.shard.states == before


def test_an_older_state_epoch_changes_nothing() -> None:
    world = World()
    world.initialize(epoch=3, start=7)
    before = dict(world.shard.states)
    assert world.write((7, 8, 2, 1), state_epoch=2).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert world.initialize(epoch=2).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert world.shard.states == before


def test_a_new_initialization_begins_again_and_keeps_older_leaders_out() -> None:
    world = World()
    world.initialize(start=0)
    world.read(leader_epoch=5)
    world.write((0, 9, 2, 1), leader_epoch=5)
    world.initialize(epoch=2, start=3)
    found = world.read(leader_epoch=5)
    assert (found.start_offset, found.state_batches) == (3, [])
    assert world.read(leader_epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (SharePartitionKey("g", NO_UUID, 0), ErrorCode.INVALID_REQUEST),
        (SharePartitionKey("g", UUID(int=9), -1), ErrorCode.INVALID_REQUEST),
        (SharePartitionKey("g", UUID(int=9), 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_partitions_that_cannot_be_are_refused(key: SharePartitionKey, error: ErrorCode) -> None:
    world = World()
    asked = initializing.PartitionData(partition=key.partition)
    assert world.take(world.shard.handle_initialize(key, asked, 0)).error_code == error
    assert world.take(world.shard.handle_delete(key, 0)).error_code == error
    assert world.take(world.shard.handle_summary(key, 0)).error_code == error


def test_deletion_and_deleted_topics() -> None:
    world = World()
    world.initialize()
    world.initialize(partition=1)
    assert world.take(world.shard.handle_delete(world.key(), world.now)).error_code == 0
    assert world.take(world.shard.handle_delete(world.key(2), world.now)).error_code == 0
    assert list(world.shard.states) == [world.key(1)]
    topic = world.topics.delete("a")
    world.take(world.shard.topics_deleted([topic.topic_id], world.now))
    assert world.shard.states == world.replayed() == {}
    assert world.shard.redundant_below == len(world.log)


def test_cold_partitions_get_a_snapshot_so_that_the_log_can_be_pruned() -> None:
    world = World()
    world.initialize()
    world.initialize(partition=1)
    world.write((0, 1, 2, 1), partition=1)
    assert world.shard.redundant_below == 0
    world.now += 300_000
    result = world.shard.expire(COLD_SNAPSHOTS, world.now)
    assert SetTimer(COLD_SNAPSHOTS, 300_000) in result.timers
    world.take(result)
    assert world.shard.redundant_below == 3
    assert world.replayed(3) == world.shard.states
    assert world.shard.expire(PRUNE, world.now).effects == [PruneLog()]


OPERATIONS = st.one_of(
    st.tuples(
        st.just("write"),
        st.integers(0, 40),
        st.integers(0, 9),
        st.sampled_from((0, 2, 4)),
        st.integers(0, 2),
        st.integers(0, 2),
        st.integers(-1, 30),
    ),
    st.tuples(st.just("read"), st.integers(0, 2)),
    st.tuples(st.just("initialize"), st.integers(0, 3), st.integers(-1, 20)),
    st.tuples(st.just("delete")),
    st.tuples(st.just("cold")),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(OPERATIONS, max_size=40))
def test_a_replay_gives_the_live_state(operations: list[Any]) -> None:
    world = World(updates_per_snapshot=3, cold_snapshot_interval_ms=10)
    epochs = (-1, -1)
    for name, *args in operations:
        before = dict(world.shard.states)
        if name == "write":
            first, length, state, leader, epoch, start = args
            reply = world.write(
                (first, first + length, state, 1),
                leader_epoch=leader,
                state_epoch=epoch,
                start=start,
            )
            if reply.error_code:
                assert world.shard.states == before
        elif name == "read":
            world.read(leader_epoch=args[0])
        elif name == "initialize":
            world.initialize(epoch=args[0], start=args[1])
        elif name == "delete":
            world.take(world.shard.handle_delete(world.key(), world.now))
        else:
            world.now += 20
            world.take(world.shard.expire(COLD_SNAPSHOTS, world.now))
        state = world.shard.states.get(world.key())
        now = (-1, -1) if state is None else (state.leader_epoch, state.state_epoch)
        if name != "delete":
            assert all(after >= earlier for after, earlier in zip(now, epochs, strict=True))
        epochs = now
        assert world.replayed() == world.shard.states
        begin = world.shard.redundant_below
        if begin is not None:
            pruned = world.replayed(begin)
            assert {key: replace(each, updates=0) for key, each in pruned.items()} == {
                key: replace(each, updates=0) for key, each in world.shard.states.items()
            }
