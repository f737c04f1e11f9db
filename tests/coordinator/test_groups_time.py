"""Groups and a wall clock that is set: what is measured in elapsed time does not follow it."""

import pytest

from ottla.wire.errors import ErrorCode

from .groups_clients import Consumer, settle, stable_group
from .groups_world import Topics, World

STEPS = [-3_600_000, -30_000, 30_000, 3_600_000]


@pytest.mark.parametrize("by_ms", STEPS)
def test_a_silent_classic_member_is_gone_after_its_session(by_ms: int) -> None:
    world = World(now=10_000_000)
    alive, dead = stable_group(world, 2, session_timeout_ms=10_000)
    world.advance(5_000)
    assert alive.heartbeat() is ErrorCode.NONE
    world.set_clock(by_ms)
    world.advance(4_999)
    assert alive.heartbeat() is ErrorCode.NONE, "the dead member has another millisecond"
    world.advance(1)
    assert alive.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert dead.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("by_ms", STEPS)
def test_a_silent_consumer_is_gone_after_its_session(by_ms: int) -> None:
    world = World(now=10_000_000)
    alive, dead = Consumer(world, "alive"), Consumer(world, "dead")
    alive.join()
    dead.join()
    settle(alive, dead)
    world.set_clock(by_ms)
    world.advance(44_999)
    assert alive.send().error_code == ErrorCode.NONE
    world.advance(1)
    settle(alive)
    assert sorted(alive.owned["a"]) == [0, 1, 2, 3]


def test_a_clock_that_is_set_back_does_not_stop_assignments() -> None:
    """An assignment waits for an interval after the last one; it does not wait for an hour."""
    world = World(now=10_000_000)
    first, second = Consumer(world, "first"), Consumer(world, "second")
    first.join()
    settle(first)
    world.set_clock(-3_600_000)
    second.join()
    settle(first, second)
    assert sorted([*first.owned["a"], *second.owned["a"]]) == [0, 1, 2, 3]
    assert second.owned["a"]


def test_a_clock_that_is_set_back_does_not_hide_topics_from_patterns() -> None:
    world = World(topics=Topics(log_a=1), now=10_000_000)
    member = Consumer(world, "member", topics=[], regex="log_*")
    member.join()
    settle(member)
    world.set_clock(-3_600_000)
    world.topics.create("log_b", 1)
    world.advance(10_000)
    settle(member)
    assert sorted(member.owned) == ["log_a", "log_b"]
