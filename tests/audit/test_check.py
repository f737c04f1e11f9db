from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from ottla.audit.check import AuditReport, Consumed, Row, check
from ottla.audit.counts import Counts
from ottla.audit.events import Event, Tier
from tests.audit.telling import NOW, WINDOW, consumed, event, produced, stored


def report(*events: Event, now: int = NOW, **more: int) -> AuditReport:
    return check(events, now=now, **more)  # type: ignore[arg-type]  # a test's shorthand


def only_row(*events: Event) -> Row:
    (row,) = report(*events).rows
    return row


def test_when_all_tiers_agree_nothing_is_missing() -> None:
    row = only_row(
        produced({(0, 0): 5}, (0, 5)), stored({(0, 0): 5}, (0, 5)), consumed({(0, 0): 5}, (0, 5))
    )
    assert row == Row("t", 0, WINDOW, 5, 5, consumers=[Consumed("consumer", "n", 5)])


def test_produced_and_not_stored_is_missing() -> None:
    row = only_row(produced({(0, 0): 5}, (0, 5)), stored({(0, 0): 3}, (0, 5)))
    assert (row.produced, row.stored, row.missing, row.duplicate, row.late) == (5, 3, 2, 0, 0)


def test_stored_twice_is_duplicate() -> None:
    row = only_row(produced({(0, 0): 5}, (0, 7)), stored({(0, 0): 7}, (0, 7)))
    assert (row.missing, row.duplicate, row.late) == (0, 2, 0)


def test_a_loss_in_one_partition_does_not_hide_a_double_in_another() -> None:
    row = only_row(
        produced({(0, 0): 5}, (0, 5)),
        produced({(0, 0): 5}, (0, 6), partition=1, instance="j"),
        stored({(0, 0): 4}, (0, 5)),
        stored({(0, 0): 6}, (0, 6), partition=1, instance="j"),
    )
    assert (row.produced, row.stored, row.missing, row.duplicate) == (10, 10, 1, 1)


def test_what_the_broker_has_not_looked_at_yet_is_late() -> None:
    row = only_row(
        produced({(0, 0): 5}, (0, 5)),
        produced({(0, 0): 4}, (5, 9), sequence=1),
        stored({(0, 0): 5}, (0, 5)),
    )
    assert (row.missing, row.late) == (0, 4)


def test_what_a_producer_has_not_told_yet_is_not_a_duplicate() -> None:
    row = only_row(
        produced({(0, 0): 5}, (0, 5), open=True, interval_ms=10_000, time=NOW - 1),
        stored({(0, 0): 9}, (0, 9)),
    )
    assert (row.stored, row.duplicate) == (9, 0)


def test_a_consumer_that_lags_is_late_and_one_that_skips_misses() -> None:
    row = only_row(
        stored({(0, 0): 5}, (0, 5)),
        stored({(0, 0): 5}, (5, 10)),
        consumed({(0, 0): 5}, (0, 5), name="lags", instance="a"),
        consumed({(0, 0): 7}, (0, 10), name="skips", instance="b"),
    )
    assert row.consumers == [
        Consumed("consumer", "lags", 5, late=5),
        Consumed("consumer", "skips", 7, missing=3),
    ]


def test_a_consumer_that_reads_again_has_duplicates() -> None:
    row = only_row(stored({(0, 0): 5}, (0, 5)), consumed({(0, 0): 8}, (0, 5)))
    assert row.consumers[0].duplicate == 3


def test_what_a_consumer_got_before_the_broker_told_of_it_is_not_a_duplicate() -> None:
    row = only_row(stored({(0, 0): 5}, (0, 5)), consumed({(0, 0): 8}, (0, 8)))
    assert row.consumers == [Consumed("consumer", "n", 8)]


