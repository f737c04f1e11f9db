from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from ottla.audit.matching import Item, match


def best(above: list[Item], below: list[Item]) -> int:
    """The most records that can be paired, by augmenting paths over single records."""
    ups = [item for item in above for _ in range(item.n)]
    downs = [item for item in below for _ in range(item.n)]
    fits = {
        (up, down)
        for up, down in product(range(len(ups)), range(len(downs)))
        if ups[up].first <= downs[down].last and downs[down].first <= ups[up].last
    }
    partner: dict[int, int] = {}

    def augment(up: int, seen: set[int]) -> bool:
        for down in range(len(downs)):
            if (up, down) in fits and down not in seen:
                seen.add(down)
                if down not in partner or augment(partner[down], seen):
                    partner[down] = up
                    return True
        return False

    return sum(augment(up, set()) for up in range(len(ups)))


@st.composite
def items(draw: st.DrawFn) -> list[Item]:
    found = draw(
        st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 3)), max_size=6)
    )
    return [Item(first, first + length, n) for first, length, n in found]


@given(items(), items())
def test_as_many_records_as_possible_are_paired(above: list[Item], below: list[Item]) -> None:
    matched = match(above, below)
    paired = sum(one.n for one, _ in matched.pairs)
    assert paired == best(above, below)
    assert paired + sum(item.n for item in matched.missing) == sum(item.n for item in above)
    assert paired + sum(item.n for item in matched.extra) == sum(item.n for item in below)
    for one, other in matched.pairs:
        assert one.n == other.n > 0
        assert one.first <= other.last
        assert other.first <= one.last


def test_what_has_one_window_only_meets_its_own() -> None:
    matched = match([Item(1, 1, 5), Item(2, 2, 5)], [Item(1, 1, 3), Item(2, 2, 6)])
    assert matched.missing == [Item(1, 1, 2)]
    assert matched.extra == [Item(2, 2, 1)]
