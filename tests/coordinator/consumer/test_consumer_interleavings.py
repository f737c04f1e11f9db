"""Thousands of random lives of a consumer group, with members of both protocols.

Checked, beside what groups_invariants has after every step:
1. A member that the group knows owns nothing that the group has not given it: so, since each
   partition has one owner there, no two live members read the same partition.
2. The group's epoch never goes back, nor a member's while it stays a member.
3. When members are left alone, all come to rest: each partition of each topic that is subscribed
   to has an owner, the members have their targets, and no request stays parked.
4. An offset whose commit was acknowledged is the one that is fetched, also after restarts.
5. A coordinator that lost the unacknowledged end of its log continues from what is left.
6. All of this while the wall clock is set back and forward.
"""

from dataclasses import dataclass, field
from random import Random

import pytest

from ottla.coordinator.consumer.group import ConsumerGroup, ConsumerState
from ottla.coordinator.consumer.protocol import read_assignment
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

from ..groups_clients import ClassicClient, Consumer, commit, fetch, subscription
from ..groups_invariants import check, check_log
from ..groups_world import Topics, World

RUNS = 100
STEPS = 50
GONE = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


@dataclass
class ClassicReader:
    """A classic member with cooperative rebalancing: it keeps what it has while it joins."""

    client: ClassicClient
    owned: dict[str, list[int]] = field(default_factory=dict)

    def beat(self) -> None:
        """One turn of its loop: a heartbeat, and a rejoin where it is asked for."""
        client = self.client
        error = client.heartbeat() if client.generation >= 0 else ErrorCode.REBALANCE_IN_PROGRESS
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin()
        elif error != ErrorCode.NONE:
            self.start_again()

    def start_again(self) -> None:
        self.client.member_id, self.client.generation, self.owned = "", -1, {}

    def rejoin(self) -> None:
        client = self.client
        client.protocols = [("cooperative", subscription("a", "b", owned=self.owned))]
        reply = client.ask_to_join()
        if not isinstance(reply, JoinGroupResponse):
            return
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.generation = -1
            return
        if reply.error_code != ErrorCode.NONE:
            self.start_again()
            return
        synced = client.ask_to_sync()
        if isinstance(synced, SyncGroupResponse) and synced.error_code == ErrorCode.NONE:
            self.owned = {
                part.topic: part.partitions
                for part in read_assignment(synced.assignment).assigned_partitions
            }


