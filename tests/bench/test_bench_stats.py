"""Percentiles, ratios and limits of the bench."""

import pytest

from bench.stats import limit, percentile, ratio


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert [percentile(values, percent) for percent in (0, 50, 99, 100)] == [1, 50, 99, 100]


def test_a_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.5], 1) == percentile([7.5], 99) == 7.5


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_a_ratio_is_ottlas_multiple_of_kafkas() -> None:
    assert ratio(ottla=3.0, kafka=2.0) == 1.5
    assert ratio(ottla=1.0, kafka=0.0) == float("inf")


@pytest.mark.parametrize(
    ("client", "broker", "machine", "found"),
    [
        (0.97, 0.99, 2.0, "client"),
        (0.40, 1.20, 2.0, "broker"),
        (0.70, 0.60, 1.9, "machine"),
        (0.40, 0.50, 1.1, "waiting"),
    ],
)
def test_what_is_busy_throughout_is_the_limit(
    client: float, broker: float, machine: float, found: str
) -> None:
    assert limit(client, broker, machine, cores=2) == found
