from ottla.audit.events import Event, Tier
from ottla.audit.tally import Tally


def tally() -> Tally:
    return Tally(Tier.PRODUCER, "shop", "i", window_ms=10, interval_ms=1000)


def total(events: list[Event]) -> int:
    return sum(n for event in events for *_, n in event.counts)


def test_without_records_nothing_is_reported() -> None:
    silent = tally()
    assert not silent.has_news
    assert silent.report(0) == []
    assert silent.report(0, last=True) == []


def test_events_follow_each_other_and_tell_each_record_once() -> None:
    busy = tally()
    told = []
    for number in range(3):
        busy.add("t", 0, 5, number)
        told += busy.report(number)
    told += busy.report(3, last=True)
    assert [(each.sequence, each.next) for each in told] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert [each.open for each in told] == [True, True, True, False]
    assert total(told) == 3
    assert not busy.has_news


def test_a_pause_is_reported_once() -> None:
    busy = tally()
    busy.add("t", 0, 5)
    assert [each.open for each in busy.report(0)] == [True]
    assert [(each.open, each.counts) for each in busy.report(1)] == [(False, [])]
    assert busy.report(2) == []


def test_every_topic_has_a_chain_of_its_own() -> None:
    busy = tally()
    busy.add("t", 0, 5)
    busy.report(0)
    busy.add("u", 0, 5)
    told = {each.topic: each for each in busy.report(1)}
    assert told["u"].sequence == 0
    assert told["u"].open
    assert told["t"].sequence == 1
    assert not told["t"].open


def test_a_transaction_counts_when_it_commits() -> None:
    busy = tally()
    busy.begin_transaction()
    busy.add("t", 0, 5, 0)
    assert not busy.has_news
    busy.end_transaction(committed=True)
    assert total(busy.report(0)) == 1


def test_an_aborted_transaction_never_counts() -> None:
    busy = tally()
    busy.begin_transaction()
    busy.add("t", 0, 5, 0)
    busy.end_transaction(committed=False)
    assert busy.report(0, last=True) == []
    busy.add("t", 0, 5, 1)
    assert total(busy.report(1)) == 1
