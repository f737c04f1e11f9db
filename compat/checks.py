"""What a check of the compat run is, and how checks are registered and run.

A check is a function that gets a running broker and raises when something is not as it should be;
`@check(section)` on it is its only registration. What a check returns is shown beside its pass.
"""

import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from compat import java_runtime
from compat.process import BrokerProcess

TOOL_SECONDS = 120


class CheckError(Exception):
    """Something is not as it should be; the message says what."""


Run = Callable[[BrokerProcess], str | None]


@dataclass(frozen=True)
class Check:
    """One claim of the compat run."""

    section: str
    name: str
    run: Run


@dataclass(frozen=True)
class Result:
    """How a check ended."""

    check: Check
    passed: bool
    seconds: float
    note: str


CHECKS: list[Check] = []


def check(section: str) -> Callable[[Run], Run]:
    """Register a check under the name of its function."""

    def register(run: Run) -> Run:
        CHECKS.append(Check(section, run.__name__.replace("_", " "), run))
        return run

    return register


def try_check(wanted: Check, broker: BrokerProcess) -> Result:
    """Run one check; a failure is a result too. A traceback in the broker's log is a failure."""
    started = time.monotonic()
    before = len(broker.tracebacks())
    try:
        note = wanted.run(broker) or ""
        if new := broker.tracebacks()[before:]:
            raise CheckError(f"a traceback in the broker's log:\n{new[0]}")
        passed = True
    except Exception as problem:  # noqa: BLE001  # whatever it is, the other checks go on
        traceback.print_exc(file=sys.stderr)
        note, passed = f"{type(problem).__name__}: {problem}", False
    return Result(wanted, passed, time.monotonic() - started, note)


def new_topic(base: str) -> str:
    """A name that no other check uses."""
    return f"{base}-{uuid4().hex[:8]}"


def java(main_class: str, *arguments: str, given: str = "") -> str:
    """Run one of Kafka's tools to its end; what it printed."""
    done = subprocess.run(
        java_runtime.command(main_class, *arguments),
        input=given,
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise CheckError(f"{main_class} ended with {done.returncode}: {said}")
    return done.stdout


def expect(condition: bool, otherwise: str) -> None:
    """Raise CheckError unless a condition holds."""
    if not condition:
        raise CheckError(otherwise)
