"""The process: how it is started, stopped and supervised."""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from ottla.embedded import Broker
from testkit.process import BrokerProcess, plain_environment
from testkit.server import free_port
from testkit.waiting import stretched, until
from tests.console.processes import ConsoleProcess


def status_of(url: str) -> int:
    """The status of an answer; 0 where nobody listens."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code
    except OSError:
        return 0


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", "console", *options],
        capture_output=True,
        text=True,
        timeout=stretched(120),
        env=plain_environment(),
        check=False,
    )


def test_a_console_serves_and_stops(broker: Broker, tmp_path: Path) -> None:
    with ConsoleProcess(broker.bootstrap_servers, "--data", str(tmp_path)) as console:
        assert status_of(console.url) == 200
        assert status_of(f"{console.url}topics") == 200
        assert console.stop() == 0
    assert b"Traceback" not in console.errors, console.errors.decode()
    assert (tmp_path / "console-history.sqlite").exists()


def test_mistakes_at_the_start_are_one_line(broker: Broker, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    for options, words in (
        (("--host", "0.0.0.0", "--port", "0"), "other machines"),
        (("--port", str(broker.port)), "cannot listen"),
        (("--login", "sasl", "--port", "0"), "SASL"),
    ):
        ran = run(*options, *data, "--bootstrap", broker.bootstrap_servers)
        assert ran.returncode == 1
        assert words in ran.stderr
        assert "Traceback" not in ran.stderr


class ServingBoth(BrokerProcess):
    """`ottla serve --console PORT`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.console_port = free_port()

    def command(self) -> list[str]:
        return [*super().command(), "--console", str(self.console_port)]


def children_of(pid: int) -> list[int]:
    """The child processes that are consoles."""
    found = [
        int(child)
        for path in Path(f"/proc/{pid}/task").glob("*/children")
        for child in path.read_text().split()
    ]
    return [each for each in found if b"console" in Path(f"/proc/{each}/cmdline").read_bytes()]


def test_serve_runs_a_console_and_restarts_it(tmp_path: Path) -> None:
    with ServingBoth(tmp_path / "data") as broker:
        url = f"http://127.0.0.1:{broker.console_port}/topics"
        until(lambda: status_of(url) == 200, "the console serves", 90)
        (child,) = children_of(broker.pid)
        os.kill(child, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{child}").exists(), "it is reaped")
        until(lambda: status_of(url) == 200, "the console serves again", 90)
        assert broker.stop() == 0
        assert not broker.tracebacks()
    until(lambda: status_of(url) == 0, "the console ends with its broker")
