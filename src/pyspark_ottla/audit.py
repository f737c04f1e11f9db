"""What the source and the sink share to count rows for `ottla audit`: options, and reporting.

Failures of the audit are logged, and do not fail the query.
"""

import logging
from collections.abc import Sequence
from uuid import uuid4

from msgspec import Struct

from ottla.audit.events import AUDIT_TOPIC, LONGEST_WINDOW_MS, WINDOW_MS, Event
from ottla.client import Client, Producer
from ottla.wire.errors import KafkaError
from pyspark_ottla.options import Options

_log = logging.getLogger("pyspark_ottla")


class AuditSettings(Struct, frozen=True):
    """How rows are to be counted."""

    name: str | None
    """Who reads or writes; None: the query's id."""
    window_ms: int
    job: str
    """Names a batch job. A streaming query has an id, which lasts over its restarts."""


def audit_settings(options: Options, default_name: str | None) -> AuditSettings | None:
    """What the options say of the audit; None where nothing is to be counted."""
    window_ms = options.number("auditWindowMs", most=LONGEST_WINDOW_MS)
    if not options.flag("audit", False):
        return None
    return AuditSettings(
        options.text("auditName") or default_name,
        WINDOW_MS if window_ms is None else window_ms,
        uuid4().hex,
    )


def report(client: Client, events: Sequence[Event]) -> None:
    """Write events into the audit topic."""
    try:
        with Producer(client) as producer:
            for event in events:
                producer.send(AUDIT_TOPIC, event.encode(), key=event.key())
    except KafkaError as problem:
        not_reported(events, problem)


def not_reported(events: Sequence[Event], problem: KafkaError) -> None:
    """Say that events could not be written."""
    topics = ", ".join(event.topic for event in events)
    _log.warning("failed to write audit events for %s: %s", topics, problem)