@dataclass
class Life:
    """A group, its members, and what they were promised."""

    random: Random
    world: World = field(default_factory=lambda: World(topics=Topics(a=4, b=3, log_x=2)))
    consumers: list[Consumer] = field(default_factory=list)
    readers: list[ClassicReader] = field(default_factory=list)
    committed: dict[int, int] = field(default_factory=dict)
    epoch: int = 0
    ids: int = 0
    made: int = 0

    def __post_init__(self) -> None:
        for number in range(self.random.randint(1, 4)):
            member = Consumer(
                self.world,
                self.new_id(),
                instance_id=f"i{number}" if self.random.random() < 0.4 else None,
                assignor=self.random.choice([None, "range", "uniform"]),
                rebalance_timeout_ms=8_000,
            )
            self.subscribe(member)
            self.consumers.append(member)
        self.readers = [
            ClassicReader(ClassicClient(self.world, version=self.random.choice([3, 9])))
            for _ in range(self.random.randint(0, 2))
        ]

    def new_id(self) -> str:
        self.ids += 1
        return f"c{self.ids}"

    def subscribe(self, member: Consumer) -> None:
        member.topics = self.random.choice([["a"], ["a", "b"], ["b"], []])
        member.regex = self.random.choice(["", "", "log_*"])

    def step(self) -> None:
        """One thing happens to someone."""
        happening = self.random.choices(
            [
                self.heartbeat, self.lost_answer, self.classic, self.wait, self.change, self.leave,
                self.leave_for_now, self.crash, self.commit, self.topics, self.restart, self.lose,
                self.set_clock,
            ],
            [20, 4, 10, 8, 2, 1, 1, 1, 4, 1, 1, 1, 2],
        )[0]  # fmt: skip
        happening(self.random.choice(self.consumers))

    def set_clock(self, _: Consumer) -> None:
        self.world.set_clock(self.random.choice([-3_600_000, -30_000, -1, 30_000, 3_600_000]))

    def told(self, member: Consumer, reply: ConsumerGroupHeartbeatResponse) -> None:
        if reply.error_code == ErrorCode.NONE:
            assert member.epoch <= reply.member_epoch
            member.follow(reply)
        elif reply.error_code in GONE:
            member.epoch, member.owned = 0, {}
            if reply.error_code == ErrorCode.FENCED_INSTANCE_ID:
                member.member_id = self.new_id()
        else:
            # The instance's old member id has not left yet, or a classic group is not ready.
            expected = [ErrorCode.UNRELEASED_INSTANCE_ID]
            if self.world.was_limited:
                expected.append(ErrorCode.UNKNOWN_SERVER_ERROR)
            assert reply.error_code in expected, reply

    def heartbeat(self, member: Consumer) -> None:
        self.told(member, member.send(full=self.random.random() < 0.2))

    def lost_answer(self, member: Consumer) -> None:
        member.send()

    def classic(self, _: Consumer) -> None:
        if self.readers:
            self.random.choice(self.readers).beat()

    def wait(self, _: Consumer) -> None:
        self.world.advance(self.random.choice([10, 500, 1_000, 4_000, 9_000, 30_000]))

    def change(self, member: Consumer) -> None:
        self.subscribe(member)
        self.told(member, member.send(full=True))

    def leave(self, member: Consumer) -> None:
        member.leave()
        self.start_again(member)

    def leave_for_now(self, member: Consumer) -> None:
        if member.instance_id is not None:
            member.leave(epoch=-2)
            self.start_again(member)

    def crash(self, member: Consumer) -> None:
        self.start_again(member)

    def start_again(self, member: Consumer) -> None:
        member.member_id, member.epoch, member.owned = self.new_id(), 0, {}

    def commit(self, member: Consumer) -> None:
        partition, offset = self.random.randrange(4), self.random.randrange(10_000)
        error = commit(
            self.world, offset, partition, member_id=member.member_id, epoch=member.epoch
        )
        if error == ErrorCode.NONE:
            self.committed[partition] = offset

    def topics(self, _: Consumer) -> None:
        if self.random.random() < 0.5:
            self.world.topics.grow("b", self.random.randint(3, 6))
        else:
            self.made += 1
            self.world.topics.create(f"log_{self.made}", 1)

    def restart(self, _: Consumer) -> None:
        self.load_again(len(self.world.log))

    def lose(self, member: Consumer) -> None:
        """The coordinator dies with what one request wrote, before any reply was sent."""
        length = len(self.world.log)
        member.send(full=True)
        self.load_again(length)

    def load_again(self, length: int) -> None:
        self.world.restart(length)
        group = self.group()
        self.epoch = group.epoch if group is not None else 0

    def group(self) -> ConsumerGroup | None:
        group = self.world.shard._state.groups.get("g")
        return group if isinstance(group, ConsumerGroup) else None

    def check(self) -> None:
        check(self.world)
        group = self.group()
        if group is None:
            # Empty, it may be taken over by classic members, who start it again.
            self.epoch = 0
            return
        assert group.epoch >= self.epoch
        self.epoch = group.epoch
        for member in self.consumers:
            known = group.members.get(member.member_id)
            if known is None or member.epoch not in (
                known.member_epoch,
                known.previous_member_epoch,
            ):
                continue
            for name, numbers in member.owned.items():
                topic = self.world.topics.by_name(name)
                assert topic is not None
                for number in numbers:
                    assert group.owner_of(topic.topic_id, number) == member.member_id

    def check_offsets(self) -> None:
        for partition in range(4):
            assert fetch(self.world, partition) == self.committed.get(partition, -1)

    def come_to_rest(self) -> None:
        """Stop disturbing the members."""
        for _ in range(24):
            self.world.advance(4_000)
            for reader in self.readers:
                reader.beat()
            for member in self.consumers:
                self.told(member, member.send(full=True))
        group = self.group()
        assert group is not None
        assert group.state is ConsumerState.STABLE
        live = {member.member_id: member for member in self.consumers}
        live_readers = {reader.client.member_id: reader for reader in self.readers}
        assert group.members.keys() == live.keys() | live_readers.keys()
        owned: dict[tuple[str, int], str] = {}
        wanted = set()
        for name, client in (live | live_readers).items():
            for topic, numbers in client.owned.items():
                for number in numbers:
                    assert (topic, number) not in owned, "two members read it"
                    owned[topic, number] = name
            names = ["a", "b"]
            if isinstance(client, Consumer):
                matched = self.world.topics.matching(client.regex) if client.regex else set()
                names = [*client.topics, *matched]
            for topic in names:
                info = self.world.topics.by_name(topic)
                assert info is not None
                wanted |= {(topic, number) for number in range(info.partitions)}
        assert owned.keys() == wanted
        assert not self.world.parked


@pytest.mark.parametrize("block", range(4))
def test_no_interleaving_breaks_a_consumer_group(block: int) -> None:
    for seed in range(block * RUNS, (block + 1) * RUNS):
        life = Life(Random(seed))
        for _ in range(STEPS):
            life.step()
            life.check()
        check_log(life.world)
        life.check_offsets()
        life.come_to_rest()
        check(life.world)
        check_log(life.world)
