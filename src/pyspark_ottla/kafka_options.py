"""The options `kafka.*`: settings of Kafka's own clients, by Kafka's own names.

Rules kept here:
1. Settings that mean something for this client are used; others of Kafka's consumer and producer
   are accepted and have no effect; those that Spark's Kafka source refuses are refused here too.
2. A name that neither of Kafka's clients has is an error, unlike in Kafka's clients, which warn.
3. `security.protocol`, `ssl.*` and `sasl.*` are checked by the client that uses them. Settings of
   TLS or SASL without `security.protocol` are an error: nothing would be protected.
4. An error never shows the value of a setting of security. `${env:}` and `${file:}` in such a value
   stay as they are here, and are resolved by the process that connects.
"""

from collections.abc import Mapping
from difflib import get_close_matches

from ottla.client import ClientSettings
from ottla.client.security import ClientSecurity, client_security
from ottla.client.settings import addresses
from ottla.wire.errors import KafkaError
from pyspark_ottla.errors import OptionError

KAFKA_PREFIX = "kafka."

USED = frozenset(
    [
        "batch.size",
        "bootstrap.servers",
        "client.id",
        "compression.type",
        "default.api.timeout.ms",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.request.size",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "transaction.timeout.ms",
    ]
)

WITHOUT_EFFECT = frozenset(
    [
        "acks",
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "buffer.memory",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "connections.max.idle.ms",
        "delivery.timeout.ms",
        "enable.idempotence",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "rebalance.timeout.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    ]
)

REFUSED = {
    "auto.offset.reset": "use startingOffsets: a query's progress is kept by Spark",
    "key.deserializer": "keys are bytes; turn them into values with SQL functions",
    "value.deserializer": "values are bytes; turn them into values with SQL functions",
    "key.serializer": "keys are bytes or text; make them with SQL functions",
    "value.serializer": "values are bytes or text; make them with SQL functions",
    "enable.auto.commit": "use commitGroup to commit offsets to a consumer group",
    "interceptor.classes": "Java classes are not supported",
    "partitioner.class": "use the column partition",
    "partitioner.ignore.keys": "use the column partition",
    "transactional.id": "the sink names its transactions; use sinkId to name the sink",
}

SECURE_PREFIXES = ("ssl.", "sasl.")
LARGEST_INT = 2**31 - 1
LONGEST_TEXT = 2**15 - 1
"""Bytes of a text in Kafka's protocol."""


class KafkaOptions:
    """Settings of Kafka's clients by their names, without the prefix `kafka.`."""

    def __init__(self, given: Mapping[str, str], *, reads: bool) -> None:
        for name in given:
            _check_name(name)
        self._given = {name: value.strip() for name, value in given.items()}
        self.bootstrap_servers = self._bootstrap_servers()
        self.security = self._security()
        isolation_level = self.choice(
            "isolation.level", ("read_committed", "read_uncommitted"), "read_committed"
        )
        self.read_committed = isolation_level == "read_committed"
        if not reads and "isolation.level" in given:
            raise OptionError("option kafka.isolation.level is for a source, not for a sink")

    def text(self, name: str) -> str | None:
        """A setting as it was given."""
        return self._given.get(name)

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """One of some words, in lower case."""
        value = self._given.get(name, default).lower()
        if value not in choices:
            raise OptionError(
                f"option kafka.{name} is {self._given[name]!r}, but must be {' or '.join(choices)}"
            )
        return value

    def number(self, name: str, default: int, *, least: int = 0) -> int:
        """A whole number of 32 bits, as Kafka's requests have it."""
        text = self._given.get(name)
        if text is None:
            return default
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise OptionError(
                f"option kafka.{name} is {text!r}, but must be a whole number of at least {least}"
            )
        if number > LARGEST_INT:
            raise OptionError(
                f"option kafka.{name} is {text!r}, but must be a whole number of at most "
                f"{LARGEST_INT}"
            )
        return number

    def seconds(self, name: str, default: float, *, least: int = 0) -> float:
        """A time, which Kafka gives in milliseconds."""
        return self.number(name, round(default * 1000), least=least) / 1000

    def client_settings(self, client_id_prefix: str | None = None) -> ClientSettings:
        """How to reach the cluster."""
        default = ClientSettings(bootstrap_servers=self.bootstrap_servers)
        name = f"{client_id_prefix}-spark" if client_id_prefix else "ottla-spark"
        given = self.text("client.id")
        client_id = given or name
        if len(client_id.encode()) > LONGEST_TEXT:
            option = "kafka.client.id" if given else "groupIdPrefix"
            raise OptionError(
                f"option {option} is too long: a client id has at most {LONGEST_TEXT} bytes"
            )
        return ClientSettings(
            bootstrap_servers=self.bootstrap_servers,
            client_id=client_id,
            connect_timeout=self.seconds(
                "socket.connection.setup.timeout.ms", default.connect_timeout, least=1
            ),
            request_timeout=self.seconds("request.timeout.ms", default.request_timeout, least=1),
            deadline=self.seconds("default.api.timeout.ms", default.deadline),
            backoff=self.seconds("retry.backoff.ms", default.backoff),
            longest_backoff=self.seconds("retry.backoff.max.ms", default.longest_backoff),
            security=self.security,
        )

    def _security(self) -> ClientSecurity | None:
        asked = [name for name in self._given if name.startswith(SECURE_PREFIXES)]
        if asked and "security.protocol" not in self._given:
            raise OptionError(
                f"option kafka.{min(asked)} has no effect without kafka.security.protocol: set it "
                "to SSL, SASL_SSL or SASL_PLAINTEXT"
            )
        try:
            return client_security(self._given)
        except KafkaError as problem:
            raise OptionError(f"options kafka.ssl.* and kafka.sasl.*: {problem}") from None

    def _bootstrap_servers(self) -> str:
        text = self.text("bootstrap.servers")
        if text is None:
            raise OptionError("option kafka.bootstrap.servers is missing: host:port of a broker")
        try:
            addresses(text)
        except KafkaError as problem:
            raise OptionError(f"option kafka.bootstrap.servers: {problem}") from None
        return text


def _check_name(name: str) -> None:
    if name in USED or name in WITHOUT_EFFECT:
        return
    if name in REFUSED:
        raise OptionError(f"option kafka.{name} is not supported: {REFUSED[name]}")
    if name.startswith(SECURE_PREFIXES):
        return  # judged together, by the client
    near = get_close_matches(name, USED | WITHOUT_EFFECT, n=1)
    hint = f"; did you mean kafka.{near[0]}?" if near else ""
    raise OptionError(f"Kafka's clients have no setting {name} (option kafka.{name}){hint}")
