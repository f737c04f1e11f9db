"""Whole runs: real brokers, clients and faults, from a seed."""

import re
import subprocess
import sys

FOUND_BY = {"counts-outside-the-isr": 7}
"""A mutation, and a seed that finds it."""


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", "simulate", *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_some_seeds_break_no_promise() -> None:
    done = simulate("--seeds", "6", "--first", "100", "--no-shrink")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 seeds, 0 failed" in done.stdout
    acknowledged = re.search(r"acknowledged records +(\d+)", done.stdout)
    assert acknowledged is not None
    assert int(acknowledged[1]) > 1000


def test_the_same_seed_gives_the_same_trace() -> None:
    once, again = (simulate("--seed", "105", "--trace") for _ in range(2))
    assert once.returncode == 0, once.stdout + once.stderr
    assert "faults:" in once.stdout
    assert once.stdout == again.stdout


def test_a_rule_that_is_not_kept_is_found() -> None:
    for name, seed in FOUND_BY.items():
        done = simulate("--mutation", name, "--seed", str(seed))
        assert done.returncode == 1, f"{name}: {done.stdout}{done.stderr}"
        assert "broken: at" in done.stdout, f"{name}: {done.stdout}{done.stderr}"


def test_wrong_arguments_get_one_line() -> None:
    assert "no mutation 'x'" in simulate("--mutation", "x").stderr
    assert "is not like 1,4-7" in simulate("--seed", "1", "--without", "a").stderr
