"""Patience that a loaded machine stretches, and that ends all the same."""

import asyncio
import os
import time
from collections.abc import Callable

import pytest

from testkit.waiting import MOST_STRETCH, Deadline, stretched, until, until_on_loop

Machine = Callable[[float], None]
LONG_SECONDS = 3600.0
SHORT_SECONDS = 0.01


@pytest.fixture
def processes_for_each_core(monkeypatch: pytest.MonkeyPatch) -> Machine:
    def wanting(processes: float) -> None:
        load = processes * (os.cpu_count() or 1)
        monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))

    return wanting


@pytest.mark.parametrize(
    ("processes", "times"), [(0.0, 1.0), (1.0, 1.0), (2.5, 2.5), (100.0, MOST_STRETCH)]
)
def test_a_wait_is_as_long_as_the_machine_is_slow(
    processes_for_each_core: Machine, processes: float, times: float
) -> None:
    processes_for_each_core(processes)
    assert stretched(30.0) == pytest.approx(30.0 * times)


def test_the_load_at_the_end_of_a_wait_counts(
    processes_for_each_core: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((0.0, 11.0, 11.0, 21.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    processes_for_each_core(1.0)
    deadline = Deadline(10.0)
    assert deadline.is_over
    processes_for_each_core(2.0)
    verdicts = [deadline.is_over, deadline.is_over]
    assert verdicts == [False, True]


@pytest.mark.parametrize("processes", [0.0, 100.0])
def test_what_never_comes_true_fails(processes_for_each_core: Machine, processes: float) -> None:
    processes_for_each_core(processes)
    with pytest.raises(TimeoutError, match="the moon is made of cheese"):
        until(lambda: False, "the moon is made of cheese", SHORT_SECONDS)
    with pytest.raises(TimeoutError):
        asyncio.run(until_on_loop(lambda: False, SHORT_SECONDS))


def test_what_a_look_raises_ends_the_wait() -> None:
    def look() -> bool:
        raise ValueError("it will never be")

    with pytest.raises(ValueError, match="never"):
        until(look, "something", LONG_SECONDS)
