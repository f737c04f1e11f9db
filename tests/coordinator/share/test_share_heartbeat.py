"""Members of share groups: joining, waiting for state, staying, leaving, being fenced."""

from typing import Any

import pytest

from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.shard import Deferred
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

from ..groups_clients import Consumer
from ..groups_world import answer, context
from .share_world import ShareMemberClient, ShareWorld


def test_the_first_heartbeat_waits_for_the_state_and_gets_its_partitions() -> None:
    world = ShareWorld()
    member = ShareMemberClient(world, "m")
    token = member.beat(subscribed_topic_names=["a"])
    assert isinstance(token, Deferred)
    (effect,) = world.effects
    assert (effect.group_id, effect.state_epoch) == ("g", 1)
    assert effect.partitions == {world.topics.id_of("a"): frozenset(range(4))}
    world.initialize()
    reply = member.answered(token)
    assert (reply.error_code, reply.member_epoch, reply.heartbeat_interval_ms) == (0, 1, 5_000)
    assert member.partitions == {world.topics.id_of("a"): [0, 1, 2, 3]}
    assert not world.effects


def test_a_member_that_waited_long_enough_gets_what_there_is() -> None:
    world = ShareWorld()
    member = ShareMemberClient(world, "m")
    token = member.beat(subscribed_topic_names=["a"])
    world.advance(3_000)
    assert member.answered(token).error_code == 0
    assert member.partitions == {}
    world.initialize()
    world.advance(1_000)
    member.beat()
    assert member.partitions == {world.topics.id_of("a"): [0, 1, 2, 3]}


def test_what_failed_is_initialized_again_with_the_next_heartbeat() -> None:
    world = ShareWorld()
    member = ShareMemberClient(world, "m")
    token = member.beat(subscribed_topic_names=["a"])
    world.initialize({world.topics.id_of("a"): frozenset({3})})
    member.answered(token)
    assert member.partitions == {world.topics.id_of("a"): [0, 1, 2]}
    member.beat()
    (effect,) = world.effects
    assert effect.partitions == {world.topics.id_of("a"): frozenset({3})}
    world.initialize()
    world.advance(1_000)
    member.beat()
    assert member.partitions == {world.topics.id_of("a"): [0, 1, 2, 3]}


def test_an_initialization_that_a_lost_coordinator_began_is_begun_again() -> None:
    world = ShareWorld()
    ShareMemberClient(world, "m").beat(subscribed_topic_names=["a"])
    world.effects.clear()
    world.restart()
    member = ShareMemberClient(world, "m")
    member.join()
    assert member.partitions == {world.topics.id_of("a"): [0, 1, 2, 3]}


def test_new_partitions_are_initialized_and_assigned() -> None:
    world = ShareWorld()
    member = ShareMemberClient(world, "m")
    member.join()
    world.topics.grow("a", 6)
    world.advance(1_000)
    member.beat()
    world.initialize()
    world.advance(1_000)
    member.beat()
    assert member.partitions == {world.topics.id_of("a"): [0, 1, 2, 3, 4, 5]}


def test_members_share_partitions_where_there_are_more_members() -> None:
    world = ShareWorld()
    members = [ShareMemberClient(world, f"m{number}", ["b"]) for number in range(5)]
    for member in members:
        world.advance(1_000)
        member.join()
    world.advance(1_000)
    for member in members:
        member.beat()
    topic = world.topics.id_of("b")
    assert all(len(member.partitions[topic]) == 1 for member in members)
    read = [member.partitions[topic][0] for member in members]
    assert sorted((read.count(0), read.count(1))) == [2, 3]


def test_a_member_that_leaves_or_is_silent_gives_its_partitions_to_others() -> None:
    world = ShareWorld()
    first, second, third = (ShareMemberClient(world, name) for name in ("m1", "m2", "m3"))
    for member in (first, second, third):
        world.advance(1_000)
        member.join()
    second.epoch = -1
    reply = second.beat()
    assert not isinstance(reply, Deferred)
    assert (reply.error_code, reply.member_epoch) == (0, -1)
    world.advance(40_000)
    first.beat()
    world.advance(6_000)  # the third one's session is over
    first.beat()
    assert first.partitions == {world.topics.id_of("a"): [0, 1, 2, 3]}
    third_reply = third.beat()
    assert not isinstance(third_reply, Deferred)
    assert third_reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(world.group().members) == ["m1"]


def test_a_waiting_member_that_leaves_is_answered() -> None:
    world = ShareWorld()
    member = ShareMemberClient(world, "m")
    token = member.beat(subscribed_topic_names=["a"])
    member.epoch = -1
    member.beat()
    assert isinstance(token, Deferred)
    assert member.answered(token).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    world.initialize()
    assert world.group().is_empty


def test_the_epoch_before_is_accepted_and_others_are_fenced() -> None:
    world = ShareWorld()
    member = ShareMemberClient(world, "m")
    member.join()
    world.advance(1_000)
    member.beat(subscribed_topic_names=["a", "b"])
    world.initialize()
    world.advance(1_000)
    member.beat()
    epoch = member.epoch
    before = world.group().members["m"].previous_member_epoch
    member.epoch = before
    accepted = member.beat()
    assert not isinstance(accepted, Deferred)
    assert accepted.error_code == 0
    for wrong in (epoch + 5, before - 1):
        if wrong < 1:
            continue
        written = len(world.log)
        member.epoch = wrong
        reply = member.beat()
        assert not isinstance(reply, Deferred)
        assert reply.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert len(world.log) == written


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "m" * 37}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": []}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"group_id": "consumers"}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_bad_heartbeats_are_refused_and_change_nothing(
    request_: dict[str, Any], error: ErrorCode
) -> None:
    world = ShareWorld()
    Consumer(world, "c", group_id="consumers").join()
    written = len(world.log)
    values = {"group_id": "g", "member_id": "m", "subscribed_topic_names": ["a"], **request_}
    request = ShareGroupHeartbeatRequest(**values)
    reply = world.take(world.shard.handle_share_group_heartbeat(request, context(1), world.now))
    assert reply.error_code == error
    assert len(world.log) == written
    assert not world.effects


def test_a_full_group_takes_nobody_else() -> None:
    world = ShareWorld(GroupConfig(group_share_max_size=1))
    ShareMemberClient(world, "m1").join()
    reply = ShareMemberClient(world, "m2").join()
    assert reply.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_other_protocols_are_refused_by_a_share_group() -> None:
    world = ShareWorld()
    ShareMemberClient(world, "m").join()
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="c",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["a"],
        topic_partitions=[],
    )
    result = world.shard.handle_consumer_group_heartbeat(request, context(1), world.now)
    assert answer(result).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_share_groups_are_listed_and_described() -> None:
    world = ShareWorld()
    ShareMemberClient(world, "m").join()
    asked = ListGroupsRequest(types_filter=["Share"], states_filter=["stable"])
    (listed,) = answer(world.shard.handle_list_groups(asked, context(5), world.now))
    assert (listed.group_id, listed.protocol_type) == ("g", "share")
    assert (listed.group_state, listed.group_type) == ("Stable", "share")
    (group, missing) = answer(
        world.shard.handle_share_group_describe(["g", "none"], context(1), world.now)
    )
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (1, 1, "simple")
    (member,) = group.members
    assert [topic.partitions for topic in member.assignment.topic_partitions] == [[0, 1, 2, 3]]
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
