"""Kafka's Java consumers in groups: VerifiableConsumer with both protocols, and the group command.

Each check has a broker of its own, whose groups notice soon that a member is dead.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from compat.checks import CheckError, check, expect, java, java_output, new_topic
from compat.java_process import ENDED_BY_SIGTERM, JavaProcess
from compat.tools import TOOLS
from testkit.clients.base import PATIENCE_SECONDS, Message
from testkit.clients.confluent import Confluent
from testkit.process import BrokerProcess

SETTINGS = {
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}
PARTITIONS = 6
MESSAGES = 6_000
A_SECOND = 600
"""Messages a second: the changes in the group come while they do."""
GROUP = "verified"
SESSION_MS = "6000"


@contextmanager
def _group_broker() -> Iterator[BrokerProcess]:
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "broker", SETTINGS) as broker,
    ):
        yield broker
        if found := broker.tracebacks():
            raise CheckError(f"a traceback in the broker's log:\n{found[0]}")


class _Verified:
    """A topic that is being written, and the consumers that read it as one group."""

    def __init__(self, broker: BrokerProcess, stack: ExitStack) -> None:
        self._stack = stack
        self._where = ["--bootstrap-server", broker.bootstrap, "--topic", "verified"]
        self._consumers: list[JavaProcess] = []
        Confluent(broker.bootstrap).create_topic("verified", PARTITIONS)
        self.producer = self._start(
            "VerifiableProducer", "--max-messages", str(MESSAGES), "--throughput", str(A_SECOND)
        )

    def _start(self, tool: str, *arguments: str) -> JavaProcess:
        process = JavaProcess(f"{TOOLS}.{tool}", *self._where, *arguments)
        self._stack.enter_context(process)
        return process

    def consumer(self, protocol: str) -> JavaProcess:
        """One more member of the group."""
        arguments = ["--group-id", GROUP, "--group-protocol", protocol, "--verbose"]
        if protocol == "classic":
            arguments += ["--session-timeout", SESSION_MS]
        self._consumers.append(self._start("VerifiableConsumer", *arguments))
        return self._consumers[-1]

    def wait_for_all(self, last: JavaProcess) -> None:
        """Wait until every message has been seen by someone."""
        expect(self.producer.finish() == 0, "the producer failed")
        sent = {event["value"] for event in self.producer.named("producer_send_success")}
        expect(len(sent) == MESSAGES, f"{len(sent)} of {MESSAGES} messages were acknowledged")
        others = {value for each in self._consumers if each is not last for value in _values(each)}
        last.wait("every message", lambda consumer: sent <= others | set(_values_locked(consumer)))


def _values_locked(consumer: JavaProcess) -> Iterator[str]:
    return (each["value"] for each in consumer.events if each["name"] == "record_data")


def _values(consumer: JavaProcess) -> list[str]:
    return [event["value"] for event in consumer.named("record_data")]


def _share(consumer: JavaProcess) -> int:
    """How many partitions a consumer has."""
    mine: set[int] = set()
    for event in consumer.events:
        numbers = {part["partition"] for part in event.get("partitions", [])}
        if event["name"] == "partitions_assigned":
            mine |= numbers
        elif event["name"] == "partitions_revoked":
            mine -= numbers
    return len(mine)


def _wait_for_share(consumer: JavaProcess, size: int) -> None:
    consumer.wait(f"a share of {size}", lambda process: _share(process) == size)


def _rebalance_in_the_middle(protocol: str) -> str:
    with _group_broker() as broker, ExitStack() as stack:
        verified = _Verified(broker, stack)
        first = verified.consumer(protocol)
        _wait_for_share(first, 6)
        second, third = verified.consumer(protocol), verified.consumer(protocol)
        for consumer in (first, second, third):
            _wait_for_share(consumer, 2)
        second.kill()
        for consumer in (first, third):
            _wait_for_share(consumer, 3)
        expect(third.stop() == ENDED_BY_SIGTERM, "the third consumer did not end well")
        _wait_for_share(first, 6)
        verified.wait_for_all(first)
        expect(first.stop() == ENDED_BY_SIGTERM, "the first consumer did not end well")
    return f"{MESSAGES:,} messages, 3 members, one killed, one left"


@check("java-groups")
def verifiable_consumer_of_the_classic_protocol(_: BrokerProcess) -> str:
    return _rebalance_in_the_middle("classic")


@check("java-groups")
def verifiable_consumer_of_the_consumer_protocol(_: BrokerProcess) -> str:
    return _rebalance_in_the_middle("consumer")


@check("java-groups")
def upgrade_to_the_consumer_protocol_while_it_runs(_: BrokerProcess) -> str:
    with _group_broker() as broker, ExitStack() as stack:
        verified = _Verified(broker, stack)
        old = [verified.consumer("classic") for _ in range(2)]
        for consumer in old:
            _wait_for_share(consumer, 3)
        expect(old[0].stop() == ENDED_BY_SIGTERM, "a classic member did not end well")
        new = verified.consumer("consumer")
        for consumer in (old[1], new):
            _wait_for_share(consumer, 3)
        where = ["--bootstrap-server", broker.bootstrap, "--describe", "--group", GROUP]
        told = java(_GROUPS, *where, "--members", "--verbose")
        expect(told.count("verified") >= 2, told)
        expect(old[1].stop() == ENDED_BY_SIGTERM, "a classic member did not end well")
        _wait_for_share(new, 6)
        verified.wait_for_all(new)
        expect(new.stop() == ENDED_BY_SIGTERM, "the new member did not end well")
        told = java(_GROUPS, "--bootstrap-server", broker.bootstrap, "--list", "--type")
        expect(_row(told, GROUP)[1] == "Consumer", told)
    return f"{MESSAGES:,} messages, classic and consumer members side by side"


_GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"


def _row(table: str, first: str) -> list[str]:
    """The words of the line of a table that has a given word first."""
    for line in table.splitlines():
        if line.split()[:1] == [first]:
            return line.split()
    raise CheckError(f"{first} is not in:\n{table}")


def _commit(bootstrap: str, group: str, places: list[TopicPartition]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    request = ConsumerGroupTopicPartitions(group, places)
    admin.alter_consumer_group_offsets([request])[group].result(PATIENCE_SECONDS)


@check("java-groups")
def consumer_group_command(broker: BrokerProcess) -> None:
    topic, group = new_topic("grouped"), new_topic("group")
    client = Confluent(broker.bootstrap)
    client.create_topic(topic, 2)
    stamped = [Message(partition=n % 2, timestamp=1_000_000 + n // 2) for n in range(20)]
    client.produce(topic, stamped)
    _commit(broker.bootstrap, group, [TopicPartition(topic, n, 4 + n) for n in range(2)])

    def groups(*arguments: str) -> str:
        return java(_GROUPS, "--bootstrap-server", broker.bootstrap, *arguments)

    def reset(*how: str) -> list[int]:
        """The new offsets of both partitions."""
        told = groups("--reset-offsets", "--group", group, "--topic", topic, *how)
        rows = [line.split() for line in told.splitlines() if line.startswith(group)]
        return [int(offset) for _, _, offset in sorted((row[1], row[2], row[3]) for row in rows)]

    expect(group in groups("--list").split(), "the group is not listed")
    expect(_row(groups("--list", "--state"), group)[-1] == "Empty", "its state is not told")
    told = groups("--describe", "--group", group)
    lags = sorted(line.split()[2:6] for line in told.splitlines() if line.startswith(group))
    expect(lags == [["0", "4", "10", "6"], ["1", "5", "10", "5"]], told)
    expect("Empty" in groups("--describe", "--group", group, "--state"), "no state")
    expect(reset("--to-earliest", "--dry-run") == [0, 0], "--to-earliest")
    expect(reset("--to-current", "--dry-run") == [4, 5], "a dry run changed something")
    for how, wanted in {
        ("--to-earliest",): [0, 0],
        ("--to-latest",): [10, 10],
        ("--to-offset", "7"): [7, 7],
        ("--shift-by", "-2"): [5, 5],
        ("--to-datetime", "1970-01-01T00:16:40.003"): [3, 3],
        ("--to-current",): [3, 3],
    }.items():
        expect(reset(*how, "--execute") == wanted, f"reset {' '.join(how)}")
    told = groups("--delete-offsets", "--group", group, "--topic", f"{topic}:1")
    expect("Successful" in told, told)
    told = groups("--describe", "--group", group)
    expect(told.count(topic) == 1, told)
    told = groups("--delete", "--group", group)
    expect("successful" in told, told)
    expect(group not in groups("--list").split(), "the deleted group is listed")
    _, complaint = java_output(
        _GROUPS, "--bootstrap-server", broker.bootstrap, "--describe", "--group", group
    )
    expect("not found" in complaint, complaint)
