"""confluent-kafka's clients with the audit: they count what they deliver or hand out.

    producer = AuditedProducer({"bootstrap.servers": "127.0.0.1:9092"}, audit_name="shop")
    consumer = AuditedConsumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "billing"})

Rules kept here:
1. They are what they wrap: every method is there, with the same arguments and callbacks.
2. A producer counts a record when its delivery is reported; in a transaction, when that commits. As
   with any delivery report, the application has to call poll() or flush() for it.
3. A consumer counts a record when it hands it out.
4. Events are written by a plain producer with the same settings of connection and security. The
   last ones are written at close(), when the client is collected, or when the program ends.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4
from weakref import finalize

from confluent_kafka import Consumer, KafkaError, Message, Producer

from ottla.audit.events import AUDIT_TOPIC, INTERVAL_MS, WINDOW_MS, Event, Tier
from ottla.audit.reporter import Reporter
from ottla.audit.tally import Tally

WRITE_SECONDS = 10.0
SHARED_SETTINGS = (
    "bootstrap.",
    "broker.",
    "client.",
    "enable.ssl.",
    "log_level",
    "metadata.broker.list",
    "oauth_cb",
    "sasl.",
    "security.",
    "socket.",
    "ssl.",
    "ssl_",
)
ONLY_ERRORS = "delivery.report.only.error"

Delivery = Callable[[KafkaError | None, Message], None]


class AuditedProducer(Producer):
    """A producer that counts what it has delivered."""

    def __init__(
        self,
        config: dict[str, Any],
        /,
        *,
        audit_name: str | None = None,
        audit_window_ms: int = WINDOW_MS,
        audit_interval_ms: int = INTERVAL_MS,
        **settings: Any,
    ) -> None:
        """`audit_name` is what `ottla audit` calls it, by default its client.id."""
        asked = {**config, **{name.replace("_", "."): at for name, at in settings.items()}}
        default = asked.get("on_delivery") or asked.get("dr_cb")
        self._audit_default: Delivery | None = default
        self._audit_only_errors = str(asked.get(ONLY_ERRORS, False)).lower() == "true"
        settings.pop(ONLY_ERRORS.replace(".", "_"), None)
        super().__init__({**config, ONLY_ERRORS: False}, **settings)
        self._audit = make_reporter(
            self,
            Tier.PRODUCER,
            audit_name or str(asked.get("client.id", "rdkafka")),
            asked,
            audit_window_ms,
            audit_interval_ms,
        )
        self._audit_delivered = partial(_delivered, self._audit, None)

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: Delivery | None = None,
        on_delivery: Delivery | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """As Producer.produce."""
        counting = self._audit_counting(callback or on_delivery)
        if headers is None:
            super().produce(topic, value, key, partition, on_delivery=counting, timestamp=timestamp)
        else:
            super().produce(
                topic,
                value,
                key,
                partition,
                on_delivery=counting,
                timestamp=timestamp,
                headers=headers,
            )

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Delivery | None = None,
        on_delivery: Delivery | None = None,
    ) -> int:
        """As Producer.produce_batch."""
        common = callback or on_delivery
        counted = [
            {**each, "callback": self._audit_counting(each.get("callback") or common)}
            for each in messages
        ]
        queued = super().produce_batch(topic, counted, partition)
        for each, sent in zip(messages, counted, strict=True):
            if "_error" in sent:
                each["_error"] = sent["_error"]
        return queued

    def _audit_counting(self, callback: Delivery | None) -> Delivery:
        callback = callback or self._audit_default
        if callback is None:
            return self._audit_delivered
        if self._audit_only_errors:
            callback = partial(_if_failed, callback)
        return partial(_delivered, self._audit, callback)

    def begin_transaction(self) -> None:
        """As Producer.begin_transaction."""
        super().begin_transaction()
        self._audit.begin_transaction()

    def commit_transaction(self, timeout: float = -1) -> None:
        """As Producer.commit_transaction; what it delivered counts from now on."""
        super().commit_transaction(timeout)
        self._audit.end_transaction(committed=True)

    def abort_transaction(self, timeout: float = -1) -> None:
        """As Producer.abort_transaction."""
        super().abort_transaction(timeout)
        self._audit.end_transaction(committed=False)

    def close(self) -> bool:
        """As Producer.close."""
        closed = super().close()
        self._audit.close()
        return closed

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> bool | None:
        result = super().__exit__(kind, problem, trace)
        self._audit.close()
        return result


class AuditedConsumer(Consumer):
    """A consumer that counts what it has handed out."""

    def __init__(
        self,
        config: dict[str, Any],
        /,
        *,
        audit_name: str | None = None,
        audit_window_ms: int = WINDOW_MS,
        audit_interval_ms: int = INTERVAL_MS,
        **settings: Any,
    ) -> None:
        """`audit_name` is what `ottla audit` calls it, by default its group.id."""
        super().__init__(config, **settings)
        asked = {**config, **{name.replace("_", "."): at for name, at in settings.items()}}
        self._audit = make_reporter(
            self,
            Tier.CONSUMER,
            audit_name or str(asked["group.id"]),
            asked,
            audit_window_ms,
            audit_interval_ms,
        )

    def poll(self, timeout: float = -1) -> Message | None:
        """As Consumer.poll."""
        message = super().poll(timeout)
        if message is not None:
            self._audit_handed_out(message)
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """As Consumer.consume."""
        messages = super().consume(num_messages, timeout)
        for message in messages:
            self._audit_handed_out(message)
        return messages

    def _audit_handed_out(self, message: Message) -> None:
        if message.error() is None:
            _count(self._audit, message)

    def close(self) -> None:
        """As Consumer.close."""
        super().close()
        self._audit.close()

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> bool | None:
        result = super().__exit__(kind, problem, trace)
        self._audit.close()
        return result


def _delivered(
    audit: Reporter, callback: Delivery | None, error: KafkaError | None, message: Message
) -> None:
    if error is None:
        _count(audit, message)
    if callback is not None:
        callback(error, message)


def _if_failed(callback: Delivery, error: KafkaError | None, message: Message) -> None:
    if error is not None:
        callback(error, message)


def _count(audit: Reporter, message: Message) -> None:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    _, timestamp = message.timestamp()
    audit.count(topic, partition, timestamp, -1 if offset is None else offset)


def make_reporter(
    client: object,
    tier: Tier,
    name: str,
    settings: dict[str, Any],
    window_ms: int,
    interval_ms: int,
) -> Reporter:
    """What counts for a client, with its settings of connection and security."""
    shared = {key: at for key, at in settings.items() if key.startswith(SHARED_SETTINGS)}
    tally = Tally(tier, name, uuid4().hex, window_ms=window_ms, interval_ms=interval_ms)
    reporter = Reporter(tally, _Writer(shared).write, interval_ms)
    finalize(client, reporter.close)
    return reporter


class _Writer:
    """Writes audit events with a producer of its own, made when the first is written."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = {**settings, "enable.idempotence": True, "acks": "all"}
        self._producer: Producer | None = None

    def write(self, events: Sequence[Event]) -> list[Event]:
        if self._producer is None:
            self._producer = Producer(self._settings)
        unwritten = dict(enumerate(events))

        def settle(place: int, error: KafkaError | None, _: Message) -> None:
            if error is None:
                unwritten.pop(place, None)

        for place, event in enumerate(events):
            self._producer.produce(
                AUDIT_TOPIC, event.encode(), event.key(), on_delivery=partial(settle, place)
            )
        self._producer.flush(WRITE_SECONDS)
        return list(unwritten.values())
