"""State batches of a share partition: runs of offsets with one delivery state and count.

Rules kept here:
1. The result is sorted, without overlaps, and neighbours that say the same are one batch.
2. Where batches overlap the higher delivery count wins, then the higher delivery state.
3. Nothing below the start offset is kept (-1: there is none).

The names of the states are Kafka's: 0 AVAILABLE, 2 ACKNOWLEDGED, 4 ARCHIVED. ACQUIRED (1) is never
written.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple


class StateBatch(NamedTuple):
    """Offsets from first to last, both included."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def combined(batches: Iterable[StateBatch], start_offset: int = -1) -> tuple[StateBatch, ...]:
    """What the batches say together: one sweep over their ends."""
    waiting = sorted(_cut(batches, start_offset))
    found: list[StateBatch] = []
    active: list[tuple[int, int, int]] = []  # the strongest first: -count, -state, last
    at, index = 0, 0
    while index < len(waiting) or active:
        if not active:
            at = max(at, waiting[index].first_offset)
        while index < len(waiting) and waiting[index].first_offset <= at:
            batch = waiting[index]
            heappush(active, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            index += 1
        while active and active[0][2] < at:
            heappop(active)
        if not active:
            continue
        count, state, last = active[0]
        if index < len(waiting):
            last = min(last, waiting[index].first_offset - 1)
        _add(found, StateBatch(at, last, -state, -count))
        at = last + 1
    return tuple(found)


def _cut(batches: Iterable[StateBatch], start_offset: int) -> Iterable[StateBatch]:
    for batch in batches:
        if batch.last_offset >= max(start_offset, batch.first_offset):
            yield batch._replace(first_offset=max(batch.first_offset, start_offset))


def _add(found: list[StateBatch], batch: StateBatch) -> None:
    if found:
        before = found[-1]
        if before.last_offset + 1 == batch.first_offset and before[2:] == batch[2:]:
            found[-1] = before._replace(last_offset=batch.last_offset)
            return
    found.append(batch)
