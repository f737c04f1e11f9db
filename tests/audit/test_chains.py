from hypothesis import given
from hypothesis import strategies as st

from ottla.audit.chains import Chain, chains
from ottla.audit.events import Event, Tier
from tests.audit.telling import NOW, consumed, event, produced, stored


def total(chain: Chain) -> int:
    return sum(n for each in chain.events for *_, n in each.counts)


@given(st.data())
def test_doubled_events_count_once(data: st.DataObject) -> None:
    told = [produced({(0, 0): 1 + number}, None, sequence=number) for number in range(5)]
    again = data.draw(st.lists(st.sampled_from(told)))
    (chain,) = chains(told + again)
    assert total(chain) == 15
    assert chain.notes(NOW) == []


def test_an_event_that_grew_replaces_the_shorter_one() -> None:
    short, long = stored({(0, 0): 10}, (0, 10)), stored({(0, 0): 25}, (0, 25))
    after = stored({(0, 0): 5}, (25, 30))
    for order in ([short, long, after], [long, short, after]):
        (chain,) = chains(order)
        assert total(chain) == 30


def test_a_lost_event_is_said() -> None:
    (chain,) = chains([produced({(0, 0): 1}, None, sequence=n) for n in (0, 1, 4)])
    (note,) = chain.notes(NOW)
    assert "reports 2 to 3" in note


def test_offsets_that_were_not_counted_are_said() -> None:
    (chain,) = chains([stored({(0, 0): 1}, (0, 10)), stored({(0, 0): 1}, (15, 20))])
    (note,) = chain.notes(NOW)
    assert "offsets 10 to 14" in note


def test_what_came_before_the_first_event_is_not_missed() -> None:
    (chain,) = chains([produced({(0, 0): 1}, None, sequence=7)])
    assert chain.notes(NOW) == []


def test_counts_that_overlap_are_left_out_and_said() -> None:
    (chain,) = chains([stored({(0, 0): 10}, (0, 10)), stored({(0, 0): 10}, (5, 15))])
    assert total(chain) == 10
    (note,) = chain.notes(NOW)
    assert "overlaps" in note


def test_a_chain_without_successors_has_no_gaps() -> None:
    told = [event(Tier.SPARK_SINK, {(0, 0): 1}, sequence=n, next=None) for n in (3, 9, 9)]
    (chain,) = chains(told)
    assert total(chain) == 2
    assert chain.notes(NOW) == []


def test_who_ends_without_a_last_report_is_named() -> None:
    told = consumed({(0, 0): 1}, None, open=True, interval_ms=10_000, name="billing")
    (chain,) = chains([told])
    assert not chain.is_dead(NOW + 29_000)
    assert chain.is_dead(NOW + 31_000)
    (note,) = chain.notes(NOW + 31_000)
    assert "consumer billing" in note
    assert "10 s" in note


def test_who_says_goodbye_is_not_dead() -> None:
    told = [
        consumed({(0, 0): 1}, None, open=True, interval_ms=10_000),
        consumed({}, None, sequence=1),
    ]
    (chain,) = chains(told)
    assert not chain.is_dead(NOW + 1_000_000)


def test_after_a_loss_the_same_offsets_are_counted_again() -> None:
    loss = event(Tier.BROKER, sequence=6, next=6, lost=[(0, 6, 10)])
    told: list[Event] = [stored({(0, 0): 10}, (0, 10)), loss, stored({(0, 0): 4}, (6, 10))]
    (chain,) = chains(told)
    assert total(chain) == 14
    assert chain.lost == {(0, 6, 10)}
    assert chain.notes(NOW) == []
