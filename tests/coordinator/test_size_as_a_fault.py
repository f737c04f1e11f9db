"""A log that takes only small batches: random lives of groups and transactions beside bystanders.

Checked, beside what the lives themselves check after every step:
1. What a shard wants to write fits, or it says so (the worlds refuse the rest).
2. Whatever cannot be written for others, a bystander stays a member of its generation or epoch, and
   keeps its offsets.
3. What was acknowledged is there, also after restarts: what the log holds is the shard's state.
4. Once there is room, groups come to rest and transactions to their end.
"""

from random import Random

import pytest

from ottla.coordinator.batch_sizes import UNLIMITED
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.transactions.state import AT_REST, LAST_CLIENT_EPOCH
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse

from .classic import test_classic_interleavings as classic
from .consumer import test_consumer_interleavings as consumer
from .groups_clients import (
    ClassicClient,
    Consumer,
    commit,
    fetch,
    settle,
    stable_group,
)
from .groups_invariants import check, check_log
from .groups_world import World
from .transactions.driver import Driver, Producer, state_of
from .transactions.test_transactions import with_epoch
from .transactions.world import World as Transactions

LIMITS = [100, 150, 200, 300, 400, 600, UNLIMITED]
RUNS = 60
BLOCKS = 3


class Bystanders:
    """A classic group and a consumer group that ask for nothing that would have to be written."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.classic: list[ClassicClient] = stable_group(
            world, 2, group_id="bystander", session_timeout_ms=1_800_000
        )
        world.own_configs["bystanders"] = GroupConfig(group_consumer_session_timeout_ms=1_800_000)
        self.consumer = Consumer(world, "bystander", group_id="bystanders")
        self.consumer.join()
        for offset, group_id in enumerate(("bystander", "bystanders", "nobody")):
            member = self.classic[0] if group_id == "bystander" else None
            epoch = {"bystander": self.classic[0].generation, "nobody": -1}
            assert (
                commit(
                    world,
                    offset,
                    group_id=group_id,
                    member_id=member.member_id if member else self._consumer_id(group_id),
                    epoch=epoch.get(group_id, self.consumer.epoch),
                )
                is ErrorCode.NONE
            )

    def _consumer_id(self, group_id: str) -> str:
        return self.consumer.member_id if group_id == "bystanders" else ""

    def check(self) -> None:
        for member in self.classic:
            assert member.heartbeat() is ErrorCode.NONE
        # A heartbeat that would have to write something may be refused; nobody is expelled by that.
        assert self.consumer.send().error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)
        for offset, group_id in enumerate(("bystander", "bystanders", "nobody")):
            assert fetch(self.world, group_id=group_id) == offset


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_classic_group_that_cannot_be_written_harms_nobody_else(block: int) -> None:
    for seed in range(block * RUNS, (block + 1) * RUNS):
        random = Random(seed)
        life = classic.Life(random)
        bystanders = Bystanders(life.world)
        life.world.take_batches_of(random.choice(LIMITS))
        for step in range(classic.STEPS):
            life.step()
            check(life.world)
            if step % 10 == 0:
                bystanders.check()
                life.check_offsets()
                life.world.take_batches_of(random.choice(LIMITS))
        check_log(life.world)
        bystanders.check()
        life.check_offsets()
        life.world.advance(10 * 60_000)
        check(life.world)
        assert not life.world.parked


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_consumer_group_that_cannot_be_written_harms_nobody_else(block: int) -> None:
    for seed in range(block * RUNS, (block + 1) * RUNS):
        random = Random(seed)
        life = consumer.Life(random)
        bystanders = Bystanders(life.world)
        life.world.take_batches_of(random.choice(LIMITS))
        for step in range(consumer.STEPS):
            life.step()
            life.check()
            if step % 10 == 0:
                bystanders.check()
                life.check_offsets()
                life.world.take_batches_of(random.choice(LIMITS))
        check_log(life.world)
        bystanders.check()
        life.check_offsets()
        life.world.take_batches_of(UNLIMITED)
        life.come_to_rest()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_transactions_that_cannot_be_written_come_to_their_end(block: int) -> None:
    limits = [110, 130, 150, 170, 190, 220, UNLIMITED]
    refused = 0
    for seed in range(block * RUNS, (block + 1) * RUNS):
        world = Transactions(seed)
        for step in range(150):
            if step % 30 == 0:
                world.take_batches_of(world.chance.choice(limits))
            world.step()
        refused += world.limit != UNLIMITED
        world.take_batches_of(UNLIMITED)
        world.settle()
        assert not world.markers
        for records in world.history().values():
            assert records[-1][1].state in AT_REST
    assert refused


def test_an_open_transaction_that_fits_can_be_ended() -> None:
    """Whatever the limit is: partitions are taken only as long as the end can be written too."""
    ended = 0
    for limit in range(100, 700):
        driver = Driver(limit=limit)
        producer = Producer(driver)
        if producer.init(timeout_ms=1000) is not ErrorCode.NONE:
            continue
        if limit % 3 == 0:  # its end is the longest: it names the producer id that takes over
            with_epoch(driver, producer, LAST_CLIENT_EPOCH)
        taken = 0
        while (code := producer.add(taken)) is ErrorCode.NONE:
            taken += 1
        assert code is ErrorCode.UNKNOWN_SERVER_ERROR
        if taken:
            ended += 1
            assert producer.end(commit=limit % 2 == 0) is ErrorCode.NONE
            driver.write_markers()
            assert state_of(driver).startswith("Complete")
    assert ended > 400


def test_a_static_member_that_cannot_come_back_leaves_its_place_as_it_was() -> None:
    world = World()
    member = stable_group(world, 1, instance_id="i")[0]
    before = member.member_id
    world.take_batches_of(500)
    again = ClassicClient(world, instance_id="i", protocols=[("range", b"x" * 500)])
    refused = again.ask_to_join()
    assert isinstance(refused, JoinGroupResponse)
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert member.heartbeat() is ErrorCode.NONE
    assert member.member_id == before
    check(world)
    world.take_batches_of(UNLIMITED)
    reply = again.ask_to_join()
    assert isinstance(reply, JoinGroupResponse)
    assert reply.error_code == ErrorCode.NONE
    assert member.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


def test_an_assignment_that_is_refused_is_refused_to_all_of_its_group() -> None:
    world = World()
    members = [ClassicClient(world) for _ in range(2)]
    tokens = [member.join() for member in members]
    world.advance(10_000)
    for member, token in zip(members, tokens, strict=True):
        assert member.joined(token).error_code == ErrorCode.NONE
    leader = next(member for member in members if member.member_id == member.leader)
    (other,) = [member for member in members if member is not leader]
    waiting = other.sync()
    world.take_batches_of(500)
    token = leader.sync({other.member_id: b"x" * 500})
    for each, syncing in ((leader, token), (other, waiting)):
        assert each.synced(syncing).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert each.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    check(world)
    check_log(world)


def test_a_topic_that_grew_while_nothing_could_be_written_is_seen_later() -> None:
    world = World()
    member = Consumer(world, "member")
    member.join()
    settle(member)
    world.take_batches_of(80)
    world.topics.grow("a", 5)
    assert member.send().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    world.take_batches_of(UNLIMITED)
    settle(member)
    assert sorted(member.owned["a"]) == [0, 1, 2, 3, 4]


def test_a_silent_member_whose_end_cannot_be_written_goes_once_there_is_room() -> None:
    world = World()
    dead = Consumer(world, "dead")
    dead.join()
    settle(dead)
    world.take_batches_of(80)
    world.advance(60_000)
    assert dead.send().error_code == ErrorCode.NONE, "the end of its session was not written"
    world.advance(60_000)
    world.take_batches_of(UNLIMITED)
    world.advance(1_000)
    assert dead.send().error_code == ErrorCode.UNKNOWN_MEMBER_ID
