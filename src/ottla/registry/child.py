"""A registry as a child process of another program: `ottla serve --registry`, `ottla.Broker`.

Rules kept here:
1. The child ends with its parent: its stdin is a pipe that ends then.
2. A child that dies is started again, after a pause that grows while it dies young.
3. How it logs in at the broker is the first line of its stdin: no secret is in `ps` or in a file.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from time import monotonic
from types import TracebackType
from typing import Final, Self, TextIO

import structlog

from ottla.client.security import ClientSecurity, client_security

log = structlog.get_logger()

FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 10.0
LIVED_LONG_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0


class RegistryFailed(Exception):  # noqa: N818 (it names what happened)
    """The registry ended at its start."""


def login_from(stdin: TextIO) -> ClientSecurity | None:
    """What a parent has written about the login, in the child."""
    # Not through a buffer: the end of the pipe is waited for on the descriptor.
    line = bytearray()
    while not line.endswith(b"\n") and (byte := os.read(stdin.fileno(), 1)):
        line += byte
    return client_security(json.loads(line)) if line.strip() else None


class RegistryChild:
    """One life of a registry."""

    def __init__(
        self, bootstrap: str, host: str, port: int, login: Mapping[str, str], *, alone: bool
    ) -> None:
        """`login` are Kafka's client settings of security; none for PLAINTEXT."""
        self._login = dict(login)
        command = [sys.executable, "-P", "-m", "ottla", "registry", "--supervised"]
        command += ["--bootstrap", bootstrap, "--host", host, "--port", str(port)]
        command += ["--alone"] if alone else []
        self._command = [*command, "--login-on-stdin"] if login else command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; it waits for its broker."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None
        if not self._login:
            return
        try:
            self._process.stdin.write(json.dumps(self._login).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended already, which `url` and `wait` say

    def url(self) -> str:
        """Wait until it serves; returns where."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode().strip()
        if not line:
            raise RegistryFailed("the schema registry failed to start; see its message above")
        return line

    def wait(self) -> int:
        """Wait until it ends; returns its status."""
        process = self._process
        return 0 if process is None else process.wait()

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class SupervisedRegistry:
    """A registry that is started again when it dies, while the `with` block runs."""

    def __init__(self, bootstrap: str, host: str, port: int, login: Mapping[str, str]) -> None:
        self._where = bootstrap, host, port, login
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._child: RegistryChild | None = None
        self._thread = threading.Thread(target=self._keep_alive, name="registry", daemon=True)

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
            child, self._child = self._child, None
        if child is not None:
            child.stop()
        self._thread.join(STOP_SECONDS)

    def _keep_alive(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            began = monotonic()
            child = RegistryChild(*self._where, alone=False)
            with self._lock:
                if self._stopping.is_set():
                    return
                child.start()
                self._child = child
            status = child.wait()
            if self._stopping.is_set():
                return
            if monotonic() - began > LIVED_LONG_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            log.error("schema registry died; restarting", status=status)
            self._stopping.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
