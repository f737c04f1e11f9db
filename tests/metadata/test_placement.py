"""Replicas are spread over brokers and racks."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.image import BrokerImage, ConfigsImage, Image
from ottla.metadata.placement import spread, usable


def test_replicas_of_a_partition_are_in_different_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    for replicas in spread(racks, 30, 3, 0):
        assert {racks[broker] for broker in replicas} == {"a", "b", "c"}


def test_more_replicas_than_racks_are_shared_out_evenly() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    for replicas in spread(racks, 12, 4, 1):
        assert Counter(racks[broker] for broker in replicas) == {"a": 2, "b": 2}
    for replicas in spread(racks, 12, 3, 1):
        assert {racks[broker] for broker in replicas[:2]} == {"a", "b"}


def test_a_broker_without_a_rack_makes_racks_not_count() -> None:
    brokers = {1: "a", 2: "a", 3: None}
    assert spread(brokers, 4, 2, 0) == spread([1, 2, 3], 4, 2, 0)


def test_a_broker_that_is_about_to_stop_gets_nothing() -> None:
    image = Image()
    image.brokers = {
        1: BrokerImage(1, 1, [], "a"),
        2: BrokerImage(2, 2, [], "b", shutting_down=True),
    }
    assert usable(image) == {1: "a"}


def test_a_broker_that_is_cordoned_gets_nothing() -> None:
    image = Image()
    image.brokers = {
        1: BrokerImage(1, 1, [], None),
        2: BrokerImage(2, 2, [], None, cordoned=True),
        3: BrokerImage(3, 3, [], None),
        4: BrokerImage(4, 4, [], None, cordoned=True),
    }
    image.broker_configs = {
        3: ConfigsImage({"cordoned.log.dirs": "*"}, 0),
        4: ConfigsImage({"cordoned.log.dirs": ""}, 0),
    }
    assert list(usable(image)) == [1, 4]


@given(
    st.dictionaries(st.integers(0, 50), st.sampled_from("abcd"), min_size=1, max_size=9),
    st.integers(1, 40),
    st.integers(0, 20),
    st.data(),
)
def test_racks_fill_up_together_and_leaders_are_even(
    racks: dict[int, str | None], partitions: int, start: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    sizes = Counter(racks.values())
    assignment = spread(racks, partitions, factor, start)
    for replicas in assignment:
        assert len(set(replicas)) == factor
        counts = Counter(racks[broker] for broker in replicas)
        if factor <= len(sizes):
            assert max(counts.values()) == 1
        else:
            assert len(counts) == len(sizes)
    leaders = Counter(replicas[0] for replicas in assignment)
    assert max(leaders.values()) - min(leaders[broker] for broker in racks) <= 1
