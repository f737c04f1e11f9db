"""Joining a classic group: ids, generations, leaders, protocols, and who is refused."""

import pytest

from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.shard import Deferred
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse

from ..groups_clients import (
    ClassicClient,
    leader_of,
    stable_group,
    subscription,
    sync_all,
)
from ..groups_world import World, answer, context


def refused(client: ClassicClient) -> ErrorCode:
    reply = client.ask_to_join()
    assert isinstance(reply, JoinGroupResponse)
    return ErrorCode(reply.error_code)


def state_of(world: World, group_id: str = "g") -> str:
    (group,) = answer(world.shard.handle_describe_groups([group_id], context(6), world.now))
    return group.group_state


def test_a_dynamic_member_must_join_again_with_the_id_it_was_given() -> None:
    world = World()
    member = ClassicClient(world, client_id="reader")
    assert refused(member) == ErrorCode.MEMBER_ID_REQUIRED
    assert member.member_id == "reader-id1"
    assert isinstance(member.ask_to_join(), Deferred)


def test_before_version_4_a_member_gets_in_at_once() -> None:
    world = World()
    member = ClassicClient(world, version=3)
    reply = member.ask_to_join()
    assert isinstance(reply, Deferred)
    world.advance(3_000)
    assert member.joined(reply.token).generation_id == 1


def test_the_first_generation_waits_for_the_initial_delay() -> None:
    world = World()
    member = ClassicClient(world)
    token = member.join()
    world.advance(2_999)
    assert token in world.parked
    world.advance(1)
    reply = member.joined(token)
    assert (reply.generation_id, reply.leader, reply.protocol_name) == (
        1,
        member.member_id,
        "range",
    )
    assert [part.member_id for part in reply.members] == [member.member_id]
    assert state_of(world) == "CompletingRebalance"


def test_members_that_come_put_the_first_generation_off() -> None:
    world = World()
    first, second = ClassicClient(world), ClassicClient(world)
    one = first.join()
    world.advance(2_000)
    two = second.join()
    world.advance(1_000)
    assert one in world.parked
    world.advance(3_000)
    assert first.joined(one).generation_id == second.joined(two).generation_id == 1


def test_the_first_generation_is_not_put_off_past_the_rebalance_timeout() -> None:
    world = World()
    members = []
    tokens = []
    for _ in range(10):
        members.append(ClassicClient(world, rebalance_timeout_ms=7_000))
        tokens.append(members[-1].join())
        if tokens[0] not in world.parked:
            break
        world.advance(1_500)
    assert world.now <= 1_000_000 + 7_500
    assert tokens[0] not in world.parked


def test_only_the_leader_learns_of_the_others() -> None:
    world = World()
    members = stable_group(world, 3)
    replies = [reply for reply in world.answers.values() if isinstance(reply, JoinGroupResponse)]
    assert sorted(len(reply.members) for reply in replies) == [0, 0, 3]
    assert len({member.leader for member in members}) == 1


def test_a_new_member_starts_a_rebalance_of_all() -> None:
    world = World()
    members = stable_group(world, 2)
    newcomer = ClassicClient(world)
    token = newcomer.join()
    assert state_of(world) == "PreparingRebalance"
    assert members[0].heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    tokens = [member.join() for member in members]
    assert [m.joined(t).generation_id for m, t in zip(members, tokens, strict=True)] == [2, 2]
    assert newcomer.joined(token).generation_id == 2
    sync_all([*members, newcomer])
    assert state_of(world) == "Stable"


def test_who_does_not_join_again_in_time_is_removed() -> None:
    world = World()
    members = stable_group(world, 2, rebalance_timeout_ms=5_000)
    newcomer = ClassicClient(world, rebalance_timeout_ms=5_000)
    token = newcomer.join()
    staying = members[1].join()
    world.advance(4_999)
    assert token in world.parked
    world.advance(1)
    assert newcomer.joined(token).generation_id == 2
    assert members[1].joined(staying).generation_id == 2
    assert members[0].heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_is_removed_is_followed_by_one_that_joined() -> None:
    world = World()
    members = stable_group(world, 3, rebalance_timeout_ms=5_000)
    leader = leader_of(members)
    others = [member for member in members if member is not leader]
    newcomer = ClassicClient(world, rebalance_timeout_ms=5_000)
    tokens = [newcomer.join(), *(member.join() for member in others)]
    world.advance(5_000)
    assert not world.parked
    assert others[0].joined(tokens[1]).leader != leader.member_id


def test_a_follower_that_joins_again_as_it_was_changes_nothing() -> None:
    world = World()
    members = stable_group(world, 2)
    follower = next(member for member in members if member is not leader_of(members))
    reply = follower.ask_to_join()
    assert isinstance(reply, JoinGroupResponse)
    assert (reply.generation_id, state_of(world)) == (1, "Stable")


