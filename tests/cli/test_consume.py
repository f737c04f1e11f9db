import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
from confluent_kafka import Producer as TransactionalProducer

from ottla.cli.consume import READS_COMMITTED, ConsumeStart, command, parse_start
from ottla.client import Client, Producer
from ottla.client.admin import Admin
from ottla.client.cluster import TopicPartition
from ottla.embedded import Broker

from .conftest import Ottla

COMMITTED = ("--isolation", "read_committed")
"""Asked for, it is not said on stderr."""


@pytest.fixture
def filled(client: Client, topic: str) -> str:
    """A topic with ten records in partition 0, a second apart, and one in partition 1."""
    with Producer(client) as producer:
        for number in range(10):
            producer.send(
                topic, b"v%d" % number, key=b"k", partition=0, timestamp=1_000_000 + number * 1000
            )
        producer.send(topic, b"other", partition=1, timestamp=1_004_500)
    return topic


def start(text: str | None) -> ConsumeStart | None:
    return parse_start(click.Context(command), command.params[0], text)


def test_where_to_begin_can_be_said_in_many_ways() -> None:
    assert start(None) is None
    assert start("beginning") == ConsumeStart("beginning")
    assert start("end") == ConsumeStart("end")
    assert start("4711") == ConsumeStart("offset", 4711)
    assert start("4711ms") == ConsumeStart("timestamp", 4711)
    noon = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
    assert start("2026-01-31T12:00:00Z") == ConsumeStart("timestamp", noon)
    assert start("2026-01-31T13:00:00.250+01:00") == ConsumeStart("timestamp", noon + 250)
    local = int(datetime(2026, 1, 31).astimezone().timestamp() * 1000)
    assert start("2026-01-31") == ConsumeStart("timestamp", local)
    for early in ("0001-01-01", "1968-05-01T00:00:00Z", "1969-12-31T00:00:00Z"):
        assert start(early) == ConsumeStart("timestamp", 0)


def test_a_time_that_kafka_cannot_hold_is_the_first_or_the_last() -> None:
    assert start("1969-12-31T23:59:59Z") == ConsumeStart("timestamp", 0)
    assert start("99999999999999999999ms") == ConsumeStart("timestamp", 2**63 - 1)


@pytest.mark.parametrize("text", ["", "middle", "-1", "1.5", "ms", "2026-13-01"])
def test_what_is_no_place_to_begin_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="beginning, end"):
        start(text)


def test_without_follow_everything_up_to_the_end_is_printed(ottla: Ottla, filled: str) -> None:
    ran = ottla("consume", filled)
    assert ran.status == 0
    assert sorted(ran.out.splitlines()) == ["other", *(f"v{number}" for number in range(10))]


@pytest.mark.parametrize(
    ("where", "first"),
    [
        ("beginning", 0),
        ("end", 10),
        ("7", 7),
        ("1004500ms", 5),
        ("1970-01-01T00:16:43Z", 3),
        ("2100-01-01", 10),
    ],
)
def test_reading_begins_where_it_was_asked_to(
    ottla: Ottla, filled: str, where: str, first: int
) -> None:
    ran = ottla("consume", filled, "--from", where, "--partition", "0")
    assert ran.out.splitlines() == [f"v{number}" for number in range(first, 10)]


def test_an_offset_that_is_gone_is_replaced_by_the_next_with_a_note(
    ottla: Ottla, client: Client, filled: str
) -> None:
    Admin(client).delete_records({TopicPartition(filled, 0): 4})
    ran = ottla("consume", filled, "--from", "2", "--partition", "0", "--max", "1", *COMMITTED)
    assert ran.out == "v4\n"
    assert ran.err == (
        f"ottla: partition 0 of topic {filled} has no offset 2: it begins at 4 and ends before 10\n"
    )


def test_that_only_committed_records_are_read_is_said_where_it_was_not_asked_for(
    ottla: Ottla, filled: str
) -> None:
    ran = ottla("consume", filled, "--max", "1")
    assert (ran.status, ran.err) == (0, f"ottla: {READS_COMMITTED}\n")
    for level in ("read_committed", "read_uncommitted"):
        assert ottla("consume", filled, "--max", "1", "--isolation", level).err == ""


