import datetime

import pyarrow as pa  # type: ignore[import-untyped]  # ships no types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.audit.counts import Counts
from ottla.audit.events import Count, Event, Tier


def told(counts: Counts, topic: str = "t") -> Event:
    return counts.event(
        topic, tier=Tier.PRODUCER, name="n", instance="i", sequence=0, next=1, time=0
    )


def counted(counts: Counts, topic: str = "t") -> list[Count]:
    return told(counts, topic).counts


def column(milliseconds: list[int], unit: str = "us") -> pa.Array:
    factor = {"ms": 1, "us": 1000, "ns": 1_000_000}[unit]
    values = pa.array([each * factor for each in milliseconds], pa.int64())
    return values.cast(pa.timestamp(unit, "UTC"))


def test_a_record_belongs_to_the_window_its_timestamp_lies_in() -> None:
    counts = Counts(10)
    for timestamp in (0, 9, 10, 19, 20, -1):
        counts.add("t", 0, timestamp)
    assert (0, 0, 0, 2) in counted(counts)
    assert (0, 10, 10, 2) in counted(counts)
    assert (0, -10, 20, 1) in counted(counts)


def test_offsets_are_told_as_a_span_by_partition() -> None:
    counts = Counts(10)
    counts.add("t", 0, 5, offset=7)
    counts.add("t", 0, 5, 3, offset=2)
    counts.add("t", 1, 5)
    assert told(counts).spans == {0: (2, 8)}


def test_a_record_behind_a_later_window_may_be_seen_there() -> None:
    counts = Counts(10)
    for timestamp in (25, 5):
        counts.add("t", 0, timestamp)
    counts.add("t", 1, 5)
    assert counted(counts) == [(0, 0, 20, 1), (0, 20, 20, 1), (1, 0, 0, 1)]


def test_only_the_last_report_is_remembered_for_that() -> None:
    first = Counts(10)
    first.add("t", 0, 25)
    second = first.successor()
    assert not second
    second.add("t", 0, 5)
    assert counted(second) == [(0, 0, 20, 1)]
    third = second.successor()
    third.add("t", 0, 5)
    assert counted(third) == [(0, 0, 0, 1)]


@given(
    st.lists(st.lists(st.integers(-30, 200), max_size=8), max_size=5),
    st.sampled_from(["ms", "us", "ns"]),
)
def test_a_column_counts_as_its_records_one_by_one(columns: list[list[int]], unit: str) -> None:
    by_column, one_by_one = Counts(10), Counts(10)
    for timestamps in columns:
        by_column.add_timestamps("t", 0, column(timestamps, unit), 3, 9)
        for timestamp in timestamps:
            one_by_one.add("t", 0, timestamp)
    assert counted(by_column) == counted(one_by_one)
    assert told(by_column).spans == ({0: (3, 9)} if columns else {})


def test_a_column_of_dates_is_counted_in_milliseconds() -> None:
    counts = Counts(60_000)
    moment = datetime.datetime(1970, 1, 1, 0, 1, 30, tzinfo=datetime.UTC)
    counts.add_timestamps("t", 0, pa.array([moment], pa.timestamp("us", "UTC")), 0, 1)
    assert counted(counts) == [(0, 60_000, 60_000, 1)]


def test_counts_of_other_processes_are_added() -> None:
    one, other = Counts(10), Counts(10)
    one.add("t", 0, 5, 2, offset=0)
    other.add("t", 0, 5, 3, offset=2)
    other.add("u", 1, 15)
    one.merge(other.state())
    assert one.topics == ["t", "u"]
    assert counted(one) == [(0, 0, 0, 5)]
    assert told(one).spans == {0: (0, 5)}
    assert counted(one, "u") == [(1, 10, 10, 1)]


def test_a_topic_of_which_nothing_was_counted_can_be_told_too() -> None:
    assert counted(Counts()) == []


def test_a_window_without_length_is_refused() -> None:
    with pytest.raises(ValueError, match="too short"):
        Counts(0)
