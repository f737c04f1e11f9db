"""What DescribeConfigs and its relatives can name: topics, brokers, loggers, groups, metrics."""

from __future__ import annotations

import re

from ottla.wire.errors import ErrorCode, KafkaError

_NUMBER = re.compile(r"[+-]?\d{1,10}")
"""A number as Java reads one: Python's own int() also takes spaces and underscores."""


def broker_of(broker_id: int, name: str) -> int | None:
    """The broker that a resource names; None for the empty name, which stands for all brokers."""
    if not name:
        return None
    if not _NUMBER.fullmatch(name):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    broker = int(name)
    if broker != broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker_id} or empty string, but received {name}",
        )
    return broker


def check_logger_of(broker_id: int, name: str) -> None:
    """Refuse a resource that does not name the loggers of this broker; raises KafkaError."""
    if broker_of(broker_id, name) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")


def unsupported(kind: int) -> KafkaError:
    """This kind of resource has no settings here."""
    return KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")
