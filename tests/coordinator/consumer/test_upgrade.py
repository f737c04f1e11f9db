"""A classic group moves to the consumer protocol while it works, and back."""

import pytest

from ottla.coordinator.consumer.protocol import read_assignment
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.shard import Deferred
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupResponse

from ..classic.test_classic_join import refused, state_of
from ..classic.test_classic_requests import sync_error
from ..groups_clients import (
    ClassicClient,
    Consumer,
    assignment,
    commit,
    stable_group,
    subscription,
    sync_all,
)
from ..groups_world import World, answer, context
from ..test_group_listing import described
from .test_consumer_heartbeat import describe


def classic_pair(world: World) -> list[ClassicClient]:
    """Two classic members with real assignments of topic a."""
    members = [ClassicClient(world), ClassicClient(world)]
    tokens = [member.join() for member in members]
    while world.parked:
        world.advance(500)
    for member, token in zip(members, tokens, strict=True):
        member.joined(token)
    leader, follower = members
    leader.sync(
        {
            leader.member_id: assignment(a=[0, 1]),
            follower.member_id: assignment(a=[2, 3]),
        }
    )
    follower.ask_to_sync()
    return members


def partitions(reply: SyncGroupResponse | Deferred) -> dict[str, list[int]]:
    assert isinstance(reply, SyncGroupResponse)
    assert reply.error_code == ErrorCode.NONE, reply
    return {
        part.topic: part.partitions
        for part in read_assignment(reply.assignment).assigned_partitions
    }


def rejoin(client: ClassicClient, **owned: list[int]) -> dict[str, list[int]]:
    """Join and sync again as a cooperative consumer does; return what it may own."""
    client.protocols = [("range", subscription("a", owned=owned))]
    reply = client.ask_to_join()
    assert isinstance(reply, JoinGroupResponse)
    assert reply.error_code == ErrorCode.NONE, reply
    return partitions(client.ask_to_sync(protocol_type="consumer", protocol_name="range"))


def test_the_first_member_of_the_new_protocol_turns_the_group() -> None:
    world = World()
    members = classic_pair(world)
    newcomer = Consumer(world, "n")
    newcomer.join()
    group = describe(world)
    assert sorted(member.member_type for member in group.members) == [0, 0, 1]
    assert (group.group_epoch, group.assignment_epoch) == (2, 2)
    assert state_of(world) == "Dead"
    assert newcomer.owned == {}
    assert [member.heartbeat() for member in members] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2


def test_partitions_move_from_classic_members_as_they_join_again() -> None:
    world = World()
    first, second = classic_pair(world)
    newcomer = Consumer(world, "n")
    newcomer.join()
    assert rejoin(second, a=[2, 3]) == {"a": [2]}
    assert (second.generation, second.leader) == (1, "")
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    newcomer.heartbeat()
    assert newcomer.owned == {}, "the second has not said yet that it gave it up"
    assert rejoin(second, a=[2]) == {"a": [2]}
    assert second.generation == 2
    assert rejoin(first, a=[0, 1]) == {"a": [0, 1]}
    newcomer.heartbeat()
    assert newcomer.owned == {"a": [3]}
    assert describe(world).group_state == "Stable"
    assert (first.heartbeat(), second.heartbeat()) == (ErrorCode.NONE, ErrorCode.NONE)


def test_the_group_stays_turned_over_a_restart() -> None:
    world = World()
    classic_pair(world)
    Consumer(world, "n").join()
    before = describe(world)
    world.restart()
    assert describe(world) == before


def test_requests_that_wait_in_the_classic_group_are_sent_away() -> None:
    world = World()
    members = [ClassicClient(world), ClassicClient(world)]
    tokens = [member.join() for member in members]
    Consumer(world, "n").join()
    for token in tokens:
        reply = world.answers[token]
        assert isinstance(reply, JoinGroupResponse)
        assert reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(members[0])["a"]
    assert not any(key for key in world.timers if "CLASSIC" in str(key))


