"""The audit event: what one instance of one tier has counted of one topic since its last event.

Rules kept here:
1. An event is a record of the audit topic: its key names the chain it belongs to, its value is JSON
   with the fields of `Event`.
2. A chain is (tier, instance, topic). Within it, `sequence` says which part of the counting an
   event is about, and `next` the sequence that follows. Of two events with one sequence only one
   counts: the one that reaches further, else the later one. So an event may be written again, as it
   is or grown.
3. A sequence that no event is about was lost; that is seen as long as events come after it. A chain
   whose events have no `next` claims nothing about what follows.
4. `open` says that the instance may have counted more than it has reported. Its last event is
   not open.
5. A reader of the audit topic expects anything: what is not an event raises ValueError.
"""

from enum import StrEnum
from typing import Final

import msgspec

AUDIT_TOPIC: Final = "_ottla_audit"
WINDOW_MS: Final = 60_000
INTERVAL_MS: Final = 10_000
LONGEST_WINDOW_MS: Final = 366 * 24 * 3_600_000


class Tier(StrEnum):
    """Where records are counted on their way."""

    PRODUCER = "producer"
    SPARK_SINK = "spark-sink"
    BROKER = "broker"
    CONSUMER = "consumer"
    SPARK_SOURCE = "spark-source"


PRODUCING: Final = frozenset({Tier.PRODUCER, Tier.SPARK_SINK})
CONSUMING: Final = frozenset({Tier.CONSUMER, Tier.SPARK_SOURCE})

Count = tuple[int, int, int, int]
"""Partition, start of the first window, start of the last window, number of records.

The two windows differ where it is not known in which of them (or between) the records are: in a
batch whose header reaches over several, or behind a record of a later window."""

Span = tuple[int, int]
"""The records' lowest offset, and the offset after their highest."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event; times are milliseconds since 1970."""

    tier: Tier
    name: str
    """Who counts, for people: a client id, a broker, a consumer group, a pipeline."""
    instance: str
    topic: str
    sequence: int
    next: int | None
    time: int
    window_ms: int
    counts: list[Count] = []
    spans: dict[int, Span] = {}
    """By partition, where the offsets are known. A broker's event is about one partition, and has
    read its log from offset `sequence` to before `next`."""
    open: bool = False
    interval_ms: int = 0
    """How often an open instance reports."""
    lost: list[tuple[int, int, int]] = []
    """Partition and offsets (from, to) that were counted and are no longer in the log."""

    dropped: int = 0
    """Rows that a query has read and then dropped, since they were later than its watermark."""

    def key(self) -> bytes:
        """The record's key: one chain stays in one partition of the audit topic."""
        return f"{self.tier}/{self.instance}/{self.topic}".encode()

    def encode(self) -> bytes:
        """The record's value."""
        return msgspec.json.encode(self)

    @property
    def chain(self) -> tuple[Tier, str, str]:
        """What its sequence numbers belong to."""
        return self.tier, self.instance, self.topic

    @classmethod
    def decode(cls, value: bytes | None) -> "Event":
        """An event from a record's value; raises ValueError for anything else."""
        try:
            event = _DECODER.decode(value or b"")
        except msgspec.DecodeError as problem:
            raise ValueError(f"not an audit event: {problem}") from None
        if not 0 < event.window_ms <= LONGEST_WINDOW_MS:
            raise ValueError(f"not an audit event: a window of {event.window_ms} ms")
        if event.next is not None and event.next < event.sequence:
            raise ValueError("not an audit event: end before start")
        if event.dropped < 0:
            raise ValueError("not an audit event: a negative count")
        for _, first, last, count in event.counts:
            if count < 0 or last < first:
                raise ValueError("not an audit event: a negative count")
        return event


_DECODER: Final = msgspec.json.Decoder(Event)