def test_a_leader_that_joins_again_starts_a_rebalance() -> None:
    world = World()
    leader = leader_of(stable_group(world, 2))
    assert isinstance(leader.ask_to_join(), Deferred)
    assert state_of(world) == "PreparingRebalance"


def test_a_follower_with_other_metadata_starts_a_rebalance() -> None:
    world = World()
    members = stable_group(world, 2)
    follower = next(member for member in members if member is not leader_of(members))
    follower.protocols = [("range", subscription("a", "b"))]
    assert isinstance(follower.ask_to_join(), Deferred)


def test_a_member_that_lost_its_answer_gets_it_again_while_the_leader_divides() -> None:
    world = World()
    member = ClassicClient(world)
    token = member.join()
    world.advance(3_000)
    member.joined(token)
    again = member.ask_to_join()
    assert isinstance(again, JoinGroupResponse)
    assert again == world.answers[token]


def test_a_second_join_takes_the_place_of_the_first() -> None:
    world = World()
    member = ClassicClient(world)
    first = member.join()
    second = member.ask_to_join()
    assert isinstance(second, Deferred)
    reply = world.answers[first]
    assert isinstance(reply, JoinGroupResponse)
    assert reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    world.advance(3_000)
    assert member.joined(second.token).error_code == ErrorCode.NONE


def test_the_protocol_is_the_one_that_most_prefer_among_those_that_all_know() -> None:
    world = World()
    members = [ClassicClient(world) for _ in range(3)]
    members[0].protocols = [("range", b""), ("sticky", b"")]
    members[1].protocols = [("sticky", b""), ("range", b"")]
    members[2].protocols = [("own", b""), ("sticky", b""), ("range", b"")]
    tokens = [member.join() for member in members]
    world.advance(12_000)
    assert {m.joined(t).protocol_name for m, t in zip(members, tokens, strict=True)} == {"sticky"}


def test_protocols_that_nobody_shares_are_refused() -> None:
    world = World()
    stable_group(world, 1)
    stranger = ClassicClient(world, protocols=[("own", b"")])
    assert refused(stranger) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused(ClassicClient(world, protocol_type="connect")) == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_request_that_nobody_may_send_is_refused_and_leaves_nothing(
    settings: dict[str, object], error: ErrorCode
) -> None:
    world = World()
    client = ClassicClient(world)
    for name, value in settings.items():
        setattr(client, name, value)
    assert refused(client) == error
    assert world.log == []
    assert state_of(world, client.group_id) == "Dead"


def test_a_stranger_in_an_existing_group_is_unknown() -> None:
    world = World()
    stable_group(world, 1)
    assert refused(ClassicClient(world, member_id="stranger")) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_nobody_in() -> None:
    world = World(GroupConfig(group_max_size=2))
    members = stable_group(world, 2)
    assert refused(ClassicClient(world)) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert isinstance(leader_of(members).ask_to_join(), Deferred)


def test_a_group_that_is_too_large_after_a_restart_keeps_those_who_are_back_first() -> None:
    world = World()
    members = stable_group(world, 3)
    world.config = GroupConfig(group_max_size=2)
    world.restart()
    assert state_of(world) == "PreparingRebalance"
    tokens = [members[0].join(), members[1].join()]
    assert refused(members[2]) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert members[0].joined(tokens[0]).generation_id == 2


def test_an_id_that_was_given_and_not_used_is_forgotten_with_its_session() -> None:
    world = World()
    member = ClassicClient(world)
    assert refused(member) == ErrorCode.MEMBER_ID_REQUIRED
    world.advance(member.session_timeout_ms)
    assert refused(member) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_ids_that_were_given() -> None:
    world = World()
    members = stable_group(world, 1)
    assert refused(ClassicClient(world)) == ErrorCode.MEMBER_ID_REQUIRED
    token = leader_of(members).join()
    assert token in world.parked
    world.advance(10_000)
    assert members[0].joined(token).generation_id == 2


def test_a_new_member_whose_client_is_gone_is_dropped_after_five_minutes() -> None:
    world = World(GroupConfig(group_max_session_timeout_ms=3_600_000))
    members = stable_group(world, 1, rebalance_timeout_ms=1_000_000, session_timeout_ms=1_800_000)
    token = ClassicClient(world, rebalance_timeout_ms=1_000_000).join()
    world.advance(5 * 60_000)
    reply = world.answers[token]
    assert isinstance(reply, JoinGroupResponse)
    assert reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert members[0].heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_overlong_client_id_still_makes_an_id_that_fits() -> None:
    world = World()
    member = ClassicClient(world, client_id="x" * 32_767)
    assert refused(member) == ErrorCode.MEMBER_ID_REQUIRED
    assert len(member.member_id) < 2_000


def test_an_id_of_a_dynamic_member_is_not_for_a_static_one() -> None:
    world = World()
    member = ClassicClient(world)
    assert refused(member) == ErrorCode.MEMBER_ID_REQUIRED
    member.instance_id = "i"
    assert refused(member) == ErrorCode.UNKNOWN_SERVER_ERROR
