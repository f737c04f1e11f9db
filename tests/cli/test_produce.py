import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ottla.cli.record_input import read_lines
from ottla.client import Client, Producer, Reader
from ottla.client.admin import LATEST, Admin
from ottla.embedded import Broker
from ottla.records import Record

from .conftest import Ottla


def records(client: Client, topic: str) -> list[Record]:
    """All of a topic, partition by partition."""
    admin = Admin(client)
    ends = {
        partition: found.offset
        for partition, found in admin.list_offsets(
            dict.fromkeys(admin.partitions(topic), LATEST)
        ).items()
    }
    found: dict[int, list[Record]] = {partition.partition: [] for partition in ends}
    with Reader(client, dict.fromkeys(ends, 0), until=ends) as reader:
        for batch in reader:
            found[batch.partition] += batch.records
    return [record for partition in sorted(found) for record in found[partition]]


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def test_each_line_is_a_record_byte_for_byte(
    ottla: Ottla, client: Client, topic: str, tmp_path: Path
) -> None:
    one = write(tmp_path / "one", b"a\n\n\xff\xfe \r\nlast without newline")
    two = write(tmp_path / "two", b"b\n")
    assert ottla("produce", topic, "--partition", "0", one, two).status == 0
    values = [record.value for record in records(client, topic)]
    assert values == [b"a", b"", b"\xff\xfe \r", b"last without newline", b"b"]


def test_keys_and_headers_are_given(
    ottla: Ottla, client: Client, topic: str, tmp_path: Path
) -> None:
    lines = write(tmp_path / "lines", b"k\tv\tw\n\tempty key\n")
    options = ("--key-separator", "\\t", "--header", "a=1", "--header", "b=x=y", "--partition", "1")
    assert ottla("produce", topic, *options, lines).status == 0
    assert [(record.key, record.value) for record in records(client, topic)] == [
        (b"k", b"v\tw"),
        (b"", b"empty key"),
    ]
    assert list(records(client, topic)[0].headers) == [("a", b"1"), ("b", b"x=y")]


def test_what_equals_the_null_marker_is_null(
    ottla: Ottla, client: Client, topic: str, tmp_path: Path
) -> None:
    lines = write(tmp_path / "lines", b"k:NULL\nNULL:v\nk:NULL \nNULL:NULL\nk:\n")
    options = ("--key-separator", ":", "--null-marker", "NULL", "--partition", "1")
    assert ottla("produce", topic, *options, lines).status == 0
    assert [(record.key, record.value) for record in records(client, topic)] == [
        (b"k", None),
        (None, b"v"),
        (b"k", b"NULL "),
        (None, None),
        (b"k", b""),
    ]


def test_an_empty_null_marker_makes_empty_values_null(
    ottla: Ottla, client: Client, topic: str, tmp_path: Path
) -> None:
    lines = write(tmp_path / "lines", b"a\n\n")
    assert ottla("produce", topic, "--null-marker", "", "--partition", "0", lines).status == 0
    assert [record.value for record in records(client, topic)] == [b"a", None]


def test_a_line_without_a_key_is_named(ottla: Ottla, topic: str, tmp_path: Path) -> None:
    lines = write(tmp_path / "lines", b"k:v\nno key\n")
    ran = ottla("produce", topic, "--key-separator", ":", lines)
    assert ran.status == 1
    assert f"line 2 of {lines} has no key separator ':' (acknowledged before it: 1)" in ran.err


