"""What a sink wrote, counted for `ottla audit` (pure).

Rules kept here:
1. A task counts what it sends as it is acknowledged, by the timestamp that it has in the log: that
   is the broker's where the topic has LogAppendTime. What became of the task's rows is the driver's
   to know: it writes the event.
2. The event of a batch has the batch's number, and a batch that is finished by another run has the
   same one: however often it is written, it counts once.
3. Parts of a batch may have been counted in windows of another length, by a run with other options.
   They are reported as lying somewhere in the windows that theirs reach into.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from ottla.audit.counts import Counts, State
from ottla.audit.events import Count, Event, Tier
from ottla.client import TopicPartition
from ottla.client.batch_sender import Span
from pyspark_ottla.audit import AuditSettings


class Counted(Struct, frozen=True, array_like=True):
    """What one task wrote, by topic, partition and window."""

    window_ms: int
    counts: State


class SinkTally:
    """Counts what one task sends, if that is asked for."""

    def __init__(self, audit: AuditSettings | None) -> None:
        self._counts = None if audit is None else Counts(audit.window_ms)

    def add(self, where: TopicPartition, rows: int, timestamp_ms: int) -> None:
        """Count what is in the log now."""
        if self._counts is not None:
            self._counts.add(*where, timestamp_ms, rows)

    def counted(self, spans: Mapping[TopicPartition, Span]) -> Counted | None:
        """Everything that was sent, now that it is acknowledged and lies in `spans`."""
        if self._counts is None:
            return None
        for (topic, partition), span in spans.items():
            self._counts.add_span(topic, partition, span.first, span.last + 1)
        return Counted(self._counts.window_ms, self._counts.state())


def events(
    audit: AuditSettings,
    parts: Iterable[Counted | None],
    *,
    instance: str,
    sequence: int,
    time: int,
) -> list[Event]:
    """The events that tell what the tasks of a batch wrote, one for each topic."""
    counts = Counts(audit.window_ms)
    for part in parts:
        if part is not None:
            counts.merge(
                [
                    (topic, [_in_windows(each, part.window_ms, audit.window_ms) for each in of], at)
                    for topic, of, at in part.counts
                ]
            )
    return [
        counts.event(
            topic,
            tier=Tier.SPARK_SINK,
            name=audit.name or instance,
            instance=instance,
            sequence=sequence,
            next=None,
            time=time,
        )
        for topic in counts.topics
    ]


def _in_windows(count: Count, was_ms: int, now_ms: int) -> Count:
    partition, first, last, number = count
    end = last + was_ms - 1
    return partition, first - first % now_ms, end - end % now_ms, number
