"""kcat: librdkafka on the command line, here the one that Debian ships.

kcat sets headers for all messages of a run and does not tell where it put them: the places are
read back, which is right while nobody else writes to the topic.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from testkit.clients.base import (
    PATIENCE_SECONDS,
    Client,
    ClientError,
    Headers,
    Message,
    Place,
    Received,
)

# Bytes that the tests' own keys and values do not hold.
BETWEEN_KEY_AND_VALUE = "\x1e"
BETWEEN_MESSAGES = "\x1f"
RECORD_FORMAT = "%p %o %T %K %S %h\n%k%s"


class Kcat(Client):
    """It has no admin requests: a topic comes to be by being produced to."""

    name = "kcat"
    sets_timestamps = False
    logs_in_with = "PLAIN"
    """The SCRAM of librdkafka before 2.6.1, as Debian ships it, ends with a wrong nonce: Kafka
    refuses it since version 4, and so does Ottla."""

    @staticmethod
    def is_installed() -> bool:
        """True if there is a kcat to run."""
        return shutil.which("kcat") is not None

    def can_send(self, message: Message) -> bool:
        return message.key is not None or message.value != b""

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        if partitions != 1 or configs:
            raise ClientError("kcat cannot choose partitions or configs")

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        idempotent: bool = False,
        largest: int | None = None,
    ) -> list[Place]:
        ends = self._ends(topic)
        for (partition, headers, _), run in groupby(messages, _kind):
            arguments = ["-P", "-t", topic, "-z", codec]
            arguments += ["-p", "-1" if partition is None else str(partition)]
            for name, value in headers:
                arguments += ["-H", name if value is None else f"{name}={value.decode()}"]
            if idempotent:
                arguments += ["-X", "enable.idempotence=true"]
            if largest is not None:
                arguments += ["-X", f"message.max.bytes={largest}"]
            self._send(arguments, list(run))
        return self._read_back(topic, messages, ends)

    def _ends(self, topic: str) -> list[int]:
        listing = self._run("-L", "-t", topic).decode()
        count = len(re.findall(r"^ +partition \d+,", listing, re.MULTILINE))
        return [self._query(topic, partition, -1) for partition in range(count)]

    def _read_back(
        self, topic: str, messages: Sequence[Message], old_ends: list[int]
    ) -> list[Place]:
        found: dict[tuple[bytes | None, bytes | None], list[Place]] = {}
        for partition, end in enumerate(self._ends(topic)):
            start = old_ends[partition] if old_ends else 0
            if start < end:
                for record in self.consume(topic, partition, start, end - start):
                    place = Place(partition, record.offset)
                    found.setdefault((record.key, record.value), []).append(place)
        return [found[message.key, message.value].pop(0) for message in messages]

    def _send(self, arguments: list[str], batch: list[Message]) -> None:
        """One message goes in as a file and keeps every byte; several are split by kcat."""
        keyed = batch[0].key is not None
        if keyed:
            arguments += ["-K", BETWEEN_KEY_AND_VALUE]
        if batch[0].value is None:
            arguments += ["-Z"]
        lines = []
        for message in batch:
            if message.timestamp is not None:
                raise ClientError("kcat cannot set timestamps")
            line = message.value or b""
            if message.key is not None:
                line = message.key + BETWEEN_KEY_AND_VALUE.encode() + line
            lines.append(line + BETWEEN_MESSAGES.encode())
        self._run(*arguments, "-D", BETWEEN_MESSAGES, given=b"".join(lines))

    def consume(
        self, topic: str, partition: int, offset: int, count: int, *, largest: int | None = None
    ) -> list[Received]:
        arguments = ["-C", "-t", topic, "-p", str(partition), "-o", str(offset)]
        arguments += ["-c", str(count), "-e", "-q", "-f", RECORD_FORMAT]
        return list(_parse(self._run(*arguments)))

    def offset_at_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        found = self._query(topic, partition, timestamp)
        return found if found >= 0 and found < self._query(topic, partition, -1) else None

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        return self._query(topic, partition, -2), self._query(topic, partition, -1)

    def _query(self, topic: str, partition: int, timestamp: int) -> int:
        said = self._run("-Q", "-t", f"{topic}:{partition}:{timestamp}").decode()
        found = re.search(r"offset (-?\d+)", said)
        if found is None:
            raise ClientError(f"kcat -Q said {said!r}")
        return int(found[1])

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        login = {} if self.login is None else self.login.librdkafka()
        settings = [part for name, text in login.items() for part in ("-X", f"{name}={text}")]
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "input"
            source.write_bytes(given)
            with source.open("rb") as stream:
                done = subprocess.run(
                    ["kcat", "-b", self.bootstrap, *settings, *arguments],
                    stdin=stream,
                    capture_output=True,
                    timeout=PATIENCE_SECONDS,
                    check=False,
                )
        complaint = done.stderr.decode(errors="replace")
        if done.returncode or "ERROR" in complaint:
            raise ClientError(f"kcat ended with {done.returncode}: {complaint.strip()}")
        return done.stdout


def _kind(message: Message) -> tuple[int | None, Headers, tuple[bool, bool]]:
    """What one run of kcat can have only one of."""
    nulls = (message.key is None, message.value is None)
    return message.partition, message.headers, nulls


def _parse(output: bytes) -> list[Received]:
    received = []
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        partition, offset, timestamp, key_size, size, *header_words = output[at:end].split(b" ")
        at = end + 1
        key, at = _part(output, at, int(key_size))
        value, at = _part(output, at, int(size))
        headers = _headers(b" ".join(header_words))
        received.append(Received(int(partition), int(offset), int(timestamp), key, value, headers))
    return received


def _part(output: bytes, at: int, size: int) -> tuple[bytes | None, int]:
    return (None, at) if size < 0 else (output[at : at + size], at + size)


def _headers(words: bytes) -> Headers:
    """`a=1,b=NULL` as kcat prints it."""
    pairs = []
    for word in words.decode().split(",") if words else []:
        name, _, value = word.partition("=")
        pairs.append((name, None if value == "NULL" else value.encode()))
    return tuple(pairs)
