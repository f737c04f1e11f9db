"""The judge finds what is wrong: each claim is shown something that breaks it."""

from collections import Counter

import pytest

from faults.groups import Group
from faults.transactors import Outcome, Transactor
from faults.verdict import check_group, check_keys, check_probe, check_transactions

WRITTEN = Counter({"a": 3})


def found(*values: str) -> dict[int, list[tuple[int, str]]]:
    return {0: list(enumerate(values))}


def test_each_number_once_and_in_order_is_right() -> None:
    assert not list(check_keys("t", found("a:0", "b:0", "a:1", "a:2"), WRITTEN + Counter(b=1)))


@pytest.mark.parametrize(
    "values",
    [
        ("a:0", "a:1"),  # lost at the end
        ("a:0", "a:2"),  # lost between
        ("a:0", "a:1", "a:1", "a:2"),  # doubled
        ("a:1", "a:0", "a:2"),  # out of order
        ("a:0", "a:1", "a:2", "a:3"),  # too many
        ("a:0", "a:1", "a:2", "b:0"),  # nobody's
    ],
)
def test_what_is_lost_doubled_or_moved_is_found(values: tuple[str, ...]) -> None:
    assert list(check_keys("t", found(*values), WRITTEN))


def transactor(outcome: Outcome) -> Transactor:
    one = Transactor("127.0.0.1:1", "t", 1, "x", seed=0)
    one.outcomes.append((outcome, 2))
    return one


@pytest.mark.parametrize(
    ("outcome", "values", "is_right"),
    [
        (Outcome.COMMITTED, ["x:0:0", "x:0:1"], True),
        (Outcome.COMMITTED, ["x:0:0"], False),
        (Outcome.COMMITTED, ["x:0:0", "x:0:1", "x:0:1"], False),
        (Outcome.ABORTED, [], True),
        (Outcome.ABORTED, ["x:0:0"], False),
        (Outcome.UNKNOWN, [], True),
        (Outcome.UNKNOWN, ["x:0:0", "x:0:1"], True),
        (Outcome.UNKNOWN, ["x:0:0"], False),
        (Outcome.ABORTED, ["x:1:0"], False),
    ],
)
def test_a_transaction_is_there_whole_or_not_at_all(
    outcome: Outcome, values: list[str], is_right: bool
) -> None:
    records = [list(enumerate(values))]
    assert bool(list(check_transactions(records, [transactor(outcome)]))) is not is_right


def test_a_probe_misses_what_was_acknowledged_and_is_not_there() -> None:
    assert not list(check_probe(0, [(0, "0"), (1, "1"), (2, "2")], [0, 2]))
    assert list(check_probe(0, [(0, "0")], [0, 1]))
    assert list(check_probe(0, [(0, "1"), (1, "0")], [0, 1]))


def test_a_group_misses_what_nobody_was_given() -> None:
    group = Group("g")
    group.deliver(("t", 0), 0)
    group.deliver(("t", 0), 2)
    assert not list(check_group(group, {("t", 0): [0, 2]}, seconds=0))
    assert list(check_group(group, {("t", 0): [0, 1, 2]}, seconds=0))
    assert list(check_group(group, {("t", 0): [0, 2, 3]}, seconds=0))
