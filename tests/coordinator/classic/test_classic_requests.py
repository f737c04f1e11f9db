"""A classic group at work: syncs, heartbeats, sessions, leaving, restarts."""

import pytest

from ottla.coordinator.classic.group import ClassicGroup, ClassicState, IllegalMoveError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

from ..groups_clients import ClassicClient, leader_of, stable_group, sync_all
from ..groups_world import World, answer, context
from .test_classic_join import state_of


def sync_error(
    client: ClassicClient, protocol_type: str | None = None, protocol_name: str | None = None
) -> ErrorCode:
    reply = client.ask_to_sync(protocol_type=protocol_type, protocol_name=protocol_name)
    assert isinstance(reply, SyncGroupResponse)
    return ErrorCode(reply.error_code)


def joined_pair(world: World) -> list[ClassicClient]:
    """Two members that have joined, and not synced."""
    members = [ClassicClient(world), ClassicClient(world)]
    tokens = [member.join() for member in members]
    while world.parked:
        world.advance(500)
    for member, token in zip(members, tokens, strict=True):
        member.joined(token)
    return members


def test_followers_wait_for_the_leaders_assignment() -> None:
    world = World()
    members = joined_pair(world)
    leader = leader_of(members)
    follower = next(member for member in members if member is not leader)
    token = follower.sync()
    assert token in world.parked
    leader.sync({follower.member_id: b"yours"})
    reply = follower.synced(token)
    assert (reply.assignment, reply.protocol_type, reply.protocol_name) == (
        b"yours",
        "consumer",
        "range",
    )
    assert state_of(world) == "Stable"


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    world = World()
    members = joined_pair(world)
    leader_of(members).sync({})
    follower = next(member for member in members if member is not leader_of(members))
    reply = follower.ask_to_sync()
    assert isinstance(reply, SyncGroupResponse)
    assert (reply.error_code, reply.assignment) == (ErrorCode.NONE, b"")


def test_a_stable_group_gives_the_assignment_again() -> None:
    world = World()
    members = stable_group(world, 2)
    reply = members[1].ask_to_sync()
    assert isinstance(reply, SyncGroupResponse)
    assert reply.assignment == members[1].member_id.encode()