def test_a_consumer_that_began_later_does_not_miss_what_was_before() -> None:
    found = report(
        stored({(0, 0): 5}, (0, 5)),
        stored({(10, 10): 5}, (5, 10)),
        consumed({(10, 10): 4}, (6, 10)),
    )
    assert [row.consumers[0].missing for row in found.rows] == [0, 0]
    assert [row.consumers[0].late for row in found.rows] == [0, 0]


def test_without_a_broker_that_counts_consumers_are_compared_with_producers() -> None:
    row = only_row(produced({(0, 0): 5}, (0, 5)), consumed({(0, 0): 3}, (0, 5)))
    assert row.stored is None
    assert row.consumers[0].missing == 2


def test_without_producers_that_count_nothing_is_produced_or_missing() -> None:
    row = only_row(stored({(0, 0): 5}, (0, 5)))
    assert (row.produced, row.stored, row.missing, row.duplicate) == (None, 5, 0, 0)


def test_spark_counts_as_producer_and_as_consumer() -> None:
    row = only_row(
        event(Tier.SPARK_SINK, {(0, 0): 5}, span=(0, 5), next=None),
        stored({(0, 0): 5}, (0, 5)),
        event(Tier.SPARK_SOURCE, {(0, 0): 4}, span=(0, 5), name="etl", sequence=0, next=5),
    )
    assert row.produced == 5
    assert row.consumers == [Consumed("spark-source", "etl", 4, missing=1)]


def test_what_a_spark_sink_has_written_and_not_told_of_yet_is_not_a_duplicate() -> None:
    row = only_row(
        event(Tier.SPARK_SINK, {(0, 0): 5}, span=(0, 5), next=None), stored({(0, 0): 3}, (5, 8))
    )
    assert (row.stored, row.duplicate) == (3, 0)


def test_a_batch_over_two_windows_is_put_where_its_records_were_produced() -> None:
    found = report(
        produced({(0, 0): 5, (10, 10): 2}, (0, 7)),
        stored({(0, 10): 7}, (0, 7)),
        consumed({(0, 0): 5, (10, 10): 2}, (0, 7)),
    )
    assert [(row.stored, row.missing, row.duplicate) for row in found.rows] == [
        (5, 0, 0),
        (2, 0, 0),
    ]
    assert found.missing == 0


def test_a_loss_in_a_batch_over_two_windows_is_counted_exactly() -> None:
    found = report(produced({(0, 0): 5, (10, 10): 5}, (0, 10)), stored({(0, 10): 8}, (0, 10)))
    assert found.missing == 2


def test_windows_of_different_lengths_are_compared_by_the_longest() -> None:
    wide = Event.decode(
        stored({(0, 0): 9}, (0, 9)).encode().replace(b'"window_ms":10', b'"window_ms":30')
    )
    row = only_row(produced({(0, 0): 5, (20, 20): 4}, (0, 9)), wide)
    assert (row.window, row.window_ms, row.produced, row.stored) == (0, 30, 9, 9)
    assert (row.missing, row.duplicate) == (0, 0)


def test_longer_windows_can_be_asked_for() -> None:
    told = [produced({(0, 0): 5, (50, 50): 4}, (0, 9)), stored({(0, 0): 5, (50, 50): 3}, (0, 9))]
    (row,) = report(*told, window_ms=100).rows
    assert (row.produced, row.stored, row.missing) == (9, 8, 1)


def test_only_windows_since_a_time_are_reported_and_judged() -> None:
    told = [produced({(0, 0): 5, (50, 50): 4}, (0, 9)), stored({(50, 50): 4}, (0, 9))]
    assert report(*told).missing == 5
    assert report(*told, since=30).missing == 0
    assert [row.window for row in report(*told, since=50).rows] == [50]
    assert report(*told, since=51).rows == []


def test_one_topic_can_be_asked_for() -> None:
    told = [stored({(0, 0): 5}, (0, 5)), stored({(0, 0): 5}, (0, 5), topic="u", instance="j")]
    assert [row.topic for row in check(told, now=NOW).rows] == ["t", "u"]
    assert [row.topic for row in check(told, now=NOW, topic="u").rows] == ["u"]