def test_lines_before_one_that_is_too_long_are_written(
    ottla: Ottla, topic: str, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.cli.record_input.LONGEST_LINE", 10)
    first = write(tmp_path / "first", b"a\nb\n")
    second = write(tmp_path / "second", b"c\n" + b"x" * 11)
    ran = ottla("produce", topic, "--partition", "0", first, second)
    assert ran.status == 1
    assert f"line 2 of {second} is longer than 10 B (acknowledged before it: 3)" in ran.err
    assert [record.value for record in records(client, topic)] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_the_end_tells_count_bytes_and_rate(
    ottla: Ottla, topic: str, tmp_path: Path, compression: str, acks: str
) -> None:
    lines = write(tmp_path / "lines", b"0123456789\n" * 1000)
    options = ("--compression", compression, "--acks", acks)
    told = ottla("produce", topic, *options, "--json", lines).json
    assert isinstance(told, dict)
    assert (told["topic"], told["records"], told["bytes"]) == (topic, 1000, 10_000)
    assert told["records_per_second"] > 0
    text = ottla("produce", topic, *options, lines).out
    assert text.startswith("1,000 records, 10.0 kB in ")


def test_what_the_broker_refuses_is_reported_with_what_was_written(
    ottla: Ottla, topic: str, tmp_path: Path
) -> None:
    lines = write(tmp_path / "lines", b"small\n" + b"x" * 2_000_000 + b"\n")
    ran = ottla("produce", topic, "--partition", "0", lines)
    assert ran.status == 1
    assert "MESSAGE_TOO_LARGE" in ran.err
    assert "(acknowledged: 1; others may be written too)" in ran.err


def test_a_partition_that_does_not_exist_is_named(ottla: Ottla, topic: str) -> None:
    ran = ottla("produce", topic, "--partition", "7", __file__)
    assert ran.status == 1
    assert f"topic {topic} has no partition 7: it has 0 to 1" in ran.err


def test_the_standard_input_is_sent_while_it_is_still_open(
    ottla_broker: Broker, client: Client, topic: str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "produce", topic, "--partition", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OTTLA_BOOTSTRAP": ottla_broker.bootstrap_servers},
    )
    assert process.stdin is not None
    process.stdin.write(b"first\nsecond\nunfinished")
    process.stdin.flush()
    where = Admin(client).partitions(topic)[0]
    with Reader(client, {where: 0}, until={where: 2}) as reader:
        seen = [record.value for batch in reader for record in batch.records]
    assert seen == [b"first", b"second"]
    out, _ = process.communicate(b" line")
    assert process.returncode == 0
    assert out.startswith(b"3 records")
    assert records(client, topic)[-1].value == b"unfinished line"


def test_a_reader_of_lines_says_when_it_would_have_to_wait() -> None:
    reading, writing = os.pipe()
    waits: list[threading.Thread] = []

    def feed() -> None:
        os.write(writing, b"next\n")
        os.close(writing)

    def before_waiting() -> None:
        waits.append(threading.Thread(target=feed))
        waits[-1].start()

    os.write(writing, b"one\ntw")
    lines = read_lines(reading, "pipe", before_waiting)
    assert next(lines) == (1, b"one")
    assert not waits
    assert next(lines) == (2, b"twnext")
    waits[0].join()
    assert list(lines) == []
    os.close(reading)


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 100])
def test_lines_are_the_same_however_they_come(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.cli.record_input.CHUNK", at_once)
    for text in (b"", b"\n", b"a", b"a\n", b"\n\na", b"one\ntwo\n\nthree", b"a long line\nb\n"):
        (tmp_path / "lines").write_bytes(text)
        expected = text.removesuffix(b"\n").split(b"\n") if text else []
        with (tmp_path / "lines").open("rb") as file:
            assert list(read_lines(file.fileno(), "lines", print)) == list(enumerate(expected, 1))


def test_what_has_come_of_a_long_line_is_not_copied_with_every_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Piece(bytes):
        def __radd__(self, before: bytes) -> bytes:
            raise AssertionError(f"{len(before)} bytes are copied once more")

    really_read = os.read
    monkeypatch.setattr("ottla.cli.record_input.CHUNK", 10)
    monkeypatch.setattr(os, "read", lambda *args: Piece(really_read(*args)))
    (tmp_path / "lines").write_bytes(b"x" * 1000 + b"\ny")
    with (tmp_path / "lines").open("rb") as file:
        lines = [line for _, line in read_lines(file.fileno(), "lines", print)]
    assert lines == [b"x" * 1000, b"y"]


def test_json_takes_what_consume_gives(
    ottla: Ottla, client: Client, topic: str, tmp_path: Path
) -> None:
    copy = f"{topic}.copy"
    assert ottla("topic", "create", copy, "--partitions", "1").status == 0
    with Producer(client) as producer:
        headers = [("h", b"1"), ("h", None), ("\udcff", b"\xfe")]
        producer.send(topic, b"v", key=b"k", headers=headers, partition=1, timestamp=5)
        producer.send(topic, None, key=b"\xff", partition=0, timestamp=0)
        producer.send(topic, b"\xfe", partition=0, timestamp=7)
    for arguments in ((topic, "--format", "json"), (topic, "--json")):
        lines = write(tmp_path / "lines", ottla("consume", *arguments).out.encode())
        assert ottla("produce", copy, "--format", "json", lines).status == 0
    originals = {item[1:] for item in map(comparable, records(client, topic))}
    copies = [item[1:] for item in map(comparable, records(client, copy))]
    assert set(copies) == originals
    assert len(copies) == 6


def comparable(record: Record) -> tuple[object, ...]:
    return (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))


def test_json_by_hand_needs_little(
    ottla: Ottla, client: Client, topic: str, tmp_path: Path
) -> None:
    lines = write(tmp_path / "lines", b'{"value": "a"}\n{}\n{"key": "k", "value": "b"}\n')
    options = ("--format", "json", "--partition", "0", "--header", "x=y")
    assert ottla("produce", topic, *options, lines).status == 0
    found = records(client, topic)
    assert [(item.key, item.value) for item in found] == [(None, b"a"), (None, None), (b"k", b"b")]
    assert all(list(item.headers) == [("x", b"y")] for item in found)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"no json", "line 2 of {file} is not JSON: "),
        (b'{"value": 7}', "line 2 of {file} is not a record as `ottla consume --format json`"),
        (b'{"vlaue": "a"}', "unknown field `vlaue`"),
        (b'{"key": "a", "key_base64": "YQ=="}', "line 2 of {file} has both key and key_base64"),
        (b'{"value_base64": "*"}', "line 2 of {file} is not "),
        (b'{"headers": [{"value": "1"}]}', "line 2 of {file} has a header without a key"),
        (b'{"timestamp": -1}', "line 2 of {file} has an invalid timestamp: -1"),
        (b'"\xff"', "line 2 of {file} is not "),
    ],
)
def test_a_line_that_is_no_record_is_named_and_those_before_it_are_written(
    ottla: Ottla, client: Client, topic: str, tmp_path: Path, line: bytes, said: str
) -> None:
    lines = write(tmp_path / "lines", b'{"value": "good"}\n' + line + b"\n")
    ran = ottla("produce", topic, "--format", "json", lines)
    assert ran.status == 1
    assert said.format(file=lines) in ran.err
    assert ran.err.endswith("(acknowledged before it: 1)\n")
    assert [item.value for item in records(client, topic)] == [b"good"]


def test_options_of_text_do_not_go_with_json(offline: Ottla) -> None:
    ran = offline("produce", "t", "--format", "json", "--key-separator", ":")
    assert ran.status == 2
    assert "--key-separator and --null-marker need --format text" in ran.err
