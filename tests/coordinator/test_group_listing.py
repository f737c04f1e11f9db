"""Groups as administrators see them."""

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.list_groups import ListGroupsRequest

from .consumer.test_consumer_heartbeat import describe
from .groups_clients import (
    ClassicClient,
    Consumer,
    commit,
    leader_of,
    stable_group,
)
from .groups_world import World, answer, context


def described(world: World, group_id: str = "g", version: int = 6) -> DescribedGroup:
    (group,) = answer(world.shard.handle_describe_groups([group_id], context(version), world.now))
    return group


def listed(world: World, **filters: list[str]) -> dict[str, tuple[str, str, str]]:
    request = ListGroupsRequest(**filters)
    reply = answer(world.shard.handle_list_groups(request, context(5), world.now))
    return {
        group.group_id: (group.protocol_type, group.group_state, group.group_type)
        for group in reply
    }


def three_groups() -> World:
    world = World()
    commit(world, 1, group_id="simple")
    stable_group(world, 1, group_id="classic")
    Consumer(world, "m", group_id="modern").join()
    return world


def test_all_groups_are_listed_with_type_and_state() -> None:
    assert listed(three_groups()) == {
        "simple": ("", "Empty", "classic"),
        "classic": ("consumer", "Stable", "classic"),
        "modern": ("consumer", "Stable", "consumer"),
    }


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"states_filter": ["stable"]}, {"classic", "modern"}),
        ({"states_filter": [" EMPTY "]}, {"simple"}),
        ({"states_filter": ["Strange"]}, set()),
        ({"types_filter": ["Consumer"]}, {"modern"}),
        ({"types_filter": ["share"]}, set()),
        ({"types_filter": ["classic"], "states_filter": ["Stable"]}, {"classic"}),
    ],
)
def test_groups_are_filtered_by_state_and_type(
    filters: dict[str, list[str]], found: set[str]
) -> None:
    assert listed(three_groups(), **filters).keys() == found


def test_a_stable_group_tells_what_its_members_said_and_got() -> None:
    world = World()
    (member,) = stable_group(world, 1)
    group = described(world)
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [
        (part.member_id, part.client_id, part.client_host, part.member_assignment)
        for part in group.members
    ] == [(member.member_id, "app", "/127.0.0.1", member.member_id.encode())]
    assert group.members[0].member_metadata == member.protocols[0][1]


def test_a_group_that_rebalances_tells_less() -> None:
    world = World()
    leader_of(stable_group(world, 2)).join()
    group = described(world)
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [part.member_metadata for part in group.members] == [b"", b""]


def test_a_group_that_is_not_there_is_dead() -> None:
    world = three_groups()
    assert described(world, "nobody", version=5) == DescribedGroup(
        group_id="nobody", group_state="Dead"
    )
    assert described(world, "nobody") == DescribedGroup(
        group_id="nobody",
        group_state="Dead",
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message="Group nobody not found.",
    )
    assert described(world, "modern").error_message == "Group modern is not a classic group."


def test_a_consumer_group_tells_targets_and_owners() -> None:
    world = World()
    first, second = Consumer(world, "m1", regex="x*"), Consumer(world, "m2")
    first.join()
    world.advance(1_000)
    second.join()
    first.send()
    group = describe(world)
    assert (group.group_state, group.group_epoch, group.assignor_name) == (
        "Reconciling",
        3,
        "uniform",
    )
    giving, waiting = group.members
    assert giving.assignment.topic_partitions[0].partitions == [0, 1, 2, 3]
    assert giving.target_assignment.topic_partitions[0].partitions == [0, 1]
    assert (giving.subscribed_topic_names, giving.subscribed_topic_regex) == (["a"], "x*")
    assert (giving.member_type, giving.client_host) == (1, "/127.0.0.1")
    assert waiting.assignment.topic_partitions == []
    assert waiting.target_assignment.topic_partitions[0].topic_name == "a"


def test_consumer_group_describe_knows_only_consumer_groups() -> None:
    world = World()
    missing = describe(world)
    assert (missing.error_code, missing.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g not found.",
    )
    ClassicClient(world).ask_to_join()
    assert describe(world).error_message == "Group g is not a consumer group."
