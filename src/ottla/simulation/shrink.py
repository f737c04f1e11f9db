"""Finds a small schedule of faults with which a seed still fails.

Rules kept here:
1. Faults are left out by their numbers; what is left happens as before, at about the same time.
2. A schedule counts as failing with any violation: with fewer faults another one may come first.
3. The number of attempts is bounded; the smallest schedule found until then is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

MOST_ATTEMPTS: Final = 60


def shrunk(faults: int, fails: Callable[[frozenset[int]], bool]) -> list[int]:
    """The numbers of the faults that are needed; `fails` runs the seed without some."""
    every = frozenset(range(1, faults + 1))
    needed: list[int] = sorted(every)
    parts = 2
    attempts = 0
    while needed and attempts < MOST_ATTEMPTS:
        for piece in _pieces(needed, parts):
            attempts += 1
            rest = [fault for fault in needed if fault not in piece]
            if fails(every.difference(rest)):
                needed, parts = rest, max(2, parts - 1)
                break
            if attempts >= MOST_ATTEMPTS:
                break
        else:
            if parts >= len(needed):
                break
            parts = min(len(needed), parts * 2)
    return needed


def _pieces(faults: Sequence[int], parts: int) -> list[set[int]]:
    size = max(1, len(faults) // parts)
    return [set(faults[start : start + size]) for start in range(0, len(faults), size)]
