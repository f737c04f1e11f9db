"""What the sink counts for the audit, and what a marker keeps of it: without a broker."""

import msgspec

from ottla.audit.events import Tier
from ottla.client import TopicPartition
from ottla.client.batch_sender import Span
from pyspark_ottla.audit import AuditSettings
from pyspark_ottla.sink.counting import Counted, SinkTally, events
from pyspark_ottla.sink.marker import MARKER_BYTES, Prepared, Written, WrittenRange, decode, encode

AUDIT = AuditSettings("orders", 60, "job")


def written(counted: Counted | None) -> Written:
    return Written(0, "id", 7, 0, 1, 5, [WrittenRange("t", 0, 0, 0, 1)], counted)


def tally(*pieces: tuple[str, int, int, int]) -> Counted | None:
    """Topic, partition, rows and timestamp of what was sent."""
    tally = SinkTally(AUDIT)
    for topic, partition, rows, timestamp_ms in pieces:
        tally.add(TopicPartition(topic, partition), rows, timestamp_ms)
    return tally.counted({TopicPartition("t", 0): Span(5, 9, 3)})


def test_the_tasks_of_a_batch_are_told_together() -> None:
    parts = [tally(("t", 0, 2, 61), ("t", 0, 1, 130)), None, tally(("t", 0, 4, 119))]
    (event,) = events(AUDIT, parts, instance="sink", sequence=3, time=200)
    assert (event.tier, event.name, event.instance) == (Tier.SPARK_SINK, "orders", "sink")
    assert (event.sequence, event.next, event.window_ms) == (3, None, 60)
    assert event.counts == [(0, 60, 60, 6), (0, 120, 120, 1)]
    assert event.spans == {0: (5, 10)}


def test_each_topic_has_its_event() -> None:
    parts = [tally(("t", 0, 2, 0), ("u", 1, 1, 0))]
    told = events(AUDIT, parts, instance="sink", sequence=0, time=0)
    assert {event.topic: event.counts for event in told} == {
        "t": [(0, 0, 0, 2)],
        "u": [(1, 0, 0, 1)],
    }


def test_where_nothing_was_written_nothing_is_reported() -> None:
    assert events(AUDIT, [None, Counted(60, [])], instance="sink", sequence=0, time=0) == []


def test_nothing_is_counted_unless_it_is_asked_for() -> None:
    tally = SinkTally(None)
    tally.add(TopicPartition("t", 0), 1, 0)
    assert tally.counted({}) is None


def test_what_was_counted_in_other_windows_lies_somewhere_in_those_it_reaches_into() -> None:
    parts = [
        Counted(100, [("t", [(0, 100, 100, 7)], [])]),
        Counted(20, [("t", [(0, 100, 120, 1)], [])]),
    ]
    (event,) = events(AUDIT, parts, instance="sink", sequence=0, time=0)
    assert event.counts == [(0, 60, 120, 1), (0, 60, 180, 7)]


def test_a_marker_keeps_what_was_counted() -> None:
    prepared = Prepared(1, "run", 5, [written(tally(("t", 0, 2, 61)))])
    assert decode(encode(prepared)) == prepared


def test_a_marker_from_before_the_audit_is_understood() -> None:
    older = msgspec.json.decode(encode(Prepared(1, "run", 5, [written(None)])))
    assert older["written"][0].pop() is None
    assert decode(msgspec.json.encode(older)) == Prepared(1, "run", 5, [written(None)])


def test_a_marker_that_counts_would_make_too_large_goes_without() -> None:
    many = Counted(60, [("t" * MARKER_BYTES, [(0, 0, 0, 1)], [])])
    value = encode(Prepared(1, "run", 5, [written(many)]))
    assert decode(value) == Prepared(1, "run", 5, [written(None)])
