"""One `ottla serve` process of this checkout: started, watched, killed, started again.

Rules kept here:
1. The process has a session of its own, and nothing of that session outlives `stop` or `kill`.
2. What it prints is kept in one file over all its lives, and shown when it fails to start.
3. Ready means: it answers Metadata, names itself, and leads every partition there is (after a
   kill, logs are recovered while it already answers).
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from testkit import proc
from testkit.raw import ClosedError, Connection
from testkit.server import free_port
from testkit.waiting import stretched, until

READY_SECONDS = 30.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.01
METADATA_VERSION = 12


class BrokerError(Exception):
    """The broker did not do what every broker must: start, stay, or end when told."""


def is_ready(bootstrap: str) -> bool:
    """True if a broker answers there and all partitions are led."""
    try:
        with Connection(bootstrap, patience=2) as connection:
            request = MetadataRequest(topics=None)
            answer = connection.ask(request, MetadataResponse, METADATA_VERSION)
            partitions = (part for topic in answer.topics for part in topic.partitions)
            return bool(answer.brokers) and not any(part.error_code for part in partitions)
    except (ConnectionError, TimeoutError, ClosedError):
        return False


def wait_until_ready(bootstrap: str, seconds: float = READY_SECONDS) -> None:
    """Wait until a broker answers there."""
    try:
        until(lambda: is_ready(bootstrap), f"{bootstrap} answers", seconds, POLL_SECONDS)
    except TimeoutError as problem:
        raise BrokerError(str(problem)) from None


def plain_environment() -> dict[str, str]:
    """This process's environment without what would configure the broker."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}


class BrokerProcess:
    """A broker on a port of this machine, with its data in a folder."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "broker.log"
        self.settings = dict(settings or {})
        self.environment: dict[str, str] = {}
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The running process."""
        if self._process is None or self._process.poll() is not None:
            raise BrokerError(f"the broker is not running: {self.last_words()}")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True if the process lives."""
        return self._process is not None and self._process.poll() is None

    def command(self) -> list[str]:
        """What a person would type."""
        command = [sys.executable, "-m", "ottla", "serve"]
        if "listeners" not in self.settings:
            command += ["--port", str(self.port)]
        command += ["--data", str(self.data)]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process, and wait for nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=plain_environment() | self.environment,
            )
        return self._process

    def answers(self) -> bool:
        """True if it is ready."""
        return is_ready(self.bootstrap)

    def start(self) -> Self:
        """Start the process and wait until it is ready."""
        process = self.launch()

        def is_up() -> bool:
            if process.poll() is not None:
                raise BrokerError(f"the broker ended at its start: {self.last_words()}")
            return self.answers()

        try:
            until(is_up, "the broker is ready", READY_SECONDS, POLL_SECONDS)
        except TimeoutError:
            said = self.last_words()
            self.kill()
            raise BrokerError(f"not ready in {READY_SECONDS:.0f} s: {said}") from None
        return self

    def kill(self) -> None:
        """kill -9: the process and all that it started are gone when this returns."""
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Ask the process to end; return its exit status."""
        process = self._process
        if process is None:
            return 0
        process.send_signal(by)
        try:
            return process.wait(stretched(STOP_SECONDS))
        except subprocess.TimeoutExpired:
            raise BrokerError(
                f"still running {STOP_SECONDS:.0f} s after {by.name}: {self.last_words()}"
            ) from None
        finally:
            self.kill()

    def memory(self) -> proc.Memory:
        """Resident memory of the process and its children."""
        return proc.memory(self.pid)

    def log_text(self) -> str:
        """All that the broker has printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def forget_log(self) -> None:
        """Empty the log file; the broker continues writing to it."""
        os.truncate(self.log, 0)

    def tracebacks(self) -> list[str]:
        """The exceptions that escaped into the log (where each event is a line of JSON)."""
        return [
            line.replace("\\n", "\n")
            for line in self.log_text().splitlines()
            if "Traceback (most recent call last)" in line
        ]

    def last_words(self) -> str:
        """The end of the log."""
        return "\n".join(self.log_text().splitlines()[-5:]) or "(it printed nothing)"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
