"""Static members of classic groups (KIP-345, KIP-814)."""

from ottla.coordinator.shard import Deferred
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

from ..groups_clients import ClassicClient, leader_of, stable_group, sync_all
from ..groups_world import World
from .test_classic_join import refused, state_of


def joined_pair(world: World, **settings: object) -> list[ClassicClient]:
    """The instances one and two, which have joined and not synced; one leads."""
    members = [ClassicClient(world, instance_id=name) for name in ("one", "two")]
    for member in members:
        for name, value in settings.items():
            setattr(member, name, value)
    tokens = [member.join() for member in members]
    while world.parked:
        world.advance(500)
    for member, token in zip(members, tokens, strict=True):
        member.joined(token)
    assert leader_of(members) is members[0]
    return members


def static_pair(world: World, **settings: object) -> list[ClassicClient]:
    """A stable group of the instances one and two."""
    members = joined_pair(world, **settings)
    sync_all(members)
    return members


def restarted(member: ClassicClient, version: int = 9) -> ClassicClient:
    """The same instance after its process was started again."""
    return ClassicClient(member.world, instance_id=member.instance_id, version=version)


def test_a_static_member_joins_with_one_request() -> None:
    world = World()
    member = ClassicClient(world, instance_id="one")
    assert isinstance(member.ask_to_join(), Deferred)


def test_a_restarted_static_member_costs_no_rebalance() -> None:
    world = World()
    members = static_pair(world)
    follower = next(member for member in members if member is not leader_of(members))
    again = restarted(follower)
    reply = again.ask_to_join()
    assert isinstance(reply, JoinGroupResponse)
    assert (reply.error_code, reply.generation_id, state_of(world)) == (0, 1, "Stable")
    assert reply.member_id != follower.member_id
    synced = again.ask_to_sync()
    assert isinstance(synced, SyncGroupResponse)
    assert synced.assignment == follower.member_id.encode()


def test_the_old_process_of_a_static_member_is_fenced() -> None:
    world = World()
    old = static_pair(world)[0]
    restarted(old).ask_to_join()
    assert old.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert refused(old) == ErrorCode.FENCED_INSTANCE_ID
    assert old.commit(1) == ErrorCode.FENCED_INSTANCE_ID
    assert old.leave().members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    synced = old.ask_to_sync()
    assert isinstance(synced, SyncGroupResponse)
    assert synced.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_an_instance_id_that_nobody_has_is_unknown() -> None:
    world = World()
    member = static_pair(world)[0]
    member.instance_id = "three"
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(member) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_is_back_is_told_to_skip_its_assignment() -> None:
    world = World()
    leader = leader_of(static_pair(world))
    reply = restarted(leader).ask_to_join()
    assert isinstance(reply, JoinGroupResponse)
    assert reply.skip_assignment
    assert reply.leader == reply.member_id
    assert len(reply.members) == 2


def test_an_older_client_that_is_back_does_not_take_itself_for_the_leader() -> None:
    world = World()
    leader = leader_of(static_pair(world))
    reply = restarted(leader, version=8).ask_to_join()
    assert isinstance(reply, JoinGroupResponse)
    assert (reply.leader, reply.skip_assignment, reply.members) == (leader.member_id, False, [])


def test_the_new_id_of_a_static_member_outlives_a_restart_of_the_coordinator() -> None:
    world = World()
    again = restarted(static_pair(world)[0])
    again.ask_to_join()
    world.restart()
    assert again.heartbeat() == ErrorCode.NONE


def test_a_static_member_that_is_back_with_another_protocol_starts_a_rebalance() -> None:
    world = World()
    members = static_pair(world, protocols=[("range", b""), ("sticky", b"")])
    again = restarted(members[0])
    again.protocols = [("sticky", b"")]
    assert isinstance(again.ask_to_join(), Deferred)
    assert state_of(world) == "PreparingRebalance"


def test_a_static_member_that_is_back_while_the_leader_divides_starts_a_rebalance() -> None:
    world = World()
    members = joined_pair(world)
    token = members[1].sync()
    again = restarted(members[1])
    assert isinstance(again.ask_to_join(), Deferred)
    assert state_of(world) == "PreparingRebalance"
    assert members[1].synced(token).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_parked_join_of_the_old_process_is_fenced() -> None:
    world = World()
    first = ClassicClient(world, instance_id="one")
    token = first.join()
    second = restarted(first)
    second.join()
    reply = world.answers[token]
    assert isinstance(reply, JoinGroupResponse)
    assert reply.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_static_members_that_do_not_join_again_stay_until_their_session_ends() -> None:
    world = World()
    static = stable_group(world, 1, instance_id="one", session_timeout_ms=100_000)[0]
    newcomer = ClassicClient(world, rebalance_timeout_ms=5_000)
    token = newcomer.join()
    world.advance(30_000)
    assert newcomer.joined(token).error_code == ErrorCode.NONE
    members = newcomer.joined(token).members
    assert {member.group_instance_id for member in members} == {"one", None}
    assert static.heartbeat() == ErrorCode.ILLEGAL_GENERATION


def test_a_group_whose_static_members_have_not_come_waits_for_one() -> None:
    world = World()
    members = static_pair(world, rebalance_timeout_ms=5_000, session_timeout_ms=60_000)
    guest = ClassicClient(world, rebalance_timeout_ms=5_000)
    token = guest.join()
    world.advance(1_000)
    guest.leave()
    assert token not in world.parked
    world.advance(10_000)
    assert state_of(world) == "PreparingRebalance"
    again = members[1].join()
    world.advance(5_000)
    assert members[1].joined(again).generation_id == 2
