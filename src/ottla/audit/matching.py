"""Pairing what two tiers have counted, where of a count only a range of windows may be known.

Two counts can be of the same records if their ranges have a window in common. As many records as
possible are paired; what is left over was lost on the way (of the first tier), or came twice (of
the second). Taking the range that ends first, and for it the partner that ends first, is the best:
every possible partner contains the end of the first one, so partners differ only in how far they
reach.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple


class Item(NamedTuple):
    """Some records, and the first and the last window that they can be in."""

    first: int
    last: int
    n: int


class Matched(NamedTuple):
    """How two tiers fit together."""

    pairs: list[tuple[Item, Item]]
    """Of both sides the paired share; both have the same n."""
    missing: list[Item]
    extra: list[Item]


def match(above: Iterable[Item], below: Iterable[Item]) -> Matched:
    """Pair the counts of a tier with those of the next one."""
    waiting = sorted(above, key=_from_the_end), sorted(below, key=_from_the_end)
    ends = sorted({item.last for side in waiting for item in side})
    heaps: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]] = ([], [])
    pairs: list[tuple[Item, Item]] = []
    left: tuple[list[Item], list[Item]] = ([], [])
    for end in ends:
        for side in (0, 1):
            while waiting[side] and waiting[side][-1].first <= end:
                item = waiting[side].pop()
                if item.n:
                    heappush(heaps[side], (item.last, item.first, item.n))
        for side in (0, 1):
            own, others = heaps[side], heaps[1 - side]
            while own and own[0][0] == end:
                last, first, n = heappop(own)
                while n and others:
                    other_last, other_first, other_n = heappop(others)
                    share = min(n, other_n)
                    n -= share
                    pair = Item(first, last, share), Item(other_first, other_last, share)
                    pairs.append(pair if side == 0 else (pair[1], pair[0]))
                    if other_n > share:
                        heappush(others, (other_last, other_first, other_n - share))
                if n:
                    left[side].append(Item(first, last, n))
    return Matched(pairs, *left)


def _from_the_end(item: Item) -> int:
    return -item.first
