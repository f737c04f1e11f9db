"""Kafka's tools for share groups, its formatters on our records, and kill -9 with share consumers.

VerifiableShareConsumer, ConsoleShareConsumer, ShareConsumerPerformance and ShareGroupCommand are
used as people use them; the formatters are Kafka's own reading of `__consumer_offsets` and
`__share_group_state`. The kills are those of `share_kill.py`, with Java's KafkaShareConsumer and
with confluent-kafka's.
"""

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from compat import share_kill
from compat.checks import CheckError, check, expect, java, java_output, new_topic
from compat.java_process import ENDED_BY_SIGTERM, PATIENCE_SECONDS, EventProcess, JavaProcess
from compat.tools import TOOLS
from testkit import java_runtime
from testkit.clients.base import Message
from testkit.clients.confluent import Confluent
from testkit.kafka import Kafka
from testkit.process import BrokerProcess
from testkit.share_groups import read_from_beginning
from testkit.waiting import until
from testkit.workers import WorkersProcess

GROUPS = f"{TOOLS}.consumer.group.ShareGroupCommand"
RECORDS = 2_000
KILLS = 12
SEED = 1


def _filled(broker: BrokerProcess, name: str, count: int = RECORDS, partitions: int = 2) -> None:
    """A topic with numbered records, and a group of the same name that begins with the first."""
    client = Confluent(broker.bootstrap)
    client.create_topic(name, partitions)
    client.produce(name, [Message(str(n).encode(), partition=n % partitions) for n in range(count)])
    read_from_beginning(broker.bootstrap, name)


def _verifiable(bootstrap: str, group: str, topic: str, mode: str = "sync") -> JavaProcess:
    return JavaProcess(
        f"{TOOLS}.VerifiableShareConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group),
        *("--acknowledgement-mode", mode, "--offset-reset-strategy", "earliest"),
    )


def _verified(broker: BrokerProcess, mode: str) -> None:
    name = new_topic("verified-share")
    _filled(broker, name)

    def count(consumers: list[JavaProcess], event: str) -> int:
        return sum(each["count"] for one in consumers for each in one.named(event))

    with ExitStack() as stack:
        consumers = [_verifiable(broker.bootstrap, name, name, mode) for _ in range(2)]
        for consumer in consumers:
            stack.enter_context(consumer)
        last = consumers[-1]
        # The first may get all before the second is there: its part does not matter.
        last.wait("a start", lambda one: any(e["name"] == "startup_complete" for e in one.events))
        until(
            lambda: count(consumers, "offsets_acknowledged") >= RECORDS,
            "all records are acknowledged",
            PATIENCE_SECONDS,
        )
        for consumer in consumers:
            expect(consumer.stop() == ENDED_BY_SIGTERM, "a consumer did not end well")
        taken, acknowledged = (
            count(consumers, event) for event in ("records_consumed", "offsets_acknowledged")
        )
        expect((taken, acknowledged) == (RECORDS, RECORDS), f"{taken} and {acknowledged}")


@check("share-groups")
def verifiable_share_consumers(broker: BrokerProcess) -> str:
    for mode in ("auto", "async", "sync"):
        _verified(broker, mode)
    return "acknowledged automatically, asynchronously, synchronously"


@check("share-groups")
def console_share_consumer(broker: BrokerProcess) -> str:
    name = new_topic("console-share")
    _filled(broker, name, 10, 1)
    wanted = [str(number) for number in range(10)]

    def consume(*how: str) -> list[str]:
        where = ("--bootstrap-server", broker.bootstrap, "--topic", name, "--group", name)
        told = java(f"{TOOLS}.consumer.ConsoleShareConsumer", *where, "--timeout-ms", "5000", *how)
        return told.split()

    released = consume("--release", "--max-messages", "10")
    expect(released == wanted, f"released: {released}")
    expect(consume("--reject", "--max-messages", "10") == wanted, "what was released is not there")
    left = consume()
    expect(left == [], f"rejected records came again: {left}")
    return "released, rejected, gone"


@check("share-groups")
def share_consumer_performance(broker: BrokerProcess) -> str:
    name = new_topic("share-performance")
    _filled(broker, name, 50_000, 1)
    told = java(
        f"{TOOLS}.ShareConsumerPerformance",
        *("--bootstrap-server", broker.bootstrap, "--topic", name, "--group", name),
        *("--num-records", "50000", "--timeout", "60000"),
    )
    rates = dict(zip(*(line.split(", ") for line in told.strip().splitlines()[-2:]), strict=True))
    expect(int(rates["data.consumed.in.nMsg"]) >= 50_000, told)
    return f"{rates['nMsg.sec']} records/sec"


def _rows(table: str, group: str) -> list[list[str]]:
    return sorted(line.split() for line in table.splitlines() if line.split()[:1] == [group])


