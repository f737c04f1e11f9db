"""A value that is not there yet ends once, and says so to the right side."""

import pytest

from ottla.later import EndedTwice, Ending, Later


def waited(later: Later[int]) -> list[int]:
    """Values, as the side that waits gets them."""
    got: list[int] = []
    later.then(lambda: got.append(later.result()))
    return got


def test_the_side_that_waits_is_called_when_it_is_completed() -> None:
    later: Later[int] = Later()
    got = waited(later)
    assert got == []
    later.complete(1)
    assert got == [1]


def test_the_side_that_waits_is_called_at_once_where_it_is_complete() -> None:
    later: Later[int] = Later()
    later.complete(1)
    assert waited(later) == [1]


def test_a_failure_is_raised_by_result() -> None:
    later: Later[int] = Later()
    later.fail(ValueError("no"))
    assert later.done
    with pytest.raises(ValueError, match="no"):
        later.result()


def test_there_is_no_result_before_the_end() -> None:
    with pytest.raises(RuntimeError, match="not there yet"):
        Later[int]().result()


def test_to_end_it_twice_is_a_mistake() -> None:
    later: Later[int] = Later()
    later.complete(1)
    with pytest.raises(EndedTwice):
        later.complete(2)
    with pytest.raises(EndedTwice):
        later.fail(ValueError())
    assert later.result() == 1


def test_what_is_abandoned_stops_the_work_and_calls_nobody() -> None:
    later: Later[int] = Later()
    got, stopped = waited(later), []
    later.when_abandoned(lambda: stopped.append(True))
    later.abandon()
    later.complete(1)
    later.fail(ValueError())
    assert (got, stopped, later.ending) == ([], [True], Ending.ABANDONED)


def test_what_has_ended_is_not_abandoned() -> None:
    later: Later[int] = Later()
    stopped: list[bool] = []
    later.when_abandoned(lambda: stopped.append(True))
    later.complete(1)
    later.abandon()
    assert (stopped, later.result()) == ([], 1)


def test_a_function_completes_or_fails_it() -> None:
    good: Later[int] = Later()
    good.make(lambda: 3)
    assert good.result() == 3
    bad: Later[int] = Later()
    bad.make(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        bad.result()


def test_a_mapped_one_has_the_changed_value_or_the_same_error() -> None:
    later: Later[int] = Later()
    doubled = later.map(lambda value: 2 * value)
    later.complete(2)
    assert doubled.result() == 4
    failed: Later[int] = Later()
    mapped = failed.map(str)
    failed.fail(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        mapped.result()


def test_a_failing_change_fails_the_mapped_one() -> None:
    later: Later[int] = Later()
    mapped = later.map(lambda value: 1 // value)
    later.complete(0)
    with pytest.raises(ZeroDivisionError):
        mapped.result()


def test_to_abandon_a_mapped_one_stops_the_work() -> None:
    later: Later[int] = Later()
    stopped: list[bool] = []
    later.when_abandoned(lambda: stopped.append(True))
    later.map(str).abandon()
    assert stopped == [True]
    assert later.ending is Ending.ABANDONED


def test_otherwise_has_the_same_value_or_what_is_made_of_the_error() -> None:
    later: Later[str] = Later()
    same = later.otherwise(lambda problem: f"no: {problem}")
    later.complete("yes")
    assert same.result() == "yes"
    failed: Later[str] = Later()
    told = failed.otherwise(lambda problem: f"no: {problem}")
    failed.fail(ValueError("late"))
    assert told.result() == "no: late"


def test_a_failing_recovery_fails_the_following_one() -> None:
    def again(problem: BaseException) -> int:
        raise problem

    later: Later[int] = Later()
    following = later.otherwise(again)
    later.fail(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        following.result()
