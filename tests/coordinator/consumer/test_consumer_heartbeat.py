"""Consumer groups (KIP-848): epochs, assignments, revocations, timeouts, and who is refused."""

import pytest

from ottla.coordinator.group_config import GroupConfig
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import consumer_group_describe as messages

from ..groups_clients import ClassicClient, Consumer, commit, settle
from ..groups_world import Topics, World, answer, context


def describe(world: World) -> messages.DescribedGroup:
    (group,) = answer(world.shard.handle_consumer_group_describe(["g"], context(1), world.now))
    return group


def joined(world: World, *names: str) -> list[Consumer]:
    """Members that share topic a, settled."""
    members = [Consumer(world, name) for name in names]
    for member in members:
        member.join()
    settle(*members)
    return members


def test_the_first_member_gets_everything_with_its_first_heartbeat() -> None:
    world = World()
    member = Consumer(world, "m")
    reply = member.join()
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("m", 2, 5_000)
    assert member.owned == {"a": [0, 1, 2, 3]}
    assert describe(world).group_state == "Stable"


def test_in_version_0_the_coordinator_makes_the_member_id() -> None:
    world = World()
    reply = Consumer(world, "").send(version=0)
    assert (reply.error_code, reply.member_id) == (ErrorCode.NONE, "id1")
    refused = Consumer(world, "").send(version=1)
    assert refused.error_code == ErrorCode.INVALID_REQUEST


def test_a_heartbeat_of_a_settled_member_writes_nothing_and_repeats_no_assignment() -> None:
    world = World()
    (member,) = joined(world, "m")
    written = len(world.log)
    assert member.heartbeat().assignment is None
    assert len(world.log) == written
    assert member.heartbeat(full=True).assignment is not None


def test_a_second_member_waits_until_the_first_has_given_up() -> None:
    world = World()
    first, second = Consumer(world, "m1"), Consumer(world, "m2")
    first.join()
    world.advance(1_000)
    second.join()
    assert second.owned == {}
    kept = first.heartbeat()
    assert kept.assignment is not None
    assert first.owned == {"a": [0, 1]}
    assert kept.member_epoch == 2
    second.heartbeat()
    assert second.owned == {}, "the first has not said yet that it gave them up"
    first.heartbeat()
    second.heartbeat()
    assert second.owned == {"a": [2, 3]}
    assert (first.epoch, second.epoch) == (3, 3)
    assert describe(world).group_state == "Stable"


def test_assignments_are_an_interval_apart() -> None:
    world = World()
    first, second, third = (Consumer(world, name) for name in ("m1", "m2", "m3"))
    first.join()
    second.join()
    third.join()
    group = describe(world)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Assigning", 4, 2)
    world.advance(999)
    first.heartbeat()
    assert describe(world).assignment_epoch == 2
    world.advance(1)
    first.heartbeat()
    assert describe(world).assignment_epoch == 4
    settle(first, second, third)
    assert sorted(len(member.owned["a"]) for member in (first, second, third)) == [1, 1, 2]


def test_a_member_that_leaves_hands_its_partitions_on() -> None:
    world = World()
    first, second = joined(world, "m1", "m2")
    reply = first.leave()
    assert (reply.member_id, reply.member_epoch) == ("m1", -1)
    settle(second)
    assert second.owned == {"a": [0, 1, 2, 3]}
    second.leave()
    assert (describe(world).group_state, describe(world).members) == ("Empty", [])


def test_a_group_has_the_times_that_were_set_for_it() -> None:
    world = World()
    world.own_configs["g"] = GroupConfig(
        group_consumer_session_timeout_ms=60_000, group_consumer_heartbeat_interval_ms=15_000
    )
    (member,) = joined(world, "m")
    assert member.heartbeat().heartbeat_interval_ms == 15_000
    world.advance(59_999)
    assert len(describe(world).members) == 1
    world.restart()
    world.advance(59_999)
    assert len(describe(world).members) == 1
    del world.own_configs["g"]
    assert member.heartbeat().heartbeat_interval_ms == 5_000
    world.advance(45_001)
    assert describe(world).members == []