def test_a_new_classic_member_joins_the_turned_group() -> None:
    world = World()
    classic_pair(world)
    Consumer(world, "n").join()
    newcomer = ClassicClient(world)
    assert refused(newcomer) == ErrorCode.MEMBER_ID_REQUIRED
    assert rejoin(newcomer) == {}
    assert len(describe(world).members) == 4


def test_a_classic_member_that_is_silent_goes_with_its_own_session_timeout() -> None:
    world = World()
    first, _ = classic_pair(world)
    newcomer = Consumer(world, "n")
    newcomer.join()
    world.advance(9_999)
    first.heartbeat()
    world.advance(1)
    assert {member.member_id for member in describe(world).members} == {"n", first.member_id}


def test_a_classic_member_that_does_not_join_again_in_time_goes() -> None:
    world = World()
    first, second = classic_pair(world)
    newcomer = Consumer(world, "n")
    newcomer.join()
    rejoin(second, a=[2, 3])
    for _ in range(6):
        assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        second.heartbeat()
        newcomer.heartbeat()
        world.advance(5_000)
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_joins_and_does_not_sync_goes() -> None:
    world = World()
    first, _ = classic_pair(world)
    Consumer(world, "n").join()
    first.ask_to_join()
    for _ in range(7):
        first.heartbeat()
        world.advance(5_000)
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_before_the_join_that_a_new_assignment_needs_is_refused() -> None:
    world = World()
    first, _ = classic_pair(world)
    Consumer(world, "n").join()
    assert sync_error(first) == ErrorCode.REBALANCE_IN_PROGRESS
    first.generation = 9
    assert sync_error(first) == ErrorCode.ILLEGAL_GENERATION
    assert first.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    first.generation = 1
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sync_error(first, protocol_name="other") == inconsistent
    assert sync_error(first, protocol_type="other") == inconsistent


