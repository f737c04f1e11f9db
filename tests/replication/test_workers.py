"""`ottla serve --workers N`: brokers of one machine, started again when they die."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from testkit.process import plain_environment
from testkit.raw import ClosedError, Connection
from testkit.waiting import stretched, until


class Workers:
    """A supervisor with its brokers."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], log: Path) -> None:
        self.folder = folder
        self.process = process
        self.log = log

    def started(self) -> dict[int, list[str]]:
        """Where each broker was reached in each of its lives."""
        lives: dict[int, list[str]] = {}
        for line in self.log.read_text(encoding="utf-8").splitlines():
            if '"broker started"' in line:
                told = json.loads(line)
                lives.setdefault(told["id"], []).append(told["listeners"].partition("://")[2])
        return lives

    def address(self, broker: int) -> str:
        return self.started()[broker][-1]

    def pids(self) -> list[int]:
        """The workers' processes."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text(encoding="ascii").split()]

    def metadata(self, bootstrap: str) -> MetadataResponse | None:
        try:
            with Connection(bootstrap, patience=2) as connection:
                return connection.ask(MetadataRequest(topics=None), MetadataResponse, 12)
        except (OSError, ClosedError):
            return None

    def knows(self, broker: int, count: int) -> bool:
        told = self.metadata(self.address(broker)) if broker in self.started() else None
        return told is not None and len(told.brokers) == count


@contextmanager
def workers(folder: Path, count: int, *settings: str) -> Iterator[Workers]:
    log = folder / "log"
    command = [sys.executable, "-m", "ottla", "serve", "--port", "0", "--workers", str(count)]
    command += ["--data", str(folder / "data")]
    for setting in settings:
        command += ["--set", setting]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stderr=output,
            start_new_session=True,
            env=plain_environment(),
        )
    found = Workers(folder, process, log)
    try:
        until(
            lambda: all(found.knows(number, count) for number in range(1, count + 1)),
            "the workers know each other",
        )
        yield found
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def test_a_killed_worker_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    with workers(tmp_path, 3, "replica.fetch.backoff.ms=200") as found:
        with Connection(found.address(1)) as connection:
            topic = CreatableTopic(name="kept", num_partitions=3, replication_factor=3)
            answer = connection.ask(
                CreateTopicsRequest(topics=[topic], timeout_ms=10_000), CreateTopicsResponse, 7
            )
        assert answer.topics[0].error_code == 0
        bootstrap = ",".join(found.address(number) for number in (1, 2, 3))
        producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True}
        )
        acknowledged = []

        def told(problem: object, message: object) -> None:
            assert problem is None
            acknowledged.append(message)

        for number in range(90):
            producer.produce("kept", b"%d" % number, partition=number % 3, callback=told)
            if number == 45:
                os.kill(found.pids()[0], signal.SIGKILL)
        assert producer.flush(60) == 0
        assert len(acknowledged) == 90
        until(
            lambda: sum(len(lives) for lives in found.started().values()) == 4,
            "the dead worker was started again",
        )
        until(
            lambda: all(found.knows(number, 3) for number in (1, 2, 3)),
            "the workers know each other again",
        )
        process = found.process
        process.send_signal(signal.SIGTERM)
        assert process.wait(stretched(30)) == 0


def test_a_silent_worker_is_killed_and_replaced(tmp_path: Path) -> None:
    quick = ("broker.heartbeat.interval.ms=300", "broker.session.timeout.ms=1500")
    with workers(tmp_path, 2, *quick) as found:
        silent = found.pids()[0]
        os.kill(silent, signal.SIGSTOP)
        until(lambda: silent not in found.pids(), "the silent worker is gone")
        until(
            lambda: sum(len(lives) for lives in found.started().values()) == 3,
            "another one was started",
        )
        until(
            lambda: all(found.knows(number, 2) for number in (1, 2)), "they know each other again"
        )


def test_a_worker_that_is_slow_to_start_is_left_alone(tmp_path: Path) -> None:
    quick = ("broker.heartbeat.interval.ms=300", "broker.session.timeout.ms=1500")
    with workers(tmp_path, 1, *quick) as found:
        first = found.pids()
        os.kill(first[0], signal.SIGKILL)
        until(lambda: found.pids() not in ([], first), "another one was started")
        (slow,) = found.pids()
        # Before the program is loaded the supervisor would wait with it.
        program = Path(f"/proc/{slow}/cmdline")
        until(lambda: b"ottla.server.worker" in program.read_bytes(), "it is the worker's program")
        os.kill(slow, signal.SIGSTOP)
        stopped = time.monotonic()
        until(lambda: time.monotonic() > stopped + 2.5, "a session would have ended")
        os.kill(slow, signal.SIGCONT)
        until(lambda: len(found.started()[1]) == 2, "it has started after all")
        assert found.pids() == [slow]


def test_workers_end_with_their_supervisor(tmp_path: Path) -> None:
    with workers(tmp_path, 2) as found:
        pids = found.pids()
        os.kill(found.process.pid, signal.SIGKILL)
        found.process.wait()
        until(lambda: not any(_lives(pid) for pid in pids), "the workers have ended")


def test_two_supervisors_do_not_share_a_folder(tmp_path: Path) -> None:
    with workers(tmp_path, 1) as found:
        assert "not started" not in found.log.read_text(encoding="utf-8")
        command = [sys.executable, "-m", "ottla", "serve", "--port", "0", "--workers", "1"]
        done = subprocess.run(
            [*command, "--data", str(tmp_path / "data")],
            capture_output=True,
            timeout=stretched(30),
            check=False,
            env=plain_environment(),
        )
        assert done.returncode == 1
        assert b"is in use by another process" in done.stderr


def test_fewer_workers_than_before_are_warned_of_the_others_data(tmp_path: Path) -> None:
    (tmp_path / "data" / "broker-2").mkdir(parents=True)
    with workers(tmp_path, 1) as found:
        told = [json.loads(line) for line in found.log.read_text(encoding="utf-8").splitlines()]
    (warning,) = [line for line in told if line["level"] == "warning"]
    assert "data of brokers that are not started" in warning["event"]
    assert warning["brokers"] == [2]


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
