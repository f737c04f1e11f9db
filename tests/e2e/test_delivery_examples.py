"""The examples of docs/delivery.md, run as a reader would run them, and counted."""

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.embedded import Broker
from testkit.waiting import stretched

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "delivery"
ORDERS = 10


class Counted(NamedTuple):
    """How many orders were processed how often."""

    never: int
    once: int
    twice: int


ALL_ONCE = Counted(0, ORDERS, 0)
ONE_LOST = Counted(1, ORDERS - 1, 0)
ONE_REPEATED = Counted(0, ORDERS - 1, 1)

CRASHES = {
    "at_most_once": {
        "before-commit": ALL_ONCE,
        "after-commit": ONE_LOST,
        "after-processing": ALL_ONCE,
    },
    "at_least_once": {
        "before-processing": ALL_ONCE,
        "after-processing": ONE_REPEATED,
        "after-commit": ALL_ONCE,
    },
    "exactly_once_kafka": {
        "before-send": ALL_ONCE,
        "after-send": ALL_ONCE,
        "after-offsets": ALL_ONCE,
        "after-commit": ALL_ONCE,
        "exception": ALL_ONCE,
    },
    "exactly_once_database": {
        "before-transaction": ALL_ONCE,
        "inside-transaction": ALL_ONCE,
        "after-transaction": ALL_ONCE,
    },
}
Outputs = dict[tuple[str, str], Future[str]]
POINTS = [(example, point) for example, points in CRASHES.items() for point in points]


def run(example: str, *flags: str) -> str:
    """What an example prints; it must end well."""
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{example}.py"), *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=stretched(120),
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def counted(output: str) -> Counted:
    found = dict(re.findall(r"^  (never|once|twice) +(\d+)", output, re.MULTILINE))
    return Counted(*(int(found[name]) for name in Counted._fields))


@pytest.fixture(scope="module")
def outputs() -> Iterator[Outputs]:
    """What the examples print with each crash. They mostly wait, so a few run at a time."""
    # Groups of one need not wait for others to join.
    with Broker(group_initial_rebalance_delay_ms=0) as broker, ThreadPoolExecutor(4) as pool:
        flags = ("--bootstrap", broker.bootstrap_servers, "--crash")
        yield {
            (example, point): pool.submit(run, example, *flags, point) for example, point in POINTS
        }


@pytest.mark.parametrize(("example", "point"), POINTS)
def test_a_crash_costs_what_the_page_says(outputs: Outputs, example: str, point: str) -> None:
    output = outputs[example, point].result()
    assert ("CRASH" in output) == (point != "exception")
    assert counted(output) == CRASHES[example][point]


@pytest.mark.parametrize(("point", "records"), [("after-send", 14), ("after-commit", 10)])
def test_what_is_aborted_is_in_the_log_and_not_among_the_committed(
    outputs: Outputs, point: str, records: int
) -> None:
    output = outputs["exactly_once_kafka", point].result()
    assert f"holds {records} records, 10 committed" in output


def test_an_example_needs_no_broker_of_yours_and_no_crash() -> None:
    output = run("at_least_once")
    assert "CRASH" not in output
    assert counted(output) == ALL_ONCE


@pytest.mark.parametrize(("example", "point"), POINTS)
def test_the_page_has_a_row_for_every_crash(example: str, point: str) -> None:
    page = (ROOT / "docs" / "delivery.md").read_text()
    _, section = page.split(f"\n`examples/delivery/{example}.py`\n")
    assert f"\n| `{point}` |" in section.split("\n## ")[0]
