"""Kafka's own Java client, through `Driver.java`: one JVM serves all uses of one broker."""

import atexit
import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from testkit import java_runtime
from testkit.clients.base import PATIENCE_SECONDS, Client, ClientError, Message, Place, Received


class _Driver:
    def __init__(self, bootstrap: str) -> None:
        self._process = subprocess.Popen(
            java_runtime.command("Driver", bootstrap),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.close)

    def ask(self, command: dict[str, Any]) -> Any:
        """Run a command; what it gives is as the command's part of the driver says."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(command) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise ClientError(f"the Java driver ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        """End the JVM: it stops at the end of its input."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(PATIENCE_SECONDS)


@cache
def _driver(bootstrap: str) -> _Driver:
    return _Driver(bootstrap)


class Java(Client):
    """Its producer is idempotent by default; `idempotent` only says so once more."""

    name = "java"

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        self._ask("create_topic", topic, partitions=partitions, configs=dict(configs or {}))

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        idempotent: bool = False,
        largest: int | None = None,
    ) -> list[Place]:
        settings: dict[str, str] = {}
        if codec != "none":
            settings["compression.type"] = codec
        if idempotent:
            settings["enable.idempotence"] = "true"
        if largest is not None:
            settings["max.request.size"] = str(largest)
        listed = [
            {
                "key": _text(message.key),
                "value": _text(message.value),
                "headers": [[name, _text(value)] for name, value in message.headers],
                "partition": message.partition,
                "timestamp": message.timestamp,
            }
            for message in messages
        ]
        places = self._ask("produce", topic, messages=listed, settings=settings)
        return [Place(partition, offset) for partition, offset in places]

    def consume(
        self, topic: str, partition: int, offset: int, count: int, *, largest: int | None = None
    ) -> list[Received]:
        found = self._ask(
            "consume",
            topic,
            partition=partition,
            offset=offset,
            count=count,
            patience_seconds=int(PATIENCE_SECONDS),
        )
        if len(found) < count:
            raise ClientError(f"{len(found)} of {count} records came")
        return [
            Received(
                record["partition"],
                record["offset"],
                record["timestamp"],
                _bytes(record["key"]),
                _bytes(record["value"]),
                tuple((name, _bytes(value)) for name, value in record["headers"]),
            )
            for record in found
        ]

    def offset_at_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        offset: int | None = self._ask(
            "offset_at_time", topic, partition=partition, timestamp=timestamp
        )
        return offset

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        first, end = self._ask("offsets", topic, partition=partition)
        return first, end

    def administer(self, topic: str) -> dict[str, Any]:
        """Use the whole admin client on a topic, which is deleted at the end; what it saw."""
        seen: dict[str, Any] = self._ask("administer", topic)
        return seen

    def _ask(self, what: str, topic: str, **fields: object) -> Any:
        login = {} if self.login is None else self.login.java()
        command = {"do": what, "topic": topic, "login": login, **fields}
        return _driver(self.bootstrap).ask(command)


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
