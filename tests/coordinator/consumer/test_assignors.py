"""The server-side assignors: no partition is lost, none goes astray, and loads are even."""

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from uuid import UUID

import pytest

from ottla.coordinator.consumer.assignment import Assignment, Assignor, MemberSpec
from ottla.coordinator.consumer.assignors import ASSIGNORS
from ottla.coordinator.consumer.range_assignor import assign_ranges
from ottla.coordinator.consumer.uniform_assignor import assign_uniformly

TOPICS = [UUID(int=number) for number in range(1, 6)]
A, B, C, *_ = TOPICS

Members = dict[str, MemberSpec]


def spec(*topics: UUID, instance: str | None = None, had: Assignment | None = None) -> MemberSpec:
    return MemberSpec(instance, frozenset(topics), had or {})


def again(members: Members, result: Mapping[str, Assignment]) -> Members:
    """The members with what they were given last."""
    return {name: member._replace(target=result.get(name, {})) for name, member in members.items()}


def size(assignment: Assignment) -> int:
    return sum(len(numbers) for numbers in assignment.values())


def moved(before: Mapping[str, Assignment], after: Mapping[str, Assignment]) -> int:
    """How many partitions left a member that is still there."""
    return sum(
        len(numbers - after[name].get(topic, frozenset()))
        for name, assignment in before.items()
        if name in after
        for topic, numbers in assignment.items()
    )


def test_ranges_are_cut_by_topic_and_the_first_get_one_more() -> None:
    members = {"m2": spec(A, B), "m1": spec(A, B), "m3": spec(B)}
    assert assign_ranges(members, {A: 3, B: 4}) == {
        "m1": {A: frozenset({0, 1}), B: frozenset({0, 1})},
        "m2": {A: frozenset({2}), B: frozenset({2})},
        "m3": {B: frozenset({3})},
    }


def test_ranges_of_topics_with_as_many_partitions_are_the_same() -> None:
    members = {name: spec(A, B) for name in ("x", "y", "z")}
    for assignment in assign_ranges(members, {A: 7, B: 7}).values():
        assert assignment[A] == assignment[B]


def test_static_members_come_first_by_instance_id_whatever_their_member_id() -> None:
    members = {"a": spec(A), "z": spec(A, instance="one"), "y": spec(A, instance="two")}
    first = assign_ranges(members, {A: 3})
    assert first == {"z": {A: frozenset({0})}, "y": {A: frozenset({1})}, "a": {A: frozenset({2})}}
    members["b"] = members.pop("z")
    assert assign_ranges(members, {A: 3})["b"] == first["z"]


def test_uniform_shares_all_partitions_of_all_topics_evenly() -> None:
    result = assign_uniformly({name: spec(A, B) for name in "xyz"}, {A: 4, B: 4})
    assert sorted(size(assignment) for assignment in result.values()) == [2, 3, 3]


def test_a_member_that_comes_takes_only_what_balance_asks_for() -> None:
    members = {name: spec(A) for name in "xyz"}
    before = assign_uniformly(members, {A: 12})
    after = assign_uniformly({**again(members, before), "new": spec(A)}, {A: 12})
    assert [size(assignment) for assignment in after.values()] == [3, 3, 3, 3]
    assert moved(before, after) == 3


def test_a_member_that_goes_costs_the_others_nothing() -> None:
    members = {name: spec(A) for name in "wxyz"}
    before = assign_uniformly(members, {A: 10})
    staying = again(members, before)
    del staying["w"]
    assert moved(before, assign_uniformly(staying, {A: 10})) == 0


def test_members_that_had_one_more_keep_it() -> None:
    members = {"x": spec(A, had={A: frozenset({0})}), "y": spec(A, had={A: frozenset({1, 2})})}
    assert assign_uniformly(members, {A: 3})["y"] == {A: frozenset({1, 2})}


def test_new_partitions_move_nothing() -> None:
    members = {name: spec(A, B) for name in "xyz"}
    before = assign_uniformly(members, {A: 6, B: 3})
    assert moved(before, assign_uniformly(again(members, before), {A: 12, B: 3})) == 0


def test_different_subscriptions_are_balanced_as_far_as_they_allow() -> None:
    members = {"x": spec(A), "y": spec(A, B), "z": spec(C)}
    result = assign_uniformly(members, {A: 4, B: 2, C: 1})
    assert [size(assignment) for assignment in result.values()] == [3, 3, 1]


def test_what_a_member_is_not_subscribed_to_any_longer_goes_to_another() -> None:
    members = {"x": spec(A, had={A: frozenset({0}), B: frozenset({0})}), "y": spec(A, B)}
    result = assign_uniformly(members, {A: 1, B: 1})
    assert result["y"] == {B: frozenset({0})}


def test_a_partition_that_two_had_goes_to_one() -> None:
    had = {A: frozenset({0, 1})}
    result = assign_uniformly({"x": spec(A, had=had), "y": spec(A, had=had)}, {A: 2})
    assert sorted(size(assignment) for assignment in result.values()) == [1, 1]


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS.keys())
def test_members_without_topics_get_nothing(assignor: Assignor) -> None:
    assert assignor({"x": spec()}, {}) == {"x": {}}
    assert assignor({}, {}) == {}


def some_groups(count: int) -> Iterator[tuple[Members, dict[UUID, int]]]:
    """Groups of all sorts, always the same ones."""
    random = Random(848)
    for _ in range(count):
        partitions = {topic: random.randrange(10) for topic in TOPICS}
        everything = random.sample(TOPICS, random.randrange(6))
        members = {}
        for number in range(random.randint(1, 7)):
            topics = everything
            if random.random() < 0.4:
                topics = random.sample(TOPICS, random.randrange(6))
            had = {
                topic: frozenset(random.sample(range(12), random.randrange(6)))
                for topic in random.sample(TOPICS, random.randrange(6))
            }
            instance = random.choice([None, f"i{number}"])
            members[f"m{number}"] = MemberSpec(instance, frozenset(topics), had)
        yield members, partitions


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS.keys())
def test_each_partition_goes_to_exactly_one_of_its_subscribers(assignor: Assignor) -> None:
    for members, partitions in some_groups(1_000):
        result = assignor(members, partitions)
        assert result.keys() == members.keys()
        owners: Counter[tuple[UUID, int]] = Counter()
        for member_id, assignment in result.items():
            assert assignment.keys() <= members[member_id].topics
            assert all(assignment.values())
            owners.update((topic, number) for topic, part in assignment.items() for number in part)
        subscribed = frozenset[UUID]().union(*(member.topics for member in members.values()))
        assert owners == Counter(
            (topic, number) for topic in subscribed for number in range(partitions[topic])
        )
        assert assignor(members, partitions) == result


def test_no_move_to_a_subscriber_would_make_uniform_more_even() -> None:
    for members, partitions in some_groups(1_000):
        result = assign_uniformly(members, partitions)
        for giver, assignment in result.items():
            for topic in assignment:
                for taker, member in members.items():
                    if topic in member.topics:
                        assert size(assignment) - size(result[taker]) <= 1, (giver, taker)


def test_uniform_done_twice_moves_nothing() -> None:
    for members, partitions in some_groups(1_000):
        before = assign_uniformly(members, partitions)
        assert moved(before, assign_uniformly(again(members, before), partitions)) == 0