def test_members_of_the_new_protocol_cannot_use_classic_requests() -> None:
    world = World()
    classic_pair(world)
    newcomer = Consumer(world, "n")
    newcomer.join()
    pretender = ClassicClient(world, member_id="n", generation=newcomer.epoch)
    assert pretender.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert sync_error(pretender) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_of_both_kinds_can_be_removed_by_the_classic_request() -> None:
    world = World(GroupConfig(group_consumer_downgrade=False))
    first, second = classic_pair(world)
    Consumer(world, "n", instance_id="i").join()
    request = LeaveGroupRequest(
        group_id="g",
        members=[
            MemberIdentity(member_id=first.member_id),
            MemberIdentity(member_id="", group_instance_id="i"),
            MemberIdentity(member_id="other", group_instance_id="i"),
            MemberIdentity(member_id="stranger"),
        ],
    )
    result = world.shard.handle_leave_group(request, context(5), world.now)
    world.take(result)
    assert [part.error_code for part in answer(result).members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert [member.member_id for member in describe(world).members] == [second.member_id]
    assert rejoin(second, a=[2, 3]) == {"a": [2]}
    world.advance(1_000)
    assert rejoin(second, a=[2]) == {"a": [0, 1, 2, 3]}


def test_a_static_classic_member_comes_back_with_the_new_protocol() -> None:
    world = World()
    old = ClassicClient(world, instance_id="i")
    token = old.join()
    world.advance(3_000)
    old.joined(token)
    old.sync({old.member_id: assignment(a=[0, 1, 2, 3])})
    new = Consumer(world, "n", instance_id="i")
    new.join()
    assert new.owned == {"a": [0, 1, 2, 3]}
    assert [member.member_id for member in describe(world).members] == ["n"]
    assert old.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    world.restart()
    assert new.heartbeat().assignment is None


def test_a_static_member_goes_back_to_the_classic_protocol() -> None:
    world = World()
    first = Consumer(world, "m", instance_id="i")
    first.join()
    Consumer(world, "n").join()
    back = ClassicClient(world, instance_id="i")
    assert rejoin(back)["a"]
    assert first.send().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert sorted(member.member_type for member in describe(world).members) == [0, 1]
    fenced = ClassicClient(world, instance_id="i", member_id="m")
    assert refused(fenced) == ErrorCode.FENCED_INSTANCE_ID
    assert refused(ClassicClient(world, instance_id="j", member_id="m")) == (
        ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_the_last_static_member_that_goes_back_to_the_classic_protocol_turns_the_group() -> None:
    world = World()
    first, second = classic_pair(world)
    newcomer = Consumer(world, "n", instance_id="i")
    newcomer.join()
    rejoin(first, a=[0, 1])
    rejoin(second, a=[2])
    back = ClassicClient(world, instance_id="i")
    reply = back.ask_to_join()
    assert isinstance(reply, Deferred)
    assert state_of(world) == "PreparingRebalance"
    assert describe(world).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert newcomer.send().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert not any(key for key in world.timers if "CONSUMER" in str(key))
    assert [first.heartbeat(), second.heartbeat()] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    tokens = [first.join(), second.join()]
    assert {
        each.joined(token).generation_id
        for each, token in zip((first, second, back), (*tokens, reply.token), strict=True)
    } == {3}
    sync_all([first, second, back])
    assert state_of(world) == "Stable"
    world.restart()
    assert {member.group_instance_id for member in described(world).members} == {None, "i"}


def test_a_static_member_that_is_alone_goes_back_to_the_classic_protocol_at_once() -> None:
    world = World()
    Consumer(world, "n", instance_id="i").join()
    back = ClassicClient(world, instance_id="i")
    token = back.join()
    assert back.joined(token).leader == back.member_id
    world.restart()
    assert described(world).group_state == "Stable"


def test_when_only_classic_members_stay_the_group_turns_back() -> None:
    world = World()
    first, second = classic_pair(world)
    newcomer = Consumer(world, "n")
    newcomer.join()
    rejoin(first, a=[0, 1])
    rejoin(second, a=[2, 3])
    newcomer.leave()
    assert state_of(world) == "PreparingRebalance"
    assert describe(world).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert [first.heartbeat(), second.heartbeat()] == [
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
    ]
    tokens = [first.join(), second.join()]
    assert [first.joined(tokens[0]).generation_id, second.joined(tokens[1]).generation_id] == [3, 3]
    sync_all([first, second])
    assert state_of(world) == "Stable"


def test_a_member_of_the_new_protocol_that_falls_silent_turns_the_group_back() -> None:
    world = World()
    classic_pair(world)
    newcomer = Consumer(world, "n")
    newcomer.join()
    readers = [ClassicClient(world, session_timeout_ms=100_000) for _ in range(2)]
    for reader in readers:
        reader.ask_to_join()
        rejoin(reader)
    world.advance(45_000)
    assert state_of(world) == "PreparingRebalance"
    assert len(described(world).members) == 2


def test_a_group_that_turned_back_is_classic_after_a_restart() -> None:
    world = World()
    first, _ = classic_pair(world)
    newcomer = Consumer(world, "n")
    newcomer.join()
    newcomer.leave()
    world.restart()
    group = described(world)
    assert (group.group_state, len(group.members)) == ("Stable", 2)
    assert not any(key for key in world.timers if "CONSUMER" in str(key))
    first.join()
    assert state_of(world) == "PreparingRebalance"


def test_a_group_too_large_for_the_classic_protocol_does_not_turn_back() -> None:
    world = World(GroupConfig(group_max_size=2))
    classic_pair(world)
    newcomer, reader = Consumer(world, "n"), ClassicClient(world)
    newcomer.join()
    reader.ask_to_join()
    rejoin(reader)
    newcomer.leave()
    assert [member.member_type for member in describe(world).members] == [0, 0, 0]


def test_classic_members_of_a_group_that_may_not_turn_back_share_what_others_leave() -> None:
    """Nobody else makes a target for them."""
    world = World(GroupConfig(group_consumer_downgrade=False))
    first, second = classic_pair(world)
    newcomer = Consumer(world, "n")
    newcomer.join()
    rejoin(second, a=[2, 3])
    rejoin(second, a=[2])
    rejoin(first, a=[0, 1])
    newcomer.heartbeat()
    assert newcomer.owned == {"a": [3]}
    newcomer.leave()
    world.advance(1_000)
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(first, a=[0, 1]) == {"a": [0, 1]}
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(second, a=[2]) == {"a": [2, 3]}
    assert [first.heartbeat(), second.heartbeat()] == [ErrorCode.NONE, ErrorCode.NONE]
    world.topics.create("other", 1)
    assert [first.heartbeat(), second.heartbeat()] == [ErrorCode.NONE, ErrorCode.NONE]
    world.topics.grow("a", 6)
    world.advance(1_000)
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(first, a=[0, 1]) == {"a": [0, 1, 4]}
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin(second, a=[2, 3]) == {"a": [2, 3, 5]}
    assert [first.heartbeat(), second.heartbeat()] == [ErrorCode.NONE, ErrorCode.NONE]


def test_joins_with_other_protocols_or_nonsense_are_refused() -> None:
    world = World()
    classic_pair(world)
    Consumer(world, "n").join()
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused(ClassicClient(world, protocols=[("own", b"")])) == inconsistent
    assert refused(ClassicClient(world, protocol_type="connect")) == inconsistent
    nonsense = ClassicClient(world, member_id="x", protocols=[("range", b"\xff")])
    assert refused(nonsense) == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_member_whose_first_protocol_is_nonsense_gets_no_assignment() -> None:
    world = World()
    protocols = [("own", b"\xff"), ("range", subscription("a"))]
    member, other = ClassicClient(world, protocols=protocols), ClassicClient(world)
    tokens = [member.join(), other.join()]
    while world.parked:
        world.advance(500)
    assert member.joined(tokens[0]).protocol_name == "range"
    member.ask_to_sync({})
    newcomer = Consumer(world, "n", topics=[])
    newcomer.join()
    assert sync_error(member, protocol_name="own") == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_full_group_takes_no_classic_member_in() -> None:
    world = World(GroupConfig(group_consumer_max_size=3))
    classic_pair(world)
    Consumer(world, "n").join()
    assert refused(ClassicClient(world)) == ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(
    ("config", "settings", "reason"),
    [
        (GroupConfig(group_consumer_upgrade=False), {}, "online upgrade is disabled"),
        (GroupConfig(), {"protocol_type": "connect"}, "does not use the consumer"),
        (GroupConfig(group_consumer_max_size=1), {}, "exceeds the consumer group maximum"),
        (GroupConfig(), {"protocols": [("range", b"\x00")]}, "is malformed"),
    ],
)
def test_a_group_that_cannot_be_turned_stays_as_it_is(
    config: GroupConfig, settings: dict[str, object], reason: str
) -> None:
    world = World(config)
    members = stable_group(world, 2, **settings)
    reply = Consumer(world, "n").send()
    assert reply.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert reason in (reply.error_message or "")
    assert [member.heartbeat() for member in members] == [ErrorCode.NONE] * 2


def test_a_refused_upgrade_leaves_parked_joins_parked() -> None:
    world = World()
    token = ClassicClient(world).join()
    reply = Consumer(world, "n", regex="a(").send()
    assert reply.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert token in world.parked
    world.advance(3_000)
    assert token not in world.parked


def test_a_partition_that_a_leader_gave_twice_has_one_owner() -> None:
    world = World()
    leader, follower = classic_pair(world)
    tokens = [leader.join(), follower.join()]
    for member, token in zip((leader, follower), tokens, strict=True):
        member.joined(token)
    both = assignment(a=[0, 1, 2, 3])
    leader.sync({leader.member_id: both, follower.member_id: both})
    Consumer(world, "n").join()
    owners = [
        number
        for member in describe(world).members
        for part in member.assignment.topic_partitions
        for number in part.partitions
    ]
    assert sorted(owners) == [0, 1, 2, 3]


def test_classic_members_commit_with_their_generation() -> None:
    world = World()
    first, _ = classic_pair(world)
    Consumer(world, "n").join()
    assert first.commit(5) == ErrorCode.NONE
    first.generation = 7
    assert first.commit(5) == ErrorCode.ILLEGAL_GENERATION
    assert commit(world, 5, member_id=first.member_id, epoch=0) == ErrorCode.ILLEGAL_GENERATION
