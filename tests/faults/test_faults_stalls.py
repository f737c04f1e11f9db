"""Time in which the machine stood still."""

from pathlib import Path

from faults.stalls import Stalls


def test_only_what_lies_in_a_time_counts_for_it(tmp_path: Path) -> None:
    stalls = Stalls(tmp_path)
    stalls.note(1.0, 2.0)
    stalls.note(5.0, 5.5)
    assert stalls.within(0.0, 10.0) == 1.5
    assert stalls.within(1.5, 5.25) == 0.75
    assert stalls.within(2.5, 4.0) == 0.0
    assert stalls.total == 1.5


def test_a_little_late_is_no_stall(tmp_path: Path) -> None:
    stalls = Stalls(tmp_path)
    stalls.note(1.0, 1.05)
    assert stalls.total == 0.0


def test_cores_that_stand_still_together_count_once(tmp_path: Path) -> None:
    stalls = Stalls(tmp_path)
    stalls.note(1.5, 2.5)
    stalls.note(1.0, 2.0)
    assert stalls.within(0.0, 10.0) == 1.5
    assert stalls.total == 1.5
