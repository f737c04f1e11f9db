"""How gaps are counted."""

import pytest

from faults.availability import histogram, longest_gap, quantile


def test_a_gap_counts_from_the_fault_on() -> None:
    assert longest_gap([0.0, 1.0, 6.0, 7.0], began=2.0, ended=7.5) == 4.0


def test_the_longest_gap_counts_wherever_it_is() -> None:
    assert longest_gap([1.0, 2.0, 3.0, 8.0, 9.0], began=1.5, ended=9.0) == 5.0


def test_a_gap_that_outlasts_the_fault_counts_whole() -> None:
    assert longest_gap([1.0, 9.0], began=2.0, ended=4.0) == 7.0


def test_a_gap_without_an_end_counts_to_the_end() -> None:
    assert longest_gap([1.0], began=2.0, ended=12.0) == 10.0


def test_without_an_acknowledgement_the_gap_is_the_whole_time() -> None:
    assert longest_gap([], began=2.0, ended=5.0) == 3.0


@pytest.mark.parametrize(("share", "value"), [(0.5, 3.0), (0.9, 5.0), (0.0, 1.0), (1.0, 5.0)])
def test_a_quantile_is_one_of_the_values(share: float, value: float) -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0, 5.0], share) == value


def test_a_histogram_has_a_line_for_each_bucket_in_use_and_between() -> None:
    lines = histogram([0.07, 0.08, 0.4])
    assert [line.split()[:4] for line in lines] == [
        ["<", "0.1", "s", "2"],
        ["<", "0.25", "s", "0"],
        ["<", "0.5", "s", "1"],
    ]
    assert histogram([]) == []


def test_a_gap_counts_for_a_fault_until_the_next_one_begins() -> None:
    assert longest_gap([1.0, 9.0], began=2.0, ended=4.0, following=5.5) == 3.5
    assert longest_gap([1.0, 5.0, 9.0], began=2.0, ended=4.0, following=5.5) == 3.0
