"""Kafka Streams as a streams group (KIP-1071): three instances, one killed; and the group command.

Three instances of an application with state, exactly_once_v2 and one standby replica of each task
count words. One is killed with kill -9 while words come. The others take its tasks, from the copies
that they have, and in the end every word is counted once. StreamsGroupCommand shows the group while
it runs, and resets and deletes it afterwards.
"""

import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, Producer

from compat.checks import CheckError, check, expect, java, new_topic
from compat.java_apps import java_command
from compat.tools import TOOLS
from testkit.clients.confluent import Confluent
from testkit.process import BrokerProcess

SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
"""A member that was killed is missed soon."""
PARTITIONS = 4
WORDS = [f"w{number}" for number in range(30)]
PATIENCE_SECONDS = 120.0
COMMAND = f"{TOOLS}.streams.StreamsGroupCommand"


class _Instance:
    """One process of the application."""

    def __init__(self, broker: BrokerProcess, name: str, folder: Path, port: int) -> None:
        self.states: list[str] = []
        self.said: list[str] = []
        arguments = [broker.bootstrap, name, str(folder), str(port)]
        self._process = subprocess.Popen(
            java_command("CountingInstance", *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line)
            if line.startswith("STATE "):
                self.states.append(line.split()[1])

    def is_running(self) -> bool:
        """Whether it has its tasks."""
        if self._process.poll() is not None:
            raise CheckError(f"an instance ended: {''.join(self.said[-5:])}")
        return bool(self.states) and self.states[-1] == "RUNNING"

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """As an operator stops it."""
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
        self._thread.join(10)


def _wait(what: str, claim: Iterator[bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    for holds in claim:
        if holds:
            return
        if time.monotonic() > deadline:
            raise CheckError(f"{what} did not come")
        time.sleep(0.2)


class _Counted:
    """The application's topics: what was sent, and what it has counted."""

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        self.sent: Counter[str] = Counter()
        self.counted: dict[str, int] = {}
        self._name = name
        self._random = Random(1)
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": f"{name}-reader",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([f"{name}-counts"])

    def send(self, count: int) -> None:
        """Send words to all partitions."""
        for number in range(count):
            word = self._random.choice(WORDS)
            self.sent[word] += 1
            self._producer.produce(self._name, word, partition=number % PARTITIONS)
            self._producer.poll(0)
        expect(self._producer.flush(60) == 0, "words were not delivered")

    def are_all(self) -> Iterator[bool]:
        """Whether all words are counted, again and again."""
        while True:
            for message in self._consumer.consume(500, 0.2):
                if not message.error():
                    key, value = message.key(), message.value()
                    assert key is not None
                    assert value is not None
                    self.counted[key.decode()] = int(value)
            yield self.counted == self.sent

    def close(self) -> None:
        """Read no more."""
        self._consumer.close()


@contextmanager
def _streams_broker() -> Iterator[BrokerProcess]:
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "broker", SETTINGS) as broker,
    ):
        yield broker
        if found := broker.tracebacks():
            raise CheckError(f"a traceback in the broker's log:\n{found[0]}")


def _command(broker: BrokerProcess, *arguments: str) -> str:
    return java(COMMAND, "--bootstrap-server", broker.bootstrap, *arguments)


def run(words: int) -> str:
    """The whole of it; a line of what was seen."""
    with _streams_broker() as broker, tempfile.TemporaryDirectory() as folder:
        name = new_topic("words")
        client = Confluent(broker.bootstrap)
        client.create_topic(name, PARTITIONS)
        client.create_topic(f"{name}-counts", PARTITIONS)
        where = ["--bootstrap-server", broker.bootstrap, "--entity-type", "groups"]
        replicas = ["--alter", "--add-config", "streams.num.standby.replicas=1"]
        java("kafka.admin.ConfigCommand", *where, "--entity-name", name, *replicas)
        counted = _Counted(broker, name)
        instances: list[_Instance] = []
        try:
            for number in range(3):
                each = _Instance(broker, name, Path(folder) / str(number), 7000 + number)
                instances.append(each)
                _wait("an instance's tasks", iter(each.is_running, None))
            counted.send(words)
            _wait("the first counts", counted.are_all())
            _look(broker, name)
            killed = time.monotonic()
            instances.pop().kill()
            counted.send(words)
            _wait("the counts after a kill", counted.are_all())
            seconds = time.monotonic() - killed
            expect(all(each.is_running() for each in instances), "an instance does not run")
        finally:
            for each in instances:
                each.stop()
            counted.close()
        _reset_and_delete(broker, name)
    return f"{2 * words:,} words counted once, {seconds:.0f} s from kill -9 to the last count"


def _look(broker: BrokerProcess, name: str) -> None:
    """What the command shows of a group that runs."""
    expect(name in _command(broker, "--list").split(), "the group is not listed")
    state = _command(broker, "--describe", "--group", name, "--state")
    expect(name in state, state)
    members = _command(broker, "--describe", "--group", name, "--members", "--verbose")
    lines = [line for line in members.splitlines() if line.startswith(name)]
    expect(len(lines) == 6, f"not 3 instances with 2 threads each:\n{members}")
    expect("STANDBY:" in members, members)
    offsets = _command(broker, "--describe", "--group", name)
    expect(any(line.startswith(name) for line in offsets.splitlines()), offsets)


def _reset_and_delete(broker: BrokerProcess, name: str) -> None:
    """What the command does with a group that nobody is in."""
    reset = _command(
        broker,
        *("--reset-offsets", "--group", name, "--all-input-topics"),
        *("--to-earliest", "--execute"),
    )
    expect(name in reset, reset)
    deleted = _command(broker, "--delete", "--group", name)
    expect("successful" in deleted, deleted)
    expect(name not in _command(broker, "--list").split(), "the deleted group is listed")


@check("streams-groups")
def three_instances_count_every_word_once_though_one_is_killed(_: BrokerProcess) -> str:
    """With a broker of its own, whose groups notice soon that a member is dead."""
    return run(20_000)
