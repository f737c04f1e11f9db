"""A clock that is stepped under a running process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.clocks import Clock, build_library

PROGRAM = """
import sys, time
for _ in sys.stdin:
    print(time.time(), time.monotonic(), flush=True)
"""


def test_a_step_moves_the_wall_clock_of_one_process_and_no_other_clock(tmp_path: Path) -> None:
    library = build_library(tmp_path)
    if library is None:
        pytest.skip("no C compiler")
    clock = Clock(library, tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | clock.environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        seen = []
        for step in (0.0, -1800.0, 30.5, 0.0):
            clock.step(step)
            process.stdin.write(b"\n")
            process.stdin.flush()
            seen.append([float(word) for word in process.stdout.readline().split()])
        process.stdin.close()
    began_wall, began_monotonic = seen[0]
    drifts = [(wall - began_wall) - (at - began_monotonic) for wall, at in seen]
    assert [round(drift, 1) for drift in drifts] == [0.0, -1800.0, 30.5, 0.0]
