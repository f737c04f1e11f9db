"""Goals and how rows show them."""

import pytest

from bench.rows import Goal, Row, figure


def row(kafka: list[float], ottla: list[float], goal: Goal, unit: str = "/s") -> Row:
    return Row("work", "rate", unit, kafka, ottla, goal)


@pytest.mark.parametrize(
    ("goal", "kafka", "ottla", "met"),
    [
        (Goal(ratio_at_least=1.2), 100, 120, True),
        (Goal(ratio_at_least=1.2), 100, 119, False),
        (Goal(ratio_at_most=0.2), 10, 2, True),
        (Goal(ratio_at_most=0.2), 10, 2.1, False),
        (Goal(ratio_at_most=0.2, below=0.7), 10, 0.69, True),
        (Goal(ratio_at_most=0.2, below=0.7), 10, 0.7, False),
        (Goal(at_least=0.8), 0.1, 0.8, True),
        (Goal(at_least=0.8), 0.1, 0.79, False),
    ],
)
def test_every_bound_of_a_goal_must_hold(goal: Goal, kafka: float, ottla: float, met: bool) -> None:
    assert row([kafka], [ottla], goal).met is met


def test_medians_are_compared_so_one_bad_round_does_not_decide() -> None:
    assert row([100, 100, 1], [150, 1, 150], Goal(ratio_at_least=1.5)).met is True


def test_a_row_without_a_goal_is_neither_met_nor_missed() -> None:
    assert row([1], [2], Goal()).met is None
    assert row([1], [2], Goal()).cells() == ("1/s", "2/s", "2.00 ×", "", "")


def test_a_row_without_samples_misses_its_goal() -> None:
    nothing = row([], [], Goal(below=1))
    assert nothing.met is False
    assert nothing.cells() == ("–", "–", "–", "< 1/s", "no")


def test_a_goal_shows_its_bounds_with_the_unit() -> None:
    assert Goal(ratio_at_most=0.2, below=0.7).text("s") == "≤ 0.2 ×, < 0.70 s"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1_234_567.8, "/s", "1,234,568/s"),
        (0.8049, "x", "0.80"),
        (0.1234, "µs", "0.12 µs"),
        (12.34, "ms", "12.3 ms"),
        (1234.5, "MB", "1,234 MB"),
    ],
)
def test_a_figure_has_as_many_digits_as_it_deserves(value: float, unit: str, text: str) -> None:
    assert figure(value, unit) == text
