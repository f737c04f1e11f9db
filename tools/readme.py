"""`make readme`: follow the README as a new user would, in a clean environment.

Rules kept here:
1. Every command and every snippet of the README is a step; what is not run is named in NOT_RUN with
   the reason. Steps run in the README's order, and each has to end with status 0.
2. The environment has what the README says to install, and nothing else. It is not activated: the
   commands are found by links, and Spark's `python3` is the system's. The folder is not the
   checkout; only what installs from the checkout runs there, and `examples/` means the checkout's.
3. `ottla serve` runs until the next one starts. Ports are free ones instead of 9092 and 9308.
4. What a step has to print is in PRINTS: a README that runs and shows nothing is no use either.
"""

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

ROOT: Final = Path(__file__).parent.parent
STARTED: Final = ("broker started", "all workers started")
SECONDS_TO_START: Final = 60.0
SECONDS_FOR_A_STEP: Final = 900.0
COMMANDS: Final = ("ottla", "pip", "pytest", "python")
INSTALLS: Final = re.compile(r"python3 -m venv|pip install")
SERVES: Final = re.compile(r"(OTTLA_\w+=\S+ )*ottla serve")
NOT_RUN: Final = {
    "make demo": "has a test of its own",
    "make test": "runs this file's fast steps",
    "ottla serve --id 1": "needs ZooKeeper on three other machines",
}
PRINTS: Final = {
    "ottla.Broker()": "127.0.0.1:",
    "ottla consume clicks --from": '"value":"cart"',
    "ottla consume clicks visits": "visits ada=home",
    "ottla topic describe clicks": "end offset",
    "ottla topic trim visits": "trimmed topic visits, partition 0",
    "ottla log dump": "no problems found",
    "ottla_broker": "1 passed",
    "SparkSession": "HOME",
    "ottla pipeline check": "no mistakes found",
    "ottla pipeline run": "by_type",
    "ottla consume clicks.buy": '"type":"buy"',
    "ottla audit clicks": "nothing is missing",
    "ottla cluster describe": "in sync",
    "ottla cluster move": "already has this assignment",
    "ottla config describe topic": "3600000",
}
"""By what a step has in it."""

_BLOCK: Final = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_INLINE: Final = re.compile(r"`((?:ottla|pip install) [^`]+)`")
_PLACEHOLDER: Final = re.compile(r" [A-Z]{3,}\b")


class Step(NamedTuple):
    """A command, or a snippet of Python."""

    line: int
    section: str
    language: str
    text: str

    @property
    def is_run(self) -> bool:
        """Whether it is run at all."""
        return not self.text.startswith(tuple(NOT_RUN))

    @property
    def installs(self) -> bool:
        """Whether it needs a clean environment."""
        return INSTALLS.match(self.text) is not None

    @property
    def expected(self) -> str:
        """What it has to print."""
        return next((text for part, text in PRINTS.items() if part in self.text), "")


def steps(readme: str) -> list[Step]:
    """All steps, in order: the lines of shell blocks, Python blocks, commands in the text."""
    found: list[tuple[int, str, str]] = []
    for block in _BLOCK.finditer(readme):
        if block[1] == "python":
            found.append((block.start(2), "python", block[2]))
        elif block[1] == "sh":
            at = block.start(2)
            for line in block[2].splitlines(keepends=True):
                found.append((at, "sh", line.strip()))
                at += len(line)
    prose = _BLOCK.sub(lambda block: " " * len(block[0]), readme)
    found += (
        (inline.start(1), "sh", inline[1])
        for inline in _INLINE.finditer(prose)
        if not _PLACEHOLDER.search(inline[1])
    )
    return [
        Step(
            readme.count("\n", 0, at) + 1,
            (re.findall(r"^## (.+)$", readme[:at], re.MULTILINE) or [""])[-1],
            language,
            text,
        )
        for at, language, text in sorted(found)
        if text.strip()
    ]


class StepFailed(Exception):  # noqa: N818 it is a report, not an error of this program
    """A step did not do what the README says; the text says what happened."""


