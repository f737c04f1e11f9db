"""A console as a child process of `ottla serve --console`: it is started again when it dies."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from time import monotonic
from types import TracebackType
from typing import Final, Self

import structlog

log = structlog.get_logger()

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 10.0
LIVED_LONG_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0


class SupervisedConsole:
    """A console that lives while the `with` block runs; it ends with this process, too."""

    def __init__(self, options: Sequence[str]) -> None:
        self._command = [sys.executable, "-P", "-m", "ottla", "console", "--supervised"]
        self._command += options
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep_alive, name="console", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._stopping.set()
            process = self._process
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()  # the end of its stdin ends it
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._thread.join(STOP_SECONDS)

    def _keep_alive(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            began = monotonic()
            with self._lock:
                if self._stopping.is_set():
                    return
                self._process = process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
                )
            status = process.wait()
            if self._stopping.is_set():
                return
            if monotonic() - began > LIVED_LONG_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            log.error("console died; restarting", status=status)
            self._stopping.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