def test_a_silent_member_is_removed_with_its_session() -> None:
    world = World()
    first, second = joined(world, "m1", "m2")
    for _ in range(10):
        world.advance(5_000)
        second.heartbeat()
    assert [member.member_id for member in describe(world).members] == ["m2"]
    settle(second)
    assert second.owned == {"a": [0, 1, 2, 3]}
    assert first.send().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_up_in_time_is_removed() -> None:
    world = World()
    (first,) = joined(world, "m1")
    second = Consumer(world, "m2")
    second.join()
    world.advance(1_000)
    second.heartbeat()
    assert first.send().member_epoch == 2
    for _ in range(4):
        world.advance(4_999)
        first.send()
        second.heartbeat()
    assert len(describe(world).members) == 2
    world.advance(4)
    assert [member.member_id for member in describe(world).members] == ["m2"]


def test_a_member_that_gives_up_in_time_stays() -> None:
    world = World()
    (first,) = joined(world, "m1")
    second = Consumer(world, "m2")
    second.join()
    settle(first, second)
    world.advance(25_000)
    assert len(describe(world).members) == 2


def test_a_lost_answer_is_forgiven_if_nothing_is_claimed_that_is_not_owned() -> None:
    world = World()
    (member,) = joined(world, "m")
    member.epoch, member.owned = 0, {}
    joined_epoch = 2
    newcomer = Consumer(world, "n")
    newcomer.join()
    settle(newcomer, rounds=2)
    member.epoch, member.owned = joined_epoch, {"a": [0, 1, 2, 3]}
    member.follow(member.send())
    lost = member.send()
    assert lost.member_epoch == 3
    again = member.send()
    assert (again.error_code, again.member_epoch) == (ErrorCode.NONE, 3)
    member.owned = {"a": [3]}
    assert member.send().error_code == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("epoch", [1, 3, 99])
def test_another_epoch_is_fenced(epoch: int) -> None:
    world = World()
    (member,) = joined(world, "m")
    reply = member.send(member_epoch=epoch, owned=False)
    assert reply.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert reply.error_message is not None


def test_a_fenced_member_may_start_again_from_nothing() -> None:
    world = World()
    (member,) = joined(world, "m")
    member.join()
    assert member.owned == {"a": [0, 1, 2, 3]}


def test_members_can_change_what_they_subscribe_to() -> None:
    world = World()
    first, second = joined(world, "m1", "m2")
    first.topics = ["b"]
    first.heartbeat(full=True)
    settle(first, second)
    assert first.owned == {"b": [0, 1]}
    assert second.owned == {"a": [0, 1, 2, 3]}


def test_a_member_gives_up_a_topic_that_it_left_before_there_is_a_new_assignment() -> None:
    world = World(GroupConfig(group_consumer_assignment_interval_ms=1_000_000))
    member = Consumer(world, "m", topics=["a", "b"])
    member.join()
    member.topics = ["b"]
    member.heartbeat(full=True)
    assert member.owned == {"b": [0, 1]}


def test_new_partitions_and_new_topics_are_seen_with_the_next_heartbeat() -> None:
    world = World()
    member = Consumer(world, "m", topics=["a", "later"])
    member.join()
    world.topics.grow("a", 6)
    settle(member, rounds=2)
    assert member.owned == {"a": [0, 1, 2, 3, 4, 5]}
    world.topics.create("later", 1)
    settle(member, rounds=2)
    assert member.owned == {"a": [0, 1, 2, 3, 4, 5], "later": [0]}
    world.topics.delete("a")
    settle(member, rounds=2)
    assert member.owned == {"later": [0]}


def test_a_topic_recreated_is_another_topic() -> None:
    world = World()
    (member,) = joined(world, "m")
    old = world.topics.delete("a")
    new = world.topics.create("a", 4)
    settle(member, rounds=3)
    (described,) = describe(world).members
    assert [part.topic_id for part in described.assignment.topic_partitions] == [new.topic_id]
    assert old.topic_id != new.topic_id


def test_topics_that_concern_nobody_change_nothing() -> None:
    world = World()
    (member,) = joined(world, "m")
    world.topics.create("other", 3)
    written = len(world.log)
    member.heartbeat()
    assert len(world.log) == written


