"""What a check of the compat run is, and how checks are registered and run.

A check is a function that gets a running broker and raises when something is not as it should be;
`@check(section)` on it is its only registration. What a check returns is shown beside its pass.
"""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from uuid import uuid4

from ottla.wire.apis import ApiKey
from testkit import java_runtime
from testkit.process import BrokerProcess
from testkit.raw import served

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
    needs: ApiKey | None = None
    """An API without which the tool cannot work at all."""


class Ending(Enum):
    """How a check can end."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_SERVED = "not served"
    """The broker does not offer what the tool needs, and says so in ApiVersions."""


@dataclass(frozen=True)
class Result:
    """How a check ended."""

    check: Check
    ending: Ending
    seconds: float
    note: str


CHECKS: list[Check] = []


def check(section: str, needs: ApiKey | None = None) -> Callable[[Run], Run]:
    """Register a check under the name of its function."""

    def register(run: Run) -> Run:
        CHECKS.append(Check(section, run.__name__.replace("_", " "), run, needs))
        return run

    return register


def try_check(wanted: Check, broker: BrokerProcess) -> Result:
    """Run one check; a failure is a result too. A traceback in the broker's log is a failure."""
    if wanted.needs is not None and wanted.needs not in served(broker.bootstrap):
        return Result(wanted, Ending.NOT_SERVED, 0.0, f"needs {wanted.needs.name}")
    started = time.monotonic()
    before = len(broker.tracebacks())
    try:
        note = wanted.run(broker) or ""
        if new := broker.tracebacks()[before:]:
            raise CheckError(f"a traceback in the broker's log:\n{new[0]}")
        ending = Ending.PASSED
    except Exception as problem:  # noqa: BLE001  # whatever it is, the other checks go on
        note, ending = f"{type(problem).__name__}: {problem}", Ending.FAILED
    return Result(wanted, ending, time.monotonic() - started, note)


def new_topic(base: str) -> str:
    """A name that no other check uses."""
    return f"{base}-{uuid4().hex[:8]}"


def java(main_class: str, *arguments: str, given: str = "") -> str:
    """Run one of Kafka's tools to its end; what it printed."""
    return java_output(main_class, *arguments, given=given)[0]


def java_output(
    main_class: str, *arguments: str, given: str = "", may_fail: bool = False
) -> tuple[str, str]:
    """The same, with what it printed on standard error."""
    done = subprocess.run(
        java_runtime.command(main_class, *arguments),
        input=given,
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS,
        check=False,
    )
    if done.returncode and not may_fail:
        said = (done.stderr or done.stdout).strip()
        raise CheckError(f"{main_class} ended with {done.returncode}: {said}")
    return done.stdout, done.stderr


def expect(condition: bool, otherwise: str) -> None:
    """Raise CheckError unless a condition holds."""
    if not condition:
        raise CheckError(otherwise)
