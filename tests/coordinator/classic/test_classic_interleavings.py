"""Thousands of random lives of a classic group: joins, crashes, timeouts, commits, restarts.

Checked, beside what groups_invariants has after every step:
1. In each generation a partition is given to one member: the assignment of each member is what one
   leader decided.
2. An offset whose commit was acknowledged is the one that is fetched, also after restarts; one of
   an ended transaction counts exactly if it was committed.
3. Every parked request is answered once (groups_world refuses a second answer), and when members
   fall silent none stays parked.
4. A coordinator that lost the unacknowledged end of its log continues from what is left.
5. All of this while the wall clock is set back and forward.
"""

from dataclasses import dataclass, field
from random import Random

import pytest

from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.shard import Deferred
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

from ..groups_clients import ClassicClient, commit_in_transaction, fetch
from ..groups_invariants import check, check_log
from ..groups_world import World

PARTITIONS = 4
RUNS = 250
STEPS = 60


@dataclass
class Life:
    """A group, its members, and what they were promised."""

    random: Random
    world: World = field(
        default_factory=lambda: World(GroupConfig(group_initial_rebalance_delay_ms=1_000))
    )
    members: list[ClassicClient] = field(default_factory=list)
    joining: dict[int, ClassicClient] = field(default_factory=dict)
    syncing: dict[int, tuple[ClassicClient, int]] = field(default_factory=dict)
    divided: dict[str, list[str]] = field(default_factory=dict)
    """The members that each leader got."""
    owners: dict[tuple[int, int], str] = field(default_factory=dict)
    """Who was given a partition in a generation."""
    committed: dict[int, tuple[int, int]] = field(default_factory=dict)
    """When and what was last committed for each partition."""
    pending: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)
    """The same of open transactions, by producer."""
    commits: int = 0
    generation: int = 0
    latest: int = 0

    def __post_init__(self) -> None:
        for number in range(self.random.randint(2, 5)):
            static = self.random.random() < 0.4
            self.members.append(
                ClassicClient(
                    self.world,
                    instance_id=f"i{number}" if static else None,
                    session_timeout_ms=self.random.choice([6_000, 20_000]),
                    rebalance_timeout_ms=self.random.choice([8_000, 20_000]),
                    version=self.random.choice([3, 5, 9]),
                )
            )

    def step(self) -> None:
        """One thing happens to someone."""
        member = self.random.choice(self.members)
        happening = self.random.choices(
            [
                self.join, self.sync, self.heartbeat, self.wait, self.leave, self.crash,
                self.commit, self.commit_in_transaction, self.end_transaction, self.restart,
                self.lose, self.set_clock,
            ],
            [12, 12, 6, 8, 1, 1, 5, 3, 3, 1, 1, 2],
        )[0]  # fmt: skip
        happening(member)
        self.hear()

    def set_clock(self, _: ClassicClient) -> None:
        self.world.set_clock(self.random.choice([-3_600_000, -30_000, -1, 30_000, 3_600_000]))

    def join(self, member: ClassicClient) -> None:
        reply = member.ask_to_join()
        if isinstance(reply, Deferred):
            self.joining[reply.token] = member
        else:
            self.told_of_join(member, reply)

    def told_of_join(self, member: ClassicClient, reply: JoinGroupResponse) -> None:
        if reply.error_code == ErrorCode.NONE:
            member.note(reply)
            assert reply.generation_id >= self.generation
            self.generation = reply.generation_id
            self.latest = max(self.latest, reply.generation_id)
            if reply.leader == reply.member_id:
                self.divided[reply.member_id] = [part.member_id for part in reply.members]
        elif reply.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.forget(member)

    def sync(self, member: ClassicClient) -> None:
        plan = {}
        if member.leader == member.member_id:
            others = self.divided.get(member.member_id, [])
            shares: dict[str, list[int]] = {other: [] for other in others}
            for partition in range(PARTITIONS if others else 0):
                shares[self.random.choice(others)].append(partition)
            plan = {other: bytes(numbers) for other, numbers in shares.items()}
        reply = member.ask_to_sync(plan)
        if isinstance(reply, Deferred):
            self.syncing[reply.token] = member, member.generation
        else:
            self.told_of_sync(member, member.generation, reply)

    def told_of_sync(
        self, member: ClassicClient, generation: int, reply: SyncGroupResponse
    ) -> None:
        if reply.error_code == ErrorCode.NONE:
            # A static member keeps what it has under a new id.
            name = member.instance_id or member.member_id
            for partition in reply.assignment:
                assert self.owners.setdefault((generation, partition), name) == name
        elif reply.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.forget(member)

    def hear(self) -> None:
        """Members get the answers that have come."""
        for token in [token for token in self.joining if token in self.world.answers]:
            member = self.joining.pop(token)
            reply = self.world.answers[token]
            assert isinstance(reply, JoinGroupResponse)
            self.told_of_join(member, reply)
        for token in [token for token in self.syncing if token in self.world.answers]:
            member, generation = self.syncing.pop(token)
            synced = self.world.answers[token]
            assert isinstance(synced, SyncGroupResponse)
            self.told_of_sync(member, generation, synced)

    def heartbeat(self, member: ClassicClient) -> None:
        if member.heartbeat() in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.forget(member)

    def wait(self, _: ClassicClient) -> None:
        self.world.advance(self.random.choice([10, 500, 2_000, 5_000, 9_000]))

    def leave(self, member: ClassicClient) -> None:
        member.leave()
        self.forget(member)

    def crash(self, member: ClassicClient) -> None:
        """The process is gone; its requests stay with the coordinator. It starts again."""
        self.joining = {t: other for t, other in self.joining.items() if other is not member}
        self.syncing = {t: (o, g) for t, (o, g) in self.syncing.items() if o is not member}
        self.forget(member)

    def forget(self, member: ClassicClient) -> None:
        member.member_id, member.generation, member.leader = "", -1, "-"

    def commit(self, member: ClassicClient) -> None:
        partition, offset = self.random.randrange(PARTITIONS), self.random.randrange(10_000)
        if member.commit(offset, partition) == ErrorCode.NONE:
            self.commits += 1
            self.committed[partition] = self.commits, offset

    def commit_in_transaction(self, _: ClassicClient) -> None:
        partition, offset = self.random.randrange(PARTITIONS), self.random.randrange(10_000)
        producer_id = self.random.randrange(3)
        error = commit_in_transaction(self.world, offset, partition, producer_id=producer_id)
        if error == ErrorCode.UNKNOWN_SERVER_ERROR:
            assert self.world.was_limited
            return
        assert error == ErrorCode.NONE
        self.commits += 1
        self.pending.setdefault(producer_id, {})[partition] = self.commits, offset

    def end_transaction(self, _: ClassicClient) -> None:
        producer_id, commits = self.random.randrange(3), self.random.random() < 0.6
        self.world.end_transaction(producer_id, commit=commits)
        for partition, written in self.pending.pop(producer_id, {}).items():
            if commits:
                self.committed[partition] = max(written, self.committed.get(partition, (0, 0)))

    def check_offsets(self) -> None:
        for partition in range(PARTITIONS):
            _, offset = self.committed.get(partition, (0, -1))
            assert fetch(self.world, partition) == offset
            unstable = any(partition in offsets for offsets in self.pending.values())
            expected = ErrorCode.UNSTABLE_OFFSET_COMMIT if unstable else offset
            assert fetch(self.world, partition, require_stable=True) == expected

    def restart(self, _: ClassicClient) -> None:
        """The coordinator moves; clients ask again."""
        self.load_again(len(self.world.log))

    def lose(self, member: ClassicClient) -> None:
        """The coordinator dies with what one request wrote, before any reply was sent."""
        length = len(self.world.log)
        before = member.member_id, member.generation, member.leader
        request = self.random.choice(["join", "sync", "leave"])
        if request == "join":
            member.ask_to_join()
        elif request == "sync":
            member.ask_to_sync()
        else:
            member.leave()
        member.member_id, member.generation, member.leader = before
        self.load_again(length)

    def load_again(self, length: int) -> None:
        self.world.restart(length)
        self.joining.clear()
        self.syncing.clear()
        # A generation that no leader had divided is forgotten, and its number used again.
        group = self.world.shard._state.groups.get("g")
        self.generation = group.generation if isinstance(group, ClassicGroup) else 0


@pytest.mark.parametrize("block", range(4))
def test_no_interleaving_breaks_a_classic_group(block: int) -> None:
    generations = 0
    for seed in range(block * RUNS, (block + 1) * RUNS):
        life = Life(Random(seed))
        for step in range(STEPS):
            life.step()
            check(life.world)
            if step % 20 == 0:
                life.check_offsets()
        check_log(life.world)
        life.check_offsets()
        life.world.advance(10 * 60_000)
        check(life.world)
        assert not life.world.parked
        generations += life.latest
    assert generations > RUNS, "hardly any group came to work"