class Reader:
    """A user who follows the README in an empty folder, with the programs in `commands`."""

    def __init__(self, folder: Path, checkout: Path, commands: Path) -> None:
        self._checkout = checkout
        self._folder = folder / "elsewhere"
        self._folder.mkdir()
        self._port = free_ports(3)
        self._metrics_port = free_ports(1)
        self._server: subprocess.Popen[bytes] | None = None
        self._number = 0
        links = folder / "links"
        links.mkdir()
        for name in COMMANDS:
            link = links / name
            link.write_text(f'#!/bin/sh\nexec "{commands / name}" "$@"\n')
            link.chmod(0o755)
        self._environment = {
            **without_python(os.environ),
            "PATH": f"{links}:{without_environment(os.environ)}",
            "HOME": str(folder),
            "OTTLA_BOOTSTRAP": f"127.0.0.1:{self._port}",
            "OTTLA_LISTENERS": f"PLAINTEXT://127.0.0.1:{self._port}",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_server()

    def follow(self, step: Step) -> str:
        """Do what a step says; returns what it printed."""
        text = step.text.replace("127.0.0.1:9092", f"127.0.0.1:{self._port}")
        text = text.replace("9308", str(self._metrics_port))
        text = re.sub(r"\bexamples/", f"{self._checkout}/examples/", text)
        if step.language == "python":
            return self._run(step, ["bash", "-c", self._python(text)])
        if SERVES.match(text):
            self._serve(step, text)
            return ""
        return self._run(step, ["bash", "-c", text])

    def _python(self, text: str) -> str:
        is_test = "def test_" in text
        self._number += 1
        file = self._folder / f"{'test_' if is_test else ''}snippet_{self._number}.py"
        file.write_text(text)
        return f"{'pytest -q' if is_test else 'python'} {file.name}"

    def _run(self, step: Step, command: list[str]) -> str:
        running = subprocess.Popen(
            command,
            cwd=self._checkout if step.installs else self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            printed = running.communicate(timeout=SECONDS_FOR_A_STEP)[0].decode(errors="replace")
        except BaseException:  # what it has started ends with it
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
            raise
        if running.returncode != 0 or "Traceback (most recent" in printed:
            raise StepFailed(f"status {running.returncode}: {printed[-4000:]}")
        if step.expected not in printed:
            raise StepFailed(f"{step.expected!r} is not in what it printed: {printed[-4000:]}")
        return printed

    def _serve(self, step: Step, text: str) -> None:
        self._stop_server()
        log = self._folder / f"serve-{step.line}.log"
        with log.open("wb") as output:
            self._server = subprocess.Popen(
                ["bash", "-c", text],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        wanted = STARTED["--workers" in text]
        deadline = time.monotonic() + SECONDS_TO_START
        while wanted not in (said := log.read_text()):
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise StepFailed(f"it has not started: {said[-4000:]}")
            time.sleep(0.05)

    def _stop_server(self) -> None:
        if self._server is not None and self._server.poll() is None:
            os.killpg(self._server.pid, signal.SIGTERM)
            self._server.wait(SECONDS_TO_START)
        self._server = None


def free_ports(count: int) -> int:
    """The first of so many free ports in a row; below those that systems give to clients."""
    while True:
        first = random.randrange(20_000, 32_000)
        try:
            with ExitStack() as stack:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue
        return first


def without_python(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a shell in which no Python was chosen."""
    chosen = re.compile(r"PYTHON|PYSPARK|PYTEST|SPARK_|VIRTUAL_ENV|OTTLA_|COVERAGE")
    return {name: text for name, text in environment.items() if not chosen.match(name)}


def without_environment(environment: Mapping[str, str]) -> str:
    """The path without a virtual environment that is active."""
    active = environment.get("VIRTUAL_ENV")
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(
        each for each in folders if not active or each != str(Path(active, "bin"))
    )


def copy_checkout(to: Path) -> None:
    """The files of the checkout as they are, without what was built in it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)


def in_order(found: list[Step]) -> list[Step]:
    """The steps as they can be done: what the README opens with needs what it installs first."""
    opening = [step for step in found if not step.section]
    rest = [step for step in found if step.section]
    first = next(number for number, step in enumerate(rest, 1) if step.text.startswith("pip"))
    return [*rest[:first], *opening, *rest[first:]]


def follow_all(folder: Path) -> Iterator[tuple[Step, float]]:
    """Follow the whole README in a folder; gives the steps with their seconds."""
    checkout = folder / "checkout"
    copy_checkout(checkout)
    with Reader(folder, checkout, folder / "ottla-env" / "bin") as reader:
        for step in in_order(steps((checkout / "README.md").read_text())):
            if step.is_run:
                before = time.monotonic()
                try:
                    reader.follow(step)
                except (StepFailed, subprocess.TimeoutExpired) as problem:
                    raise SystemExit(f"README.md:{step.line}: {step.text}\n{problem}") from None
                yield step, time.monotonic() - before


def main() -> None:
    """Follow the README, and say how long each step took."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-readme-") as folder:
        for step, seconds in follow_all(Path(folder)):
            first = step.text.strip().splitlines()[0]
            print(f"README.md:{step.line:<4} {seconds:6.1f} s  {first}", flush=True)
    print(f"all steps of the README work, in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
