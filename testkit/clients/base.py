"""What every Kafka client can do, as the tests see it.

Rules kept here:
1. An adapter uses its client as a program would, with the client's default settings, plus only
   what a caller passes.
2. An adapter hides names, not behaviour: no retries, no repairs, no waiting of its own beyond
   the deadline that turns a hang into an error.
3. Consumers assign partitions themselves; groups are another subject.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PATIENCE_SECONDS = 60.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Message:
    """What is to be produced. Without a partition, the client's own partitioner decides."""

    value: bytes | None = b"value"
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = None


@dataclass(frozen=True)
class Received:
    """What was consumed."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True)
class Place:
    """Where the broker put a message."""

    partition: int
    offset: int


@dataclass(frozen=True)
class Login:
    """How a client logs in over SASL_SSL, in the words of each library."""

    mechanism: str
    user: str
    password: str
    ca: Path

    def librdkafka(self) -> dict[str, str | int | float | bool]:
        """For confluent-kafka and kcat."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user,
            "sasl.password": self.password,
            "ssl.ca.location": str(self.ca),
        }

    def python(self) -> dict[str, object]:
        """For kafka-python and, with a context instead of the file, aiokafka."""
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
            "ssl_cafile": str(self.ca),
        }

    def java(self) -> dict[str, str]:
        """For Kafka's own client and tools."""
        kind = "plain.Plain" if self.mechanism == "PLAIN" else "scram.Scram"
        module = f"org.apache.kafka.common.security.{kind}LoginModule"
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": f'{module} required username="{self.user}" '
            f'password="{self.password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }


class ClientError(Exception):
    """The client reported an error, or did not finish in time."""


class Client(ABC):
    """One client library or tool, connected to one broker."""

    name: str
    sets_timestamps = True
    logs_in_with = "SCRAM-SHA-512"

    def __init__(self, bootstrap: str, login: Login | None = None) -> None:
        self.bootstrap = bootstrap
        self.login = login

    def can_send(self, message: Message) -> bool:
        """False for what the client itself refuses."""
        return True

    @abstractmethod
    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic as this client does it."""

    @abstractmethod
    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        idempotent: bool = False,
        largest: int | None = None,
    ) -> list[Place]:
        """Produce and wait for every acknowledgement; places in the order of the messages."""

    @abstractmethod
    def consume(
        self, topic: str, partition: int, offset: int, count: int, *, largest: int | None = None
    ) -> list[Received]:
        """Read a number of records of a partition from an offset on."""

    @abstractmethod
    def offset_at_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        """The first offset at or after a time, None where there is none."""

    @abstractmethod
    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset and the one after the last."""

    def close(self) -> None:  # noqa: B027  # most adapters keep nothing open
        """Let go of what the adapter keeps open."""
