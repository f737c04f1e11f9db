"""Reading /proc: CPU time and memory of process trees."""

import os
import subprocess
import sys

from bench.machine import stolen
from testkit import proc
from testkit.proc import Memory, Stat, parse_busy, parse_memory, parse_stat, parse_stolen, tree

STAT = "42 (a ) b (c) S 7 42 42 0 -1 4194560 900 30 0 0 11 22 33 44 20 0 5 0 100 1000 200"


def test_a_command_with_brackets_does_not_shift_the_fields() -> None:
    assert parse_stat(STAT) == Stat(7, 11, 22, 33, 44)
    assert parse_stat(STAT).ticks == 110


def test_memory_is_read_in_bytes() -> None:
    status = "Name:\tx\nVmHWM:\t     200 kB\nVmRSS:\t     100 kB\nThreads:\t1\n"
    assert parse_memory(status) == Memory(resident=102_400, peak=204_800)


def test_a_process_without_memory_counts_as_nothing() -> None:
    assert parse_memory("Name:\tzombie\nState:\tZ\n") == Memory(0, 0)


def test_idle_and_waiting_time_is_not_busy() -> None:
    assert parse_busy("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 9 9 9\n") == 63


def test_what_the_host_took_is_known() -> None:
    assert parse_stolen("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 9 9 9\n") == 32
    assert stolen(3.0, 20.0) == "15% of the CPU time"
    assert stolen(0.0, 0.0) == "0% of the CPU time"


def test_a_tree_holds_grandchildren_and_nobody_else() -> None:
    parents = {1: 0, 10: 1, 11: 10, 12: 11, 20: 1}
    stats = {pid: Stat(parent, 0, 0, 0, 0) for pid, parent in parents.items()}
    assert tree(10, stats) == [10, 11, 12]
    assert tree(99, stats) == []


def test_a_child_counts_while_it_lives_and_after_it_was_waited_for() -> None:
    before = proc.cpu_seconds(os.getpid())
    # It works for half a second of its own CPU time and then waits to be told to end.
    work = (
        "import sys, time\n"
        "while time.process_time() < 0.5: pass\n"
        "print('worked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"worked\n"
        assert proc.cpu_seconds(os.getpid()) - before >= 0.45
        both = proc.memory(os.getpid())
        assert both.resident > proc.memory(child.pid).resident > 0
    assert proc.cpu_seconds(os.getpid()) - before >= 0.45


def test_a_process_that_is_gone_has_used_nothing_more() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert proc.cpu_seconds(child.pid) == 0
    assert proc.memory(child.pid) == Memory(0, 0)


def test_the_machine_is_at_least_as_busy_as_this_process() -> None:
    mine = sum(os.times()[:2])
    assert proc.busy_seconds() > mine - 0.1  # counted in ticks