@check("share-groups")
def share_group_command(broker: BrokerProcess) -> None:
    name = new_topic("share-command")
    _filled(broker, name, 20)

    def groups(*arguments: str) -> str:
        return java(GROUPS, "--bootstrap-server", broker.bootstrap, *arguments)

    def starts(how: str = "--execute", *to: str) -> list[list[str]]:
        """The rows of a reset: topic, partition and start offset."""
        told = groups("--reset-offsets", "--group", name, "--topic", name, *to, how)
        return [row[1:4] for row in _rows(told, name)]

    with _verifiable(broker.bootstrap, name, name) as consumer:
        consumer.wait(
            "all records",
            lambda one: (
                sum(each["count"] for each in one.events if each["name"] == "offsets_acknowledged")
                == 20
            ),
        )
        expect(name in groups("--list").split(), "the group is not listed")
        expect(_rows(groups("--list", "--state"), name)[0][-1] == "Stable", "its state is wrong")
        told = groups("--describe", "--group", name)
        expect([row[1:] for row in _rows(told, name)] == [[name, n, "10", "0"] for n in "01"], told)
        told = groups("--describe", "--group", name, "--members")
        expect(f"{name}:0,1" in told, told)
        told = groups("--describe", "--group", name, "--state", "--verbose")
        (row,) = _rows(told, name)
        expect(row[3] == "Stable" and row[-1] == "1", told)
        _, said = java_output(
            GROUPS,
            *("--bootstrap-server", broker.bootstrap, "--reset-offsets", "--group", name),
            *("--topic", name, "--to-earliest", "--execute"),
            may_fail=True,
        )
        expect("not empty" in said, f"a group with members was reset: {said}")
        expect(consumer.stop() == ENDED_BY_SIGTERM, "the consumer did not end well")
    expect(starts("--dry-run", "--to-earliest") == [[name, n, "0"] for n in "01"], "the dry run")
    told = groups("--describe", "--group", name)
    expect([row[3] for row in _rows(told, name)] == ["10", "10"], f"a dry run: {told}")
    expect(starts("--execute", "--to-earliest") == [[name, n, "0"] for n in "01"], "the reset")
    told = groups("--describe", "--group", name)
    expect([row[3:] for row in _rows(told, name)] == [["0", "10"]] * 2, told)
    expect(starts("--execute", "--to-latest") == [[name, n, "10"] for n in "01"], "to the end")
    told = groups("--delete-offsets", "--group", name, "--topic", name)
    expect("Successful" in told, told)
    told = groups("--delete", "--group", name)
    expect("was successful" in told, told)
    expect(name not in groups("--list").split(), "the deleted group is listed")


@check("share-groups")
def kafkas_formatters_read_our_records(broker: BrokerProcess) -> str:
    name = new_topic("share-formats")
    _filled(broker, name, 20)
    with _verifiable(broker.bootstrap, name, name) as consumer:
        consumer.wait(
            "an acknowledgement",
            lambda one: any(each["name"] == "offsets_acknowledged" for each in one.events),
        )
        consumer.stop()

    def read(topic: str, formatter: str) -> dict[int, list[dict[str, object]]]:
        told = java(
            f"{TOOLS}.consumer.ConsoleConsumer",
            *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--from-beginning"),
            *("--timeout-ms", "10000", "--formatter", f"{TOOLS}.consumer.{formatter}"),
        )
        found: dict[int, list[dict[str, object]]] = {}
        decoder, at = json.JSONDecoder(), 0
        while at < len(told.rstrip()):  # one after the other, with nothing between
            record, at = decoder.raw_decode(told, at)
            if name in json.dumps(record):
                found.setdefault(record["key"]["type"], []).append(record)
        return found

    states = read("__share_group_state", "group.share.ShareGroupStateMessageFormatter")
    expect(set(states) == {0, 1}, f"types {set(states)} in __share_group_state")
    groups = read("__consumer_offsets", "ShareGroupMessageFormatter")
    expect(set(groups) == set(range(10, 16)), f"types {set(groups)} in __consumer_offsets")
    return f"{sum(map(len, (*states.values(), *groups.values())))} records, types 0, 1, 10 to 15"


def _confluent(bootstrap: str, group: str, topic: str) -> EventProcess:
    program = (sys.executable, "-m", "testkit.share_member_program")
    return EventProcess("confluent-kafka", [*program, bootstrap, group, topic])


def _killed(start: share_kill.Start) -> str:
    with (
        tempfile.TemporaryDirectory() as folder,
        WorkersProcess(Path(folder) / "cluster", share_kill.SETTINGS) as cluster,
    ):
        told = share_kill.run(cluster, start, KILLS, SEED)
        if problems := cluster.tracebacks():
            raise CheckError(f"a traceback in a broker's log:\n{problems[0]}")
    return told


class _Kafka(Kafka):
    """Apache Kafka with the settings of the broker that the claims run on in the tests."""

    def settings(self) -> dict[str, str]:
        return super().settings() | {
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
        }


@check("share-groups")
def refusals_beside_apache_kafka(_: BrokerProcess) -> str:
    with (
        tempfile.TemporaryDirectory() as folder,
        _Kafka(Path(folder) / "kafka", java_runtime.libs()) as kafka,
    ):
        kafka.start()
        claims = "tests/e2e/test_wire_share_refusals.py"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", claims, "--bootstrap", kafka.bootstrap],
            cwd=Path(__file__).parent.parent,
            check=False,
            capture_output=True,
            text=True,
        )
    lines = done.stdout.strip().splitlines()
    if done.returncode:
        raise CheckError("\n".join(line for line in lines if line.startswith(("FAILED", "ERROR"))))
    return lines[-1]


@check("share-groups")
def java_share_consumers_and_kills(_: BrokerProcess) -> str:
    return _killed(_verifiable)


@check("share-groups")
def confluent_share_consumers_and_kills(_: BrokerProcess) -> str:
    return _killed(_confluent)
