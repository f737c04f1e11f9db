"""Time in which the machine stood still."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.injector import Injected
from faults.run import BOUND_SECONDS, allowed_seconds
from faults.stalls import Stalls, waited
from testkit.waiting import until
from testkit.zookeeper_servers import Ensemble


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


def test_a_machine_that_stands_still_behind_a_fault_is_not_blamed_on_it(tmp_path: Path) -> None:
    """A gap that is open when all are in sync again counts until the next fault."""
    stalls = Stalls(tmp_path)
    stalls.note(4.0, 7.0)
    stalls.note(9.0, 10.0)
    step = Injected("leader: cut", began=1.0, ended=5.0, is_bounded=True)
    assert allowed_seconds(step, 8.0, stalls) == BOUND_SECONDS + 3.0


def test_a_process_that_is_ready_and_does_not_run_has_waited() -> None:
    core = str(min(os.sched_getaffinity(0)))
    spin = ["taskset", "--cpu-list", core, sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(spin) as one, subprocess.Popen(spin) as other:
        try:
            until(
                lambda: all(
                    max(waited([each.pid]).values(), default=0.0) > 0.2 for each in (one, other)
                ),
                "each has waited for the other",
            )
        finally:
            one.kill()
            other.kill()
    assert not waited([one.pid])


def test_what_a_broker_waited_is_a_stall(tmp_path: Path) -> None:
    core = str(min(os.sched_getaffinity(0)))
    spin = ["taskset", "--cpu-list", core, sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(spin) as one, subprocess.Popen(spin) as other:
        stalls = Stalls(tmp_path, lambda: [one.pid, other.pid])
        stalls.start()
        try:
            until(lambda: stalls.total > 0.2, "their waiting is noted")
        finally:
            stalls.stop()
            one.kill()
            other.kill()


def test_a_server_that_was_killed_is_left_out(tmp_path: Path) -> None:
    """Who looks at all processes goes on while one of them is dead."""
    (server,) = Ensemble(tmp_path).servers
    with pytest.raises(ProcessLookupError):
        server.process_id  # noqa: B018 -- it is what raises
