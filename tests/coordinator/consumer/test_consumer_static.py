"""Static members and patterns in consumer groups."""

from ottla.wire.errors import ErrorCode

from ..groups_clients import Consumer, settle
from ..groups_world import Topics, World
from .test_consumer_heartbeat import describe


def static(world: World, member_id: str, instance_id: str = "one") -> Consumer:
    return Consumer(world, member_id, instance_id=instance_id)


def test_an_instance_id_belongs_to_one_member_until_it_leaves() -> None:
    world = World()
    first = static(world, "m1")
    first.join()
    refused = static(world, "m2").send()
    assert refused.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    first.leave(epoch=-1)
    assert static(world, "m2").send().error_code == ErrorCode.NONE


def test_a_static_member_that_comes_back_has_what_it_had_without_a_rebalance() -> None:
    world = World()
    first, other = static(world, "m1"), Consumer(world, "n")
    first.join()
    other.join()
    settle(first, other)
    had, epoch = first.owned, describe(world).group_epoch
    reply = first.leave(epoch=-2)
    assert (reply.member_id, reply.member_epoch) == ("m1", -2)
    again = static(world, "m2")
    again.join()
    assert (again.owned, again.epoch) == (had, first.epoch)
    assert describe(world).group_epoch == epoch
    assert other.heartbeat().assignment is None


def test_the_old_process_of_a_static_member_is_fenced() -> None:
    world = World()
    old = static(world, "m1")
    old.join()
    old.leave(epoch=-2)
    static(world, "m2").join()
    assert old.send().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert old.leave(epoch=-2).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_come_back_goes_with_its_session() -> None:
    world = World()
    first, other = static(world, "m1"), Consumer(world, "n")
    first.join()
    other.join()
    settle(first, other)
    first.leave(epoch=-2)
    for _ in range(9):
        assert len(other.owned["a"]) == 2
        world.advance(5_000)
        other.heartbeat()
    settle(other)
    assert other.owned == {"a": [0, 1, 2, 3]}


def test_a_static_member_that_left_for_now_is_remembered_over_a_restart() -> None:
    world = World()
    first = static(world, "m1")
    first.join()
    first.leave(epoch=-2)
    world.restart()
    again = static(world, "m2")
    again.join()
    assert again.owned == {"a": [0, 1, 2, 3]}


def test_a_static_member_that_leaves_while_it_gives_up_partitions_has_its_whole_session() -> None:
    world = World()
    first, other = static(world, "m1"), Consumer(world, "n")
    first.rebalance_timeout_ms = 6_000
    first.join()
    other.join()
    world.advance(2_000)
    first.heartbeat()
    assert describe(world).members[0].member_epoch == 2  # it is asked for two partitions
    first.leave(epoch=-2)
    world.advance(10_000)
    assert [member.member_id for member in describe(world).members] == ["m1", "n"]
    again = static(world, "m2")
    again.join()
    assert again.owned == {"a": [0, 1]}


def test_a_late_heartbeat_does_not_bring_back_a_static_member_that_left_for_now() -> None:
    world = World()
    first, other = static(world, "m1"), Consumer(world, "n")
    first.join()
    before = first.epoch
    other.join()
    settle(first, other)
    assert first.epoch > before
    first.leave(epoch=-2)
    first.epoch = before
    assert first.send().error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert static(world, "m2").join().error_code == ErrorCode.NONE


def test_unknown_instance_ids_are_unknown_members() -> None:
    world = World()
    first = static(world, "m1")
    first.join()
    for epoch in (2, -1, -2):
        reply = static(world, "m1", "two").send(member_epoch=epoch, owned=False)
        assert reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pattern_subscribes_to_all_topics_that_it_matches() -> None:
    world = World(topics=Topics(log_a=2, log_b=1, other=3))
    member = Consumer(world, "m", topics=[], regex="log_*")
    member.join()
    assert member.owned == {"log_a": [0, 1], "log_b": [0]}


def test_names_and_patterns_go_together() -> None:
    world = World(topics=Topics(log_a=1, other=1))
    member = Consumer(world, "m", topics=["other"], regex="log_*")
    member.join()
    assert member.owned.keys() == {"log_a", "other"}


def test_a_new_topic_is_matched_ten_seconds_later_at_most() -> None:
    world = World(topics=Topics(log_a=1))
    member = Consumer(world, "m", topics=[], regex="log_*")
    member.join()
    member.heartbeat()
    world.topics.create("log_b", 1)
    world.advance(9_000)
    member.heartbeat()
    assert member.owned.keys() == {"log_a"}
    world.advance(1_000)
    member.heartbeat()
    assert member.owned.keys() == {"log_a", "log_b"}


def test_a_pattern_that_is_given_up_takes_its_topics_with_it() -> None:
    world = World(topics=Topics(log_a=1, other=1))
    member = Consumer(world, "m", topics=["other"], regex="log_*")
    member.join()
    member.regex = ""
    member.heartbeat(full=True)
    settle(member, rounds=2)
    assert member.owned.keys() == {"other"}


def test_patterns_of_members_that_left_are_not_looked_up_any_longer() -> None:
    world = World(topics=Topics(log_a=1, other=1))
    first = Consumer(world, "m1", topics=[], regex="log_*")
    second = Consumer(world, "m2", topics=["other"])
    first.join()
    second.join()
    first.leave()
    settle(second, rounds=2)
    epoch = describe(world).group_epoch
    world.topics.create("log_b", 1)
    world.advance(20_000)
    second.heartbeat()
    assert describe(world).group_epoch == epoch


def test_what_a_pattern_matched_is_known_after_a_restart() -> None:
    world = World(topics=Topics(log_a=1))
    member = Consumer(world, "m", topics=[], regex="log_*")
    member.join()
    written = len(world.log)
    world.restart()
    member.heartbeat()
    assert len(world.log) == written