def test_the_assignor_that_most_ask_for_is_used() -> None:
    world = World(topics=Topics(a=2, b=2))
    members = [Consumer(world, name, topics=["a", "b"], assignor="range") for name in "xy"]
    for member in members:
        member.join()
    settle(*members)
    assert describe(world).assignor_name == "range"
    assert [member.owned for member in members] == [{"a": [0], "b": [0]}, {"a": [1], "b": [1]}]


def test_a_member_without_a_subscription_is_a_member() -> None:
    world = World()
    member = Consumer(world, "m", topics=[])
    assert member.join().member_epoch == 1
    assert (member.owned, describe(world).group_state) == ({}, "Stable")


def test_a_restart_keeps_members_epochs_and_assignments() -> None:
    world = World()
    first, second = joined(world, "m1", "m2")
    before = describe(world)
    world.restart()
    assert describe(world) == before
    assert first.heartbeat().assignment is None
    world.advance(44_999)
    second.heartbeat()
    world.advance(1)
    assert [member.member_id for member in describe(world).members] == ["m2"]


def test_a_member_that_was_giving_up_gets_its_time_again_after_a_restart() -> None:
    world = World()
    (first,) = joined(world, "m1")
    second = Consumer(world, "m2")
    second.join()
    world.advance(1_000)
    second.heartbeat()
    first.send()
    world.restart()
    world.advance(19_999)
    assert len(describe(world).members) == 2
    world.advance(1)
    assert [member.member_id for member in describe(world).members] == ["m2"]


@pytest.mark.parametrize(
    ("request_parts", "error", "message"),
    [
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST, "InstanceId can't be empty."),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        (
            {"rebalance_timeout_ms": -1},
            ErrorCode.INVALID_REQUEST,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (
            {"topic_partitions": None},
            ErrorCode.INVALID_REQUEST,
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            {"subscribed_topic_names": None},
            ErrorCode.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        ),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST, "InstanceId can't be null."),
        (
            {"server_assignor": "best"},
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor best is not supported. Supported assignors: uniform, range.",
        ),
        (
            {"subscribed_topic_regex": "a("},
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "SubscribedTopicRegex `a(` is not a valid regular expression: missing closing ).",
        ),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found."),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found."),
    ],
)
def test_what_no_member_may_say_is_refused_in_kafkas_words(
    request_parts: dict[str, object], error: ErrorCode, message: str
) -> None:
    world = World()
    reply = Consumer(world, "m").send(request_parts)
    assert (reply.error_code, reply.error_message) == (error, message)
    assert world.log == []


def test_a_full_group_takes_nobody_in() -> None:
    world = World(GroupConfig(group_consumer_max_size=1))
    (member,) = joined(world, "m")
    refused = Consumer(world, "n").send()
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert member.heartbeat().error_code == ErrorCode.NONE


def test_strangers_are_unknown() -> None:
    world = World()
    joined(world, "m")
    for epoch in (2, -1):
        reply = Consumer(world, "stranger").send(member_epoch=epoch, owned=False)
        assert reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_group_is_not_found_by_who_is_no_member() -> None:
    world = World()
    ClassicClient(world).ask_to_join()
    reply = Consumer(world, "m").send(member_epoch=1, owned=False)
    assert reply.error_message == "Group g is not a consumer group."


def test_an_empty_classic_group_becomes_a_consumer_group_and_back() -> None:
    world = World()
    assert commit(world, 7) == ErrorCode.NONE
    member = Consumer(world, "m")
    member.join()
    assert describe(world).group_state == "Stable"
    member.leave()
    classic = ClassicClient(world)
    token = classic.join()
    world.advance(3_000)
    assert classic.joined(token).error_code == ErrorCode.NONE
    assert describe(world).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    world.restart()
    assert describe(world).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_stranger_with_an_id_does_not_turn_an_empty_consumer_group_classic() -> None:
    world = World()
    (member,) = joined(world, "m")
    member.leave()
    written = len(world.log)
    reply = ClassicClient(world, member_id="stranger").ask_to_join()
    assert getattr(reply, "error_code", None) == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(world.log) == written
    assert describe(world).group_state == "Empty"