def test_a_log_that_lost_what_was_counted_is_a_loss() -> None:
    loss = event(Tier.BROKER, sequence=3, next=3, lost=[(0, 3, 5)])
    found = report(stored({(0, 0): 5}, (0, 5)), loss)
    assert (found.lost, found.missing) == (2, 2)
    assert "offsets 3 to 4 of partition 0" in found.notes[0]


def test_with_acks_0_offsets_are_not_known_and_counts_are_compared_all_the_same() -> None:
    row = only_row(produced({(0, 0): 5}, None), stored({(0, 0): 3}, (0, 3)))
    assert (row.missing, row.duplicate) == (2, 0)


@dataclass
class Tiers:
    """What three tiers told of a topic, and what was done to its records between them."""

    events: list[Event]
    dropped: int = 0
    doubled: int = 0


@st.composite
def tiers(draw: st.DrawFn) -> Tiers:
    """Records in batches, some of them dropped or doubled on their way to the log."""
    done = Tiers([])
    out, got = Counts(WINDOW), Counts(WINDOW)
    offset, clock = 0, 0
    for _ in range(draw(st.integers(1, 6))):
        # Timestamps may go back within a batch: the header does not show that.
        steps = draw(st.lists(st.integers(-15, 15), min_size=1, max_size=6))
        stamps = [clock := max(clock + step, 0) for step in steps]
        copies = draw(st.sampled_from([1, 1, 0, 2]))
        for place, stamp in enumerate(stamps):
            out.add("t", 0, stamp, offset=offset + place)
        done.dropped += len(stamps) * (copies == 0)
        done.doubled += len(stamps) * (copies == 2)
        windows = stamps[0] // WINDOW * WINDOW, max(stamps) // WINDOW * WINDOW
        for _ in range(copies):
            span = (offset, offset + len(stamps))
            done.events.append(stored({windows: len(stamps)}, span))
            for place, stamp in enumerate(stamps):
                got.add("t", 0, stamp, offset=offset + place)
            offset += len(stamps)
        if not copies:  # acknowledged, and then not there
            span = (offset, offset + len(stamps))
            done.events.append(stored({}, span))
            offset += len(stamps)
    for counts, tier in ((out, Tier.PRODUCER), (got, Tier.CONSUMER)):
        done.events.append(
            counts.event("t", tier=tier, name="n", instance="i", sequence=0, next=1, time=NOW)
        )
    return done


@given(tiers())
def test_what_was_dropped_or_doubled_on_the_way_is_found_to_the_record(done: Tiers) -> None:
    found = check(done.events, now=NOW)
    balance = sum(row.missing - row.duplicate for row in found.rows)
    assert balance == done.dropped - done.doubled
    assert sum(row.missing for row in found.rows) <= done.dropped
    assert all(each.missing == each.duplicate == 0 for row in found.rows for each in row.consumers)


def test_what_may_lie_in_two_windows_does_not_take_the_place_of_what_can_lie_in_one() -> None:
    """Records behind later ones, while the broker is ahead of what a producer has told."""
    running = {"open": True, "interval_ms": 10_000, "time": NOW - 2}
    events = [
        produced({(0, 10): 3, (10, 10): 3}, (0, 6), **running),
        stored({(10, 10): 3}, (0, 3), time=NOW - 3),
        stored({(0, 0): 3}, (3, 6), time=NOW - 1),
    ]
    assert report(*events).missing == 0


def test_nor_of_what_is_not_due_yet() -> None:
    events = [
        produced({(0, 10): 1, (10, 10): 1}, (0, 2)),
        produced({(0, 0): 1, (20, 20): 1}, (2, 4), sequence=1),
        stored({(0, 0): 1, (10, 10): 2}, (0, 3)),
    ]
    assert sum(row.duplicate for row in report(*events).rows) == 0
