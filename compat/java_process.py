"""A program that runs for a while and says what happens in lines of JSON: Kafka's tools, or ours.

Rules kept here:
1. What it says is kept in order; whatever is waited for has a deadline.
2. Nothing of it outlives the `with` block.
"""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from compat.checks import CheckError
from testkit import java_runtime

PATIENCE_SECONDS = 120.0
ENDED_BY_SIGTERM = 128 + signal.SIGTERM
"""The status of a JVM that has run its shutdown hooks because of a signal."""
Event = dict[str, Any]


class EventProcess:
    """A running program; `events` is what it has said so far."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.events: list[Event] = []
        self._name = name
        self._news = threading.Condition()
        self._complaints: list[str] = []
        self._may_end = False
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._threads = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._hear_complaints, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def named(self, name: str) -> list[Event]:
        """All events of a name."""
        with self._news:
            return [event for event in self.events if event.get("name") == name]

    @property
    def is_running(self) -> bool:
        """True until it has ended."""
        return self._process.poll() is None

    @property
    def has_failed(self) -> bool:
        """True if it ended without being told to."""
        return not self._may_end and not self.is_running

    def __str__(self) -> str:
        return f"{self._name}: {''.join(self._complaints[-5:])}"

    def wait(self, what: str, claim: Callable[[Self], bool]) -> None:
        """Wait until a claim about the events holds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        with self._news:
            while not claim(self):
                left = deadline - time.monotonic()
                if left <= 0 or self._process.poll() is not None:
                    said = "".join(self._complaints[-5:])
                    raise CheckError(f"{self._name}: {what} did not come; {said}")
                self._news.wait(min(left, 1.0))

    def finish(self) -> int:
        """Wait for its own end; the exit status."""
        status = self._process.wait(PATIENCE_SECONDS)
        self._join()
        return status

    def stop(self) -> int:
        """SIGTERM, on which the tools shut down properly; the exit status."""
        self._may_end = True
        self._process.send_signal(signal.SIGTERM)
        return self.finish()

    def kill(self) -> None:
        """kill -9."""
        self._may_end = True
        self._process.kill()
        self.finish()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                with self._news:
                    self.events.append(json.loads(line))
                    self._news.notify_all()

    def _hear_complaints(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._complaints.append(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.kill()


class JavaProcess(EventProcess):
    """A running tool of Kafka's."""

    def __init__(self, main_class: str, *arguments: str) -> None:
        name = main_class.rpartition(".")[2]
        super().__init__(name, java_runtime.command(main_class, *arguments))
