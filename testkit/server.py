"""A server that is run from outside: process trees, a folder for their data, ports of this machine.

Rules: a server is started in a session of its own, so that a Ctrl-C in the terminal reaches only
the run, which then stops it; when `stop` returns, no process of that session is left. What a
server prints goes to a file beside the run's folder, and its last lines into the error if it dies.
A server that was stopped may be started again, on the same data.
"""

import os
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from testkit import proc
from testkit.errors import HarnessError
from testkit.probe import is_ready
from testkit.waiting import stretched

READY_SECONDS = 60
STOP_SECONDS = 15
POLL_SECONDS = 0.002
PORTS = (12_000, 30_000)


def free_port(together: int = 1) -> int:
    """A port that nobody has now, below those that the kernel gives to outgoing connections.

    Within them, one of the thousand attempts to reach a server that still starts can be given the
    very port it aims at: TCP then connects it to itself, and the server finds its port taken.
    Where several are wanted together, it is the first of them.
    """
    while True:
        first = random.randrange(*PORTS)
        if all(_is_free(port) for port in range(first, first + together)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class Server(ABC):
    """What the measurements see of a broker, or of several that are one cluster."""

    name: str
    ports: list[int]
    client_settings: Mapping[str, str] = {}
    """What librdkafka must be told to reach it, beside the address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"

    @property
    def port(self) -> int:
        """The port of the only broker, or of the first one."""
        return self.ports[0]

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    @property
    def measured_bootstrap(self) -> str:
        """Where the clients connect whose work is measured."""
        return self.bootstrap

    @abstractmethod
    def start(self) -> float:
        """Starts the server; gives the seconds until it answered Metadata."""

    @abstractmethod
    def stop(self) -> None:
        """Ends the server and everything it started."""

    @abstractmethod
    def cpu_seconds(self) -> float:
        """CPU time so far, user and system, children included."""

    @abstractmethod
    def memory(self) -> proc.Memory:
        """Resident memory now and at its peak."""

    def segments(self, topic: str) -> list[Path]:
        """The log files of a topic: both servers keep Kafka's own layout."""
        return sorted(self.data.glob(f"{topic}-*/*.log"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class ProcessServer(Server):
    """A server that is one process tree."""

    brokers = 1
    """How many there are when it is ready: each of its ports answers then, and names as many."""

    def __init__(self, folder: Path, ports: int = 1) -> None:
        super().__init__(folder)
        first = free_port(ports)
        self.ports = list(range(first, first + ports))
        self.log = folder.parent.with_name(f"{folder.name}.log")
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0

    @abstractmethod
    def prepare(self) -> None:
        """What has to be on disk before the first start: not part of the start's time."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command that serves on `port` with the data in `data`."""

    def start(self) -> float:
        """Starts the server; gives the seconds until it answered Metadata."""
        self.launch()
        return self.wait_until_ready()

    def launch(self) -> None:
        """Starts the process."""
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            self.prepare()
        command = self.command()
        # OTTLA_* variables are settings of Ottla, and both sides are to have their defaults.
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")
        }
        with self.log.open("ab") as log:
            self._began = time.monotonic()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=environment,
                start_new_session=True,
            )

    def wait_until_ready(self) -> float:
        """Waits for the answers to Metadata; gives the seconds since the process was started."""
        for port in self.ports:
            while not is_ready(port, self.brokers):
                if self._process is None or self._process.poll() is not None:
                    raise HarnessError(f"{self.name} ended at its start: {self._last_words()}")
                if time.monotonic() - self._began > stretched(READY_SECONDS):
                    raise HarnessError(
                        f"{self.name} was not ready in {READY_SECONDS} s; see {self.log}"
                    )
                time.sleep(POLL_SECONDS)
        return time.monotonic() - self._began

    @property
    def pid(self) -> int:
        """The server's own process."""
        if self._process is None or self._process.poll() is not None:
            raise HarnessError(f"{self.name} is not running: {self._last_words()}")
        return self._process.pid

    def cpu_seconds(self) -> float:
        """CPU time so far, user and system, children included."""
        return proc.cpu_seconds(self.pid)

    def memory(self) -> proc.Memory:
        """Resident memory now and at its peak."""
        return proc.memory(self.pid)

    def stop(self) -> None:
        """Ends the server and everything it started. The data is not needed: patience is short."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        self.end()

    def end(self) -> None:
        """kill -9 of everything it started."""
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._process = None

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return " | ".join(lines[-3:]) or f"it said nothing in {self.log}"