def test_only_so_many_records_are_printed(ottla: Ottla, filled: str) -> None:
    assert ottla("consume", filled, "--partition", "0", "--max", "3").out == "v0\nv1\nv2\n"


def test_keys_are_printed_where_a_separator_is_given(ottla: Ottla, filled: str) -> None:
    ran = ottla("consume", filled, "--partition", "0", "--max", "1", "--key-separator", "\\t")
    assert ran.out == "k\tv0\n"


@pytest.mark.parametrize("option", [("--json",), ("--format", "json")])
def test_json_has_everything_of_a_record(
    ottla: Ottla, client: Client, topic: str, option: tuple[str, ...]
) -> None:
    with Producer(client) as producer:
        producer.send(topic, None, key=b"\xff", headers=[("h", b"1")], partition=1, timestamp=5)
    assert ottla("consume", topic, *option).json_lines == [
        {
            "topic": topic,
            "partition": 1,
            "offset": 0,
            "timestamp": 5,
            "key_base64": "/w==",
            "value": None,
            "headers": [{"key": "h", "value": "1"}],
        }
    ]


def test_text_is_byte_for_byte_and_on_a_terminal_replaces_what_is_not_utf8(
    ottla: Ottla, client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Producer(client) as producer:
        for value in (b"a\xc3", b"\xffb", None, "ä".encode()):
            producer.send(topic, value, partition=0)
    arguments = [sys.executable, "-m", "ottla", "consume", topic]
    piped = subprocess.run(arguments, capture_output=True, check=True)
    assert piped.stdout == b"a\xc3\n\xffb\n\n\xc3\xa4\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert ottla("consume", topic).out == "a\ufffd\n\ufffdb\n\nä\n"


def test_several_topics_are_read_together(ottla: Ottla, filled: str) -> None:
    other = f"{filled}.more"
    assert ottla("topic", "create", other, "--partitions", "1").status == 0
    assert ottla("produce", other, "--partition", "0", "/dev/null").status == 0
    ran = ottla("consume", filled, other, filled, "--format", "json")
    assert len(ran.json_lines) == 11
    ran = ottla("consume", filled, other, "--partition", "0")
    assert ran.status == 2
    assert "--partition needs a single topic" in ran.err


def test_a_template_prints_what_it_names(ottla: Ottla, client: Client, topic: str) -> None:
    with Producer(client) as producer:
        producer.send(
            topic, b"v", key=b"k", headers=[("h", b"1"), ("i", None)], partition=1, timestamp=1_000
        )
        producer.send(topic, None, partition=1, timestamp=2_000)
    fields = r"{partition}|{offset}|{timestamp}|{time}|{key}|{value}|{headers}|{{\\}}\t\n"
    ran = ottla("consume", topic, "--template", fields)
    assert ran.out == (
        "1|0|1000|1970-01-01T00:00:01Z|k|v|h=1,i=|{\\}\t\n1|1|2000|1970-01-01T00:00:02Z||||{\\}\t\n"
    )
    assert ottla("consume", topic, "--template", "{topic} ", "--max", "1").out == f"{topic} "


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{nosuch}", "there is no field {nosuch}; there are {topic}, {partition}"),
        ("{value", "write a literal brace twice"),
        ("value}", "write a literal brace twice"),
    ],
)
def test_a_wrong_template_is_refused(offline: Ottla, template: str, said: str) -> None:
    ran = offline("consume", "t", "--template", template)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def transaction(bootstrap: str, transactional_id: str) -> TransactionalProducer:
    producer = TransactionalProducer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
    )
    producer.init_transactions()
    producer.begin_transaction()
    return producer


