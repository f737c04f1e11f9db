"""Lag of groups in seconds, and quantiles of recent latencies: the arithmetic."""

import math

import pytest

from ottla.broker.metrics.counters import LATENCY_BUCKETS, Histogram, ReplicaMetrics
from ottla.broker.metrics.group_lag import LOOKS, CommittedPosition, EndHistory, lag_of
from ottla.broker.metrics.recent import COPIES, RecentCounts, quantile
from ottla.wire.message import NO_UUID

T = ("t", 0)


def history(*looks: tuple[float, int]) -> EndHistory:
    made = EndHistory()
    for now, end in looks:
        made.saw({T: end}, now)
    return made


@pytest.mark.parametrize(
    ("offset", "seconds"),
    [
        (200, 0.0),  # at the end
        (300, 0.0),  # committed past the end: an older end was seen
        (150, 15.0),  # half way between the looks at 10 and 20
        (100, 20.0),
        (50, 25.0),
        (0, 30.0),
    ],
)
def test_lag_is_the_age_of_the_first_message_that_is_not_committed(
    offset: int, seconds: float
) -> None:
    looks = history((0.0, 0), (10.0, 100), (20.0, 200))
    assert looks.seconds_behind(T, offset, 30.0) == pytest.approx(seconds)


def test_what_was_behind_before_the_first_look_is_at_least_so_old() -> None:
    assert history((10.0, 100)).seconds_behind(T, 5, 30.0) == 20.0


def test_a_partition_at_rest_needs_no_more_memory_and_keeps_its_age() -> None:
    looks = history((0.0, 0), *((float(n), 7) for n in range(1, 10 * LOOKS)))
    assert len(looks._looks[T]) == 3
    assert looks.seconds_behind(T, 6, 5000.0) == pytest.approx(5000 - 6 / 7)


def test_a_partition_that_ends_earlier_than_before_begins_again() -> None:
    assert history((0.0, 50), (10.0, 3)).seconds_behind(T, 1, 20.0) == 10.0


def test_partitions_that_no_group_reads_are_forgotten() -> None:
    looks = history((0.0, 50))
    looks.saw({("u", 0): 1}, 1.0)
    assert list(looks._looks) == [("u", 0)]


def test_lag_in_messages_is_never_negative() -> None:
    assert lag_of(CommittedPosition("g", "t", 0, 9), 7, EndHistory(), 0.0).messages == 0
    assert lag_of(CommittedPosition("g", "t", 0, 3), 7, EndHistory(), 0.0).messages == 4


def test_quantiles_lie_in_the_bucket_of_their_rank() -> None:
    histogram = Histogram()
    for seconds in [0.003] * 98 + [0.2] * 2:
        histogram.observe(seconds)
    assert 0.0025 < quantile(histogram.counts, 0.5) <= 0.005
    assert 0.1 < quantile(histogram.counts, 0.99) <= 0.25
    histogram.observe(1000.0)
    assert quantile(histogram.counts, 0.999) == LATENCY_BUCKETS[-1]
    assert math.isnan(quantile(Histogram().counts, 0.5))


def test_old_latencies_leave_the_quantiles() -> None:
    histogram, recent = Histogram(), RecentCounts()
    histogram.observe(5.0)
    for _ in range(COPIES):
        recent.roll({1: histogram})
    histogram.observe(0.001)
    assert sum(recent.since(1, histogram)) == 1
    assert quantile(recent.since(1, histogram), 0.5) <= 0.001
    assert sum(recent.since(2, histogram)) == 2, "an API that was not used a minute ago"


def test_changes_of_the_isr_and_unclean_elections_are_counted_once() -> None:
    metrics = ReplicaMetrics()
    metrics.isr_changed(3, 2)
    metrics.isr_changed(2, 3)
    metrics.isr_changed(3, 1)
    assert (metrics.isr_shrinks, metrics.isr_expands) == (2, 1)
    metrics.elected(NO_UUID, 0, 4, here=False)  # known from the start
    for epoch in (4, 6, 6, 9):
        metrics.elected(NO_UUID, 0, epoch, here=True)
    metrics.elected(NO_UUID, 1, -1, here=True)
    assert metrics.unclean_elections == 2
