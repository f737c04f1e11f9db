"""`ottla console` of this checkout as a process."""

import subprocess
import sys
from types import TracebackType
from typing import Self

from testkit.process import plain_environment
from testkit.waiting import stretched


class ConsoleProcess:
    """A console on a free port."""

    def __init__(self, bootstrap: str, *options: str) -> None:
        command = [sys.executable, "-m", "ottla", "console", "--supervised", "--port", "0"]
        self._command = [*command, "--bootstrap", bootstrap, *options]
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.errors = b""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=plain_environment(),
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()
        assert self.url, self._process.communicate()[1].decode()
        return self

    def stop(self) -> int:
        """Ask it to end; returns its status."""
        assert self._process is not None
        process, self._process = self._process, None
        process.terminate()
        self.errors += process.communicate(timeout=stretched(60))[1]
        return process.returncode

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self.errors += self._process.communicate()[1]
            self._process = None