def test_a_second_sync_takes_the_place_of_the_first() -> None:
    world = World()
    members = joined_pair(world)
    follower = next(member for member in members if member is not leader_of(members))
    first, second = follower.sync(), follower.sync()
    assert follower.synced(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    leader_of(members).sync()
    assert follower.synced(second).error_code == ErrorCode.NONE


def test_a_rebalance_sends_those_who_wait_for_an_assignment_away() -> None:
    world = World()
    members = joined_pair(world)
    follower = next(member for member in members if member is not leader_of(members))
    token = follower.sync()
    ClassicClient(world).join()
    assert follower.synced(token).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert sync_error(follower) == ErrorCode.REBALANCE_IN_PROGRESS


def test_who_does_not_sync_in_time_is_removed() -> None:
    world = World()
    members = joined_pair(world)
    leader = leader_of(members)
    follower = next(member for member in members if member is not leader)
    leader.sync()
    for _ in range(6):
        world.advance(5_000)
        leader.heartbeat()
        follower.heartbeat()
    assert follower.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_syncs_and_heartbeats_of_strangers_and_other_generations_are_refused() -> None:
    world = World()
    members = stable_group(world, 2)
    stranger = ClassicClient(world, member_id="stranger", generation=1)
    assert sync_error(stranger) == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    nobody = ClassicClient(world, group_id="nobody", member_id="m", generation=1)
    assert sync_error(nobody) == ErrorCode.UNKNOWN_MEMBER_ID
    assert nobody.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    members[0].generation = 7
    assert sync_error(members[0]) == ErrorCode.ILLEGAL_GENERATION
    assert members[0].heartbeat() == ErrorCode.ILLEGAL_GENERATION
    nameless = ClassicClient(world, group_id="")
    assert sync_error(nameless) == ErrorCode.INVALID_GROUP_ID
    assert nameless.heartbeat() == ErrorCode.INVALID_GROUP_ID
    assert nameless.leave().error_code == ErrorCode.INVALID_GROUP_ID


def test_a_sync_for_another_protocol_is_refused() -> None:
    world = World()
    (member,) = stable_group(world, 1)
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sync_error(member, protocol_type="other") == inconsistent
    assert sync_error(member, protocol_name="other") == inconsistent


def test_heartbeats_keep_a_session_alive() -> None:
    world = World()
    (member,) = stable_group(world, 1)
    for _ in range(5):
        world.advance(9_999)
        assert member.heartbeat() == ErrorCode.NONE
    world.advance(10_000)
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert state_of(world) == "Empty"


def test_a_silent_member_is_removed_and_the_others_rebalance() -> None:
    world = World()
    members = stable_group(world, 2)
    world.advance(5_000)
    members[0].heartbeat()
    world.advance(5_000)
    assert members[0].heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert members[1].heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert members[0].joined(members[0].join()).generation_id == 2


def test_a_member_that_waits_does_not_lose_its_session() -> None:
    world = World()
    members = stable_group(world, 2)
    newcomer = ClassicClient(world)
    newcomer.join()
    token = members[0].join()
    for _ in range(3):
        world.advance(9_000)
        members[1].heartbeat()
    assert token in world.parked
    world.advance(3_000)
    assert members[0].joined(token).error_code == ErrorCode.NONE


def test_the_last_to_leave_makes_the_group_empty() -> None:
    world = World()
    members = stable_group(world, 2)
    assert members[0].leave().members[0].error_code == ErrorCode.NONE
    assert state_of(world) == "PreparingRebalance"
    assert members[1].leave().members[0].error_code == ErrorCode.NONE
    assert state_of(world) == "Empty"
    world.restart()
    assert state_of(world) == "Empty"


def test_a_member_that_leaves_while_its_join_waits_is_answered() -> None:
    world = World()
    leader = leader_of(stable_group(world, 2))
    token = leader.join()
    leader.leave()
    assert leader.joined(token).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_while_its_sync_waits_is_answered() -> None:
    world = World()
    leader, follower = joined_pair(world)
    assert leader_of([leader, follower]) is leader
    token = follower.sync()
    follower.leave()
    assert follower.synced(token).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_version_without_batches_says_its_one_result_at_the_top() -> None:
    world = World()
    (member,) = stable_group(world, 1)
    assert member.leave(version=2) == LeaveGroupResponse()
    assert member.leave(version=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_several_leave_with_one_request_each_with_its_result() -> None:
    world = World()
    members = stable_group(world, 2)
    static = ClassicClient(world, instance_id="i")
    static.join()
    pending = ClassicClient(world)
    pending.ask_to_join()
    request = LeaveGroupRequest(
        group_id="g",
        members=[
            MemberIdentity(member_id=members[0].member_id),
            MemberIdentity(member_id="", group_instance_id="i"),
            MemberIdentity(member_id=pending.member_id),
            MemberIdentity(member_id="stranger"),
            MemberIdentity(member_id=""),
            MemberIdentity(member_id="", group_instance_id="other"),
            MemberIdentity(member_id=members[1].member_id, group_instance_id="other"),
        ],
    )
    result = world.shard.handle_leave_group(request, context(5), world.now)
    world.take(result)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [part.error_code for part in answer(result).members] == [0, 0, 0, *[unknown] * 4]


def test_nobody_leaves_a_group_that_does_not_exist() -> None:
    world = World()
    reply = ClassicClient(world, member_id="m").leave()
    assert (reply.error_code, reply.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_restart_keeps_the_generation_and_everyone_in_it() -> None:
    world = World()
    members = stable_group(world, 3)
    world.restart()
    assert [member.heartbeat() for member in members] == [ErrorCode.NONE] * 3
    reply = members[2].ask_to_sync()
    assert isinstance(reply, SyncGroupResponse)
    assert reply.assignment == members[2].member_id.encode()


def test_sessions_start_again_after_a_restart() -> None:
    world = World()
    members = stable_group(world, 2)
    world.advance(9_000)
    world.restart()
    world.advance(9_999)
    assert members[0].heartbeat() == ErrorCode.NONE
    world.advance(1)
    assert members[1].heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restart_in_a_rebalance_goes_back_to_the_last_generation() -> None:
    world = World()
    members = stable_group(world, 2)
    leader_of(members).join()
    world.restart()
    assert state_of(world) == "Stable"
    tokens = [leader_of(members).join()]
    follower = next(member for member in members if member is not leader_of(members))
    tokens.append(follower.join())
    leader_of(members).joined(tokens[0])
    assert follower.joined(tokens[1]).generation_id == 2
    sync_all(members)


def test_a_move_that_the_table_does_not_have_changes_nothing() -> None:
    group = ClassicGroup("g")
    with pytest.raises(IllegalMoveError):
        group.move_to(ClassicState.STABLE, 1)
    assert (group.state, group.state_timestamp) == (ClassicState.EMPTY, -1)


def test_requests_to_a_group_of_only_offsets_find_no_members() -> None:
    world = World()
    ClassicClient(world).commit(5)
    now = world.now
    heartbeat = HeartbeatRequest(group_id="g", member_id="m")
    sync = SyncGroupRequest(group_id="g", member_id="m")
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert answer(world.shard.handle_heartbeat(heartbeat, context(4), now)).error_code == unknown
    assert answer(world.shard.handle_sync_group(sync, context(4), now)).error_code == unknown
    without_protocol = answer(world.shard.handle_sync_group(sync, context(5), now))
    assert without_protocol.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