def test_aborted_and_open_transactions_are_left_out_and_that_is_said(
    ottla: Ottla, ottla_broker: Broker, client: Client, topic: str
) -> None:
    with Producer(client) as producer:
        producer.send(topic, b"plain", partition=0)
    aborted = transaction(ottla_broker.bootstrap_servers, f"{topic}.aborted")
    for _ in range(3):
        aborted.produce(topic, b"aborted", partition=0)
    aborted.flush()
    aborted.abort_transaction()
    unfinished = transaction(ottla_broker.bootstrap_servers, f"{topic}.open")
    unfinished.produce(topic, b"open", partition=1)
    unfinished.flush()
    ran = ottla("consume", topic)
    assert ran.out == "plain\n"
    assert ran.err == (
        f"ottla: {READS_COMMITTED}\n"
        "ottla: records not shown: 3 of aborted transactions, 1 at or after the start of an open "
        "transaction (--isolation read_uncommitted shows them)\n"
    )
    ran = ottla("consume", topic, "--isolation", "read_uncommitted")
    assert sorted(ran.out.split()) == ["aborted"] * 3 + ["open", "plain"]
    assert ran.err == ""
    unfinished.abort_transaction()


def test_a_topic_or_partition_that_does_not_exist_is_named(ottla: Ottla, topic: str) -> None:
    ran = ottla("consume", "cli.nosuch")
    assert (ran.status, ran.err) == (
        1,
        "ottla: topic cli.nosuch does not exist (see: ottla topic list)\n",
    )
    ran = ottla("consume", topic, "--partition", "5")
    assert (ran.status, ran.err) == (1, f"ottla: topic {topic} has no partition 5: it has 0 to 1\n")


def test_a_damaged_batch_ends_with_an_error_behind_the_good_ones(
    offline: Ottla, tmp_path: Path
) -> None:
    with Broker(data=tmp_path) as broker, Client(broker.bootstrap_servers) as client:
        Admin(client).create_topic("t", partitions=1)
        for value in (b"good", b"damaged"):
            with Producer(client) as producer:
                producer.send("t", value)
        (segment,) = (tmp_path / "t-0").glob("*.log")
        with segment.open("r+b") as file:
            file.seek(file.read().index(b"damaged"))
            file.write(b"D")
        ran = offline("consume", "t", "--bootstrap", broker.bootstrap_servers, *COMMITTED)
    assert ran.status == 1
    assert ran.out == "good\n"
    assert ran.err.count("\n") == 1
    assert "partition 0 of topic t, batch at offset 1: a batch has an invalid CRC" in ran.err


def consume(broker: Broker, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "ottla", "consume", *arguments, *COMMITTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OTTLA_BOOTSTRAP": broker.bootstrap_servers},
    )


def test_following_sees_new_records_and_ends_quietly_at_an_interrupt(
    ottla_broker: Broker, client: Client, filled: str
) -> None:
    process = consume(ottla_broker, filled, "--follow", "--from", "9", "--partition", "0")
    assert process.stdout is not None
    assert process.stdout.readline() == b"v9\n"
    with Producer(client) as producer:
        producer.send(filled, b"new", partition=0)
    assert process.stdout.readline() == b"new\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (130, b"", b"")


def test_following_waits_for_a_broker_that_is_gone_and_says_so(tmp_path: Path) -> None:
    broker = Broker(data=tmp_path).start()
    port, bootstrap = broker.port, broker.bootstrap_servers
    process = None
    try:
        send(bootstrap, b"before")
        process = consume(broker, "t", "--follow", "--from", "beginning")
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"before\n"
        broker.stop()
        said = process.stderr.readline().decode()
        assert said.startswith(f"ottla: no answer from {bootstrap} for 5 seconds (")
        assert said.endswith("); still trying\n")
        broker = Broker(data=tmp_path, port=port).start()
        assert process.stderr.readline().decode() == f"ottla: {bootstrap} is responding again\n"
        send(bootstrap, b"after")
        assert process.stdout.readline() == b"after\n"
    finally:
        broker.stop()
        if process is not None:
            process.kill()
            process.communicate()


def send(bootstrap: str, value: bytes) -> None:
    with Client(bootstrap) as client, Producer(client) as producer:
        producer.send("t", value)


def test_a_closed_pipe_is_no_failure(ottla_broker: Broker, client: Client, topic: str) -> None:
    with Producer(client) as producer:
        for _ in range(2000):
            producer.send(topic, b"x" * 1000, partition=0)
    process = consume(ottla_broker, topic, "--follow", "--from", "beginning")
    assert process.stdout is not None
    assert process.stdout.readline() == b"x" * 1000 + b"\n"
    process.stdout.close()
    assert process.wait() == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
