"""What is printed to a user who waits for a broker that does not answer.

Rules kept here:
1. After a few seconds there is one line on stderr, and one more when the broker is responding
   again. What passes sooner, as a restart does, is not worth a word.
2. It is said while the one who asks is stuck in a call, so by a thread of its own.
3. Only asking counts: who is busy with what came waits for nobody.
"""

from __future__ import annotations

import threading
from time import monotonic
from types import TracebackType
from typing import Final, Self

import click

SECONDS: Final = 5.0
LOOK_AGAIN_SECONDS: Final = 0.5


class Silence:
    """How long a broker has not answered, and what is to be said of it. Has no clock of its own."""

    def __init__(self, who: str, seconds: float = SECONDS) -> None:
        self._who = who
        self._seconds = seconds
        self._since: float | None = None
        self._reported = False
        self._reason = ""

    def asked(self, now: float) -> None:
        """An answer is waited for."""
        if self._since is None:
            self._since = now

    def failed(self, reason: str) -> None:
        """There was none, and it is asked again."""
        self._reason = reason

    def line(self, now: float) -> str | None:
        """What to say where there was no answer for too long, once."""
        if self._reported or self._since is None or now - self._since < self._seconds:
            return None
        self._reported = True
        why = f" ({self._reason})" if self._reason else ""
        return f"no answer from {self._who} for {self._seconds:g} seconds{why}; still trying"

    def answered(self) -> str | None:
        """There is an answer; what to say where its absence was reported."""
        reported, self._reported = self._reported, False
        self._since = None
        self._reason = ""
        return f"{self._who} is responding again" if reported else None


class Watch:
    """Says on stderr what Silence has to say, while it is entered."""

    def __init__(self, silence: Silence) -> None:
        self._silence = silence
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, name="ottla-silence", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()

    def asked(self) -> None:
        """An answer is waited for."""
        with self._lock:
            self._silence.asked(monotonic())

    def failed(self, problem: Exception) -> None:
        """There was none, and it is asked again."""
        with self._lock:
            self._silence.failed(str(problem))

    def answered(self) -> None:
        """There is an answer."""
        with self._lock:
            _say(self._silence.answered())

    def _look(self) -> None:
        while not self._end.wait(LOOK_AGAIN_SECONDS):
            with self._lock:
                _say(self._silence.line(monotonic()))


def _say(line: str | None) -> None:
    if line is not None:
        click.echo(f"ottla: {line}", err=True)
