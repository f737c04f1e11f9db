from hypothesis import given
from hypothesis import strategies as st

from ottla.client import TopicPartition
from pyspark_ottla.source.limits import Patience, limited, waiting

SIZES = st.lists(st.integers(0, 1000), min_size=1, max_size=8)


def places(sizes: list[int]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    start = {TopicPartition("t", index): 10 * index for index in range(len(sizes))}
    end = {partition: start[partition] + sizes[partition.partition] for partition in start}
    return start, end


@given(SIZES, st.integers(1, 3000))
def test_a_limit_is_kept_but_for_one_offset_of_each_partition(sizes: list[int], most: int) -> None:
    start, latest = places(sizes)
    end = limited(start, latest, most)
    assert waiting(start, end) <= max(most, sum(size > 0 for size in sizes))
    assert all(start[item] <= end[item] <= latest[item] for item in latest)
    assert waiting(start, latest) <= most or waiting(start, end) > 0


@given(SIZES, st.integers(1, 100))
def test_a_limited_stream_reaches_the_end(sizes: list[int], most: int) -> None:
    start, latest = places(sizes)
    for _ in range(sum(sizes) + 1):
        start = limited(start, latest, most)
    assert start == latest


def test_no_partition_starves() -> None:
    start, latest = places([1000, 1])
    end = limited(start, latest, 10)
    assert [end[item] - start[item] for item in end] == [9, 1]


def test_a_batch_waits_for_enough_offsets_but_not_for_ever() -> None:
    patience = Patience(10, longest_delay=60)
    assert not patience.holds_back(3, now=1000)
    assert patience.holds_back(9, now=1010)
    assert not patience.holds_back(10, now=1020)
    assert patience.holds_back(9, now=1079)
    assert not patience.holds_back(9, now=1080)


def test_a_batch_of_nothing_never_runs() -> None:
    patience = Patience(10, longest_delay=60)
    assert patience.holds_back(0, now=1000)
    assert not patience.holds_back(1, now=1001)
