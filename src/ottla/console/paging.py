"""One page of a long list (pure)."""

from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

ROWS: Final = 50


class Page(NamedTuple, Generic[T]):
    """Some items of a list, and where they are in it; pages count from 1."""

    items: Sequence[T]
    number: int
    pages: int
    total: int
    first: int

    @property
    def last(self) -> int:
        """The position of the last item, counted from 1; 0 where there is none."""
        return self.first - 1 + len(self.items) if self.items else 0


def page_of(items: Sequence[T], number: int, rows: int = ROWS) -> Page[T]:
    """A page; a number outside the list is the nearest page."""
    pages = max(-(-len(items) // rows), 1)
    number = min(max(number, 1), pages)
    start = (number - 1) * rows
    shown = items[start : start + rows]
    return Page(shown, number, pages, len(items), start + 1 if shown else 0)
