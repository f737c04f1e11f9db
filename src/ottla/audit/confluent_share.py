"""confluent-kafka's share consumer with the audit (confluent-kafka 2.15 and later).

    consumer = AuditedShareConsumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "workers"})

Rules kept here:
1. It is what it wraps: every method is there, with the same arguments and callbacks.
2. A record counts when the broker has answered that it is done with: accepted or rejected. One that
   is released, or whose acknowledgement fails, does not count: it is delivered again, and then it
   may. So each record of a share group counts once, whichever consumers had it in between.
3. What is remembered of a record ends with the answer to its acknowledgement.
"""

from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    AcknowledgeType,
    KafkaException,
    Message,
    Messages,
    ShareConsumer,
    TopicPartition,
)

from ottla.audit.confluent import make_reporter
from ottla.audit.events import INTERVAL_MS, WINDOW_MS, Tier

Acknowledged = Callable[[dict[TopicPartition, set[int]], KafkaException | None], None]
Place = tuple[str, int, int]
"""Topic, partition and offset."""


class AuditedShareConsumer(ShareConsumer):
    """A share consumer that counts what it has acknowledged."""

    def __init__(
        self,
        config: dict[str, Any],
        /,
        *,
        audit_name: str | None = None,
        audit_window_ms: int = WINDOW_MS,
        audit_interval_ms: int = INTERVAL_MS,
    ) -> None:
        """`audit_name` is what `ottla audit` calls it, by default its group.id."""
        super().__init__(config)
        self._audit = make_reporter(
            self,
            Tier.CONSUMER,
            audit_name or str(config["group.id"]),
            config,
            audit_window_ms,
            audit_interval_ms,
        )
        self._audit_held: dict[Place, int] = {}
        """The timestamps of records that were handed out and are not done with."""
        self._audit_callback: Acknowledged | None = None
        super().set_acknowledgement_commit_callback(self._audit_answered)

    def poll(self, timeout: float = -1) -> Messages:
        """As ShareConsumer.poll."""
        messages = super().poll(timeout)
        for message in messages:
            if message.error() is None:
                self._audit_held[_place(message)] = message.timestamp()[1]
        return messages

    def acknowledge(
        self, message: Message, ack_type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """As ShareConsumer.acknowledge."""
        super().acknowledge(message, ack_type)
        if ack_type == AcknowledgeType.RELEASE:
            self._audit_held.pop(_place(message), None)

    def acknowledge_offset(
        self,
        topic: str,
        partition: int,
        offset: int,
        ack_type: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """As ShareConsumer.acknowledge_offset."""
        super().acknowledge_offset(topic, partition, offset, ack_type)
        if ack_type == AcknowledgeType.RELEASE:
            self._audit_held.pop((topic, partition, offset), None)

    def set_acknowledgement_commit_callback(self, callback: Acknowledged | None) -> None:
        """As ShareConsumer.set_acknowledgement_commit_callback."""
        self._audit_callback = callback

    def _audit_answered(
        self, offsets: dict[TopicPartition, set[int]], problem: KafkaException | None
    ) -> None:
        for where, acknowledged in offsets.items():
            for offset in sorted(acknowledged):
                timestamp = self._audit_held.pop((where.topic, where.partition, offset), None)
                if problem is None and timestamp is not None:
                    self._audit.count(where.topic, where.partition, timestamp, offset)
        if self._audit_callback is not None:
            self._audit_callback(offsets, problem)

    def close(self) -> None:
        """As ShareConsumer.close."""
        super().close()
        self._audit.close()

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> bool | None:
        result = super().__exit__(kind, problem, trace)
        self._audit.close()
        return result


def _place(message: Message) -> Place:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset
