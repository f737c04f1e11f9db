from hypothesis import given
from hypothesis import strategies as st

from ottla.client import TopicPartition
from pyspark_ottla.source.ranges import OffsetRange, ranges, split

SIZES = st.lists(st.integers(1, 1000), max_size=8)
LIMITS = st.none() | st.integers(1, 500)


def whole(sizes: list[int]) -> list[OffsetRange]:
    return [
        OffsetRange("t", index, 7 * index, 7 * index + size) for index, size in enumerate(sizes)
    ]


@given(SIZES, st.none() | st.integers(1, 50), LIMITS)
def test_every_offset_is_in_exactly_one_part(
    sizes: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    parts = split(whole(sizes), min_partitions, max_records)
    found = [(part.partition, offset) for part in parts for offset in range(part.start, part.end)]
    assert found == [
        (item.partition, offset) for item in whole(sizes) for offset in range(item.start, item.end)
    ]
    assert all(part.size > 0 for part in parts)


@given(SIZES, st.none() | st.integers(1, 50), st.integers(1, 500))
def test_no_part_is_larger_than_asked(
    sizes: list[int], min_partitions: int | None, max_records: int
) -> None:
    parts = split(whole(sizes), min_partitions, max_records)
    assert all(part.size <= max_records for part in parts)


@given(SIZES)
def test_nothing_is_split_unless_asked(sizes: list[int]) -> None:
    assert split(whole(sizes), None, None) == whole(sizes)
    assert split(whole(sizes), len(sizes) or 1, None) == whole(sizes)


def test_the_largest_partitions_are_split_most() -> None:
    parts = split(whole([100, 1000, 10]), 12, None)
    assert [sum(part.partition == index for part in parts) for index in range(3)] == [1, 10, 1]


def test_partitions_without_anything_new_have_no_range() -> None:
    start = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 5}
    end = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}
    assert ranges(start, end) == [OffsetRange("t", 1, 5, 6)]
