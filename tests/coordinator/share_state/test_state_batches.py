"""State batches are combined as offset by offset: the strongest word about each offset wins."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.share_state.batches import StateBatch, combined

ACKNOWLEDGED, ARCHIVED, AVAILABLE = 2, 4, 0


@st.composite
def batches(draw: st.DrawFn) -> StateBatch:
    first = draw(st.integers(0, 30))
    return StateBatch(
        first,
        first + draw(st.integers(0, 8)),
        draw(st.sampled_from((AVAILABLE, ACKNOWLEDGED, ARCHIVED))),
        draw(st.integers(1, 3)),
    )


def by_offset(found: list[StateBatch], start: int) -> dict[int, tuple[int, int]]:
    words: dict[int, tuple[int, int]] = {}
    for batch in found:
        for offset in range(max(batch.first_offset, start), batch.last_offset + 1):
            word = (batch.delivery_count, batch.delivery_state)
            words[offset] = max(words.get(offset, (0, 0)), word)
    return words


@given(st.lists(batches(), max_size=12), st.integers(-1, 40))
def test_each_offset_has_its_strongest_word(found: list[StateBatch], start: int) -> None:
    result = list(combined(found, start))
    assert by_offset(result, start) == by_offset(found, start)
    for before, after in pairwise(result):
        assert before.last_offset < after.first_offset
        touching = before.last_offset + 1 == after.first_offset
        assert not (touching and before[2:] == after[2:])


@given(st.lists(batches(), max_size=8), st.lists(batches(), max_size=8))
def test_updates_may_be_combined_before_or_one_by_one(
    first: list[StateBatch], second: list[StateBatch]
) -> None:
    assert combined([*combined(first), *second]) == combined([*first, *second])


def test_a_batch_inside_another_splits_it() -> None:
    found = combined([StateBatch(0, 9, AVAILABLE, 1), StateBatch(3, 5, ACKNOWLEDGED, 1)])
    assert found == (
        StateBatch(0, 2, AVAILABLE, 1),
        StateBatch(3, 5, ACKNOWLEDGED, 1),
        StateBatch(6, 9, AVAILABLE, 1),
    )
