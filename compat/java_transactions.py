"""Kafka's Java tools of transactions: the copier with random aborts, and TransactionsCommand."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from compat.checks import CheckError, check, expect, java, new_topic
from compat.java_process import JavaProcess
from compat.tools import TOOLS
from testkit.clients.base import PATIENCE_SECONDS, Message
from testkit.clients.confluent import Confluent
from testkit.process import BrokerProcess

COPIED = 3_000
IN_A_TRANSACTION = 50
KILLS = 3
FEW = 5
"""Reports of a copier, one for each transaction, after which it is killed."""
TWO_HOURS_MS = 2 * 3_600_000


def _committed(broker: BrokerProcess, topic: str) -> list[bytes]:
    """What a read_committed reader sees of partition 0, by the console consumer."""
    told = java(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *["--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0"],
        *["--offset", "earliest", "--isolation-level", "read_committed"],
        *["--timeout-ms", "5000"],
    )
    return [line.encode() for line in told.splitlines()]


def _copier(broker: BrokerProcess, source: str, target: str, *more: str) -> JavaProcess:
    return JavaProcess(
        f"{TOOLS}.TransactionalMessageCopier",
        *["--broker-list", broker.bootstrap, "--consumer-group", f"{source}-group"],
        *["--input-topic", source, "--input-partition", "0", "--output-topic", target],
        *["--transactional-id", f"{source}-copier", "--enable-random-aborts"],
        *["--transaction-size", str(IN_A_TRANSACTION), *more],
    )


def _copy(broker: BrokerProcess, *more: str) -> str:
    """Copy a topic exactly once, with a copier that is killed a few times."""
    source, target = new_topic("source"), new_topic("target")
    client = Confluent(broker.bootstrap)
    client.create_topic(source)
    client.create_topic(target)
    values = [b"%d" % number for number in range(COPIED)]
    client.produce(source, [Message(value, partition=0) for value in values])
    for _ in range(KILLS):
        with _copier(broker, source, target, *more) as copier:
            # The copier continues while it is being killed: at what, is a matter of chance.
            copier.wait("progress", lambda process: len(process.events) >= FEW)
            copier.kill()
    with _copier(broker, source, target, *more) as copier:
        expect(copier.finish() == 0, "the copier failed")
    found = _committed(broker, target)
    expect(found == values, f"{len(found)} records in the copy, {len(set(found))} different ones")
    return f"{COPIED:,} records, copied once, with aborts and {KILLS} kills"


@check("java-transactions")
def transactional_message_copier(broker: BrokerProcess) -> str:
    return _copy(broker)


@check("java-transactions")
def transactional_message_copier_as_a_group(broker: BrokerProcess) -> str:
    return _copy(broker, "--group-mode", "--use-group-metadata")


def _transactional(broker: BrokerProcess, name: str) -> Producer:
    """A producer whose transaction stays open."""
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": broker.bootstrap,
        "transactional.id": name,
        "transaction.timeout.ms": 900_000,
        "message.timeout.ms": 60_000,
        "log_level": 0,
    }
    producer = Producer(settings)
    producer.init_transactions(PATIENCE_SECONDS)
    return producer


def _command(broker: BrokerProcess, *arguments: str) -> list[list[str]]:
    """The rows of the table that the command prints."""
    told = java(f"{TOOLS}.TransactionsCommand", "--bootstrap-server", broker.bootstrap, *arguments)
    return [line.split() for line in told.splitlines()[1:] if line.strip()]


@check("java-transactions")
def transactions_command(broker: BrokerProcess) -> None:
    topic, name = new_topic("transactions"), new_topic("id")
    Confluent(broker.bootstrap).create_topic(topic)
    producer = _transactional(broker, name)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(PATIENCE_SECONDS)
    listed = {row[0]: row for row in _command(broker, "list")}
    expect(listed[name][3] == "Ongoing", str(listed))
    (described,) = _command(broker, "describe", "--transactional-id", name)
    expect("Ongoing" in described and f"{topic}-0" in described, str(described))
    place = ["--topic", topic, "--partition", "0"]
    (state,) = _command(broker, "describe-producers", *place)
    expect(state[0] == described[2], f"{state} is not of the producer in {described}")
    expect(_command(broker, "find-hanging", "--broker-id", "1") == [], "an open one hangs")
    _command(broker, "forceTerminateTransaction", "--transactionalId", name)
    listed = {row[0]: row for row in _command(broker, "list")}
    expect(listed[name][3] == "Empty", str(listed))
    expect(_committed(broker, topic) == [], "something of the transaction is read")


@contextmanager
def _broker_with_a_hanging_transaction() -> Iterator[tuple[BrokerProcess, str]]:
    """The coordinator has lost all it knew, and readers wait behind what it should have ended."""
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "broker") as broker,
    ):
        Confluent(broker.bootstrap).create_topic("hangs")
        producer = _transactional(broker, "lost")
        producer.begin_transaction()
        long_ago = time.time_ns() // 1_000_000 - TWO_HOURS_MS
        producer.produce("hangs", b"hangs", partition=0, timestamp=long_ago)
        producer.flush(PATIENCE_SECONDS)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        internal = "__transaction_state"
        admin.delete_topics([internal])[internal].result(PATIENCE_SECONDS)
        Confluent(broker.bootstrap).produce("hangs", [Message(b"waits", partition=0)])
        yield broker, "hangs"
        if found := broker.tracebacks():
            raise CheckError(f"a traceback in the broker's log:\n{found[0]}")


@check("java-transactions")
def hanging_transaction_is_found_and_aborted(_: BrokerProcess) -> None:
    with _broker_with_a_hanging_transaction() as (broker, topic):
        expect(_committed(broker, topic) == [], "a reader passed a transaction that is open")
        (found,) = _command(broker, "find-hanging", "--broker-id", "1")
        expect(found[:2] == [topic, "0"], str(found))
        place = ["--topic", topic, "--partition", "0"]
        (state,) = _command(broker, "describe-producers", *place)
        _command(broker, "abort", *place, "--start-offset", state[-1])
        expect(_command(broker, "find-hanging", "--broker-id", "1") == [], "it still hangs")
        expect(_committed(broker, topic) == [b"waits"], "the reader is not free")
