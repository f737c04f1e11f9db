"""Spark's sink under kill -9 of a Python worker, of the driver and of the broker, in any order.

A Spark driver (`spark_faults_program`) copies a topic to another one, in small batches without a
pause. A read_committed reader watches the copy; after some progress, and a moment drawn from a
seed, something is killed: Python processes of Spark (tasks, the planner, the one that commits), the
whole driver, or the broker. What was killed is started again. What must hold at the
end: the copy has every record of the source, once, and no transaction is left open.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from confluent_kafka import Consumer, TopicPartition

from bench import proc
from compat.clients.base import Message
from compat.clients.confluent import Confluent
from compat.process import BrokerProcess
from compat.spark_faults_program import StreamTask
from ottla.client import Client
from ottla.client import TopicPartition as ClientPartition
from ottla.client.txn_admin import TxnAdmin

ROOT = Path(__file__).parent.parent
SETTINGS = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}
PARTITIONS = 4
ROWS_IN_A_BATCH = 400
AHEAD = 2_000
"""So many records the source is ahead of its copy, so that there is always a batch under way."""
LATEST_KILL_SECONDS = 1.0
"""A batch takes about half a second."""
POLL_SECONDS = 0.1
ROUND_SECONDS = 120.0
ONLY_ONE = 0.4
"""How often just one Python process is killed, and not all that there are."""
KINDS = ("worker", "driver", "broker")


class NotOnceError(Exception):
    """A record was lost or doubled, or the query did not get on."""


class Driver:
    """A Spark driver that is started again whenever it ends."""

    def __init__(self, task: StreamTask, log: Path) -> None:
        self._command = [
            *(sys.executable, "-m", "compat.spark_faults_program"),
            msgspec.json.encode(task).decode(),
        ]
        self._log = log
        self.failures = 0
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,
            )

    def keep_alive(self) -> None:
        """Start it again if its query has failed."""
        if self._process.poll() is not None:
            self.failures += 1
            self.end()
            self._process = self._start()

    def kill(self) -> None:
        """kill -9 of the driver and its JVM, and a successor at once.

        Its Python workers are left to notice by themselves, as on other machines.
        """
        self._kill()
        self._process = self._start()

    def workers(self) -> list[int]:
        """Spark's Python processes, in no order that means anything."""
        return [
            pid
            for pid in descendants(self._process.pid)
            if b"pyspark.daemon" in command_line(pid) or b"pyspark.worker" in command_line(pid)
        ]

    def stop(self) -> bool:
        """Let it end; True if it ended well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(ROUND_SECONDS) == 0
        except subprocess.TimeoutExpired:
            return False

    def end(self) -> None:
        """End it and all that it started, in any case."""
        left = descendants(self._process.pid)
        self._kill()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _kill(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def last_words(self) -> str:
        """The end of what it printed."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and theirs."""
    return [found for found in proc.tree(pid, proc.all_stats()) if found != pid]


def command_line(pid: int) -> bytes:
    """How a process was started; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Watcher:
    """The read_committed reader of the copy: it fails at the first record that comes twice."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "group.id": "watcher",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        self.seen: set[int] = set()

    def look(self) -> None:
        """Take in what has come."""
        for message in self._consumer.consume(1000, POLL_SECONDS):
            value = message.value()
            if message.error() is not None or not isinstance(value, bytes):
                continue  # the broker is down
            number = int(value)
            if number in self.seen:
                raise NotOnceError(
                    f"record {number} came twice: again in partition {message.partition()} "
                    f"at offset {message.offset()}"
                )
            self.seen.add(number)

    def close(self) -> None:
        """End the reader."""
        self._consumer.close()


class Copying:
    """A source, a copy of it in the making, and who makes and watches it."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self._broker = broker
        self._user = Confluent(broker.bootstrap)
        for topic in ("source", "copy"):
            self._user.create_topic(topic, PARTITIONS)
        self._written = 0
        self.write_ahead(0)
        self.watcher = Watcher(broker.bootstrap, "copy")
        task = StreamTask(
            broker.bootstrap, "source", "copy", str(folder / "checkpoint"), ROWS_IN_A_BATCH
        )
        self.driver = Driver(task, folder / "driver.log")

    def write_ahead(self, copied: int) -> None:
        """More records for the source, until it is far enough ahead of what was copied."""
        numbers = range(self._written, max(self._written, copied + AHEAD))
        self._user.produce(
            "source", [Message(b"%d" % number, partition=number % PARTITIONS) for number in numbers]
        )
        self._written = max(self._written, copied + AHEAD)

    def run_until(self, total: int) -> None:
        """Watch until so many records have been copied."""
        deadline = time.monotonic() + ROUND_SECONDS
        while len(self.watcher.seen) < total:
            self.driver.keep_alive()
            self.watcher.look()
            if time.monotonic() > deadline:
                raise NotOnceError(
                    f"{len(self.watcher.seen)} of {total} records copied in time; the driver said: "
                    f"{self.driver.last_words()}"
                )

    def strike(self, kind: str, chance: random.Random) -> None:
        """Kill something."""
        match kind:
            case "broker":
                self._broker.kill()
                self._broker.start()
            case "driver":
                self.driver.kill()
            case _:
                # One of them is likely to be idle; all of them never are.
                workers = self.driver.workers()
                if workers and chance.random() < ONLY_ONE:
                    workers = [chance.choice(workers)]
                for pid in workers:
                    os.kill(pid, signal.SIGKILL)

    def finish(self) -> None:
        """See that the copy is whole, that nothing comes after it, and that nothing is open."""
        self.run_until(self._written)
        if not self.driver.stop():
            raise NotOnceError(f"the driver did not end well: {self.driver.last_words()}")
        if missing := set(range(self._written)) - self.watcher.seen:
            raise NotOnceError(f"{len(missing)} records are missing, such as {min(missing)}")
        for _ in range(3):
            self.watcher.look()
        with Client(self._broker.bootstrap) as client:
            admin = TxnAdmin(client)
            copies = client.led([_partition(number) for number in range(PARTITIONS)])
            if left := admin.open_transactions(copies):
                raise NotOnceError(f"transactions were left open: {left}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.driver.end()
        self.watcher.close()


def _partition(number: int) -> ClientPartition:
    return ClientPartition("copy", number)


def kinds(rounds: int, chance: random.Random) -> Iterator[str]:
    """What to kill, round by round: each kind as often as the others, in an order by chance."""
    drawn: list[str] = []
    for _ in range(rounds):
        if not drawn:
            drawn = chance.sample(KINDS, len(KINDS))
        yield drawn.pop()


def run(broker: BrokerProcess, folder: Path, rounds: int, seed: int) -> str:
    """Kill so many times in all; what was seen."""
    chance = random.Random(seed)
    struck: Counter[str] = Counter()
    with Copying(broker, folder) as copying:
        for kind in kinds(rounds, chance):
            copying.run_until(len(copying.watcher.seen) + 1)
            copying.write_ahead(len(copying.watcher.seen))
            time.sleep(chance.uniform(0, LATEST_KILL_SECONDS))
            copying.strike(kind, chance)
            struck[kind] += 1
        copying.run_until(len(copying.watcher.seen) + 1)
        copying.finish()
        total, failures = len(copying.watcher.seen), copying.driver.failures
    if problems := broker.tracebacks():
        raise NotOnceError(f"a traceback in the broker's log:\n{problems[0]}")
    kills = ", ".join(f"{count} of a {kind}" for kind, count in sorted(struck.items()))
    return f"{total:,} records, each once; kills: {kills}; the query failed {failures} times"
