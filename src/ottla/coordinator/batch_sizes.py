"""How large the batch of some records is, and how records are divided into batches that fit.

Rules kept here:
1. Sizes are exact: those of the batch that the runtime writes, which is not compressed.
2. Records that do not fit are found before they are replayed, and before their handler has changed
   anything: a request that cannot be written fails alone.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.coordinator.shard import CoordinatorRecord
from ottla.wire.batch import HEADER_SIZE

UNLIMITED: Final = 1 << 62
NOTHING: Final = 0
"""The limit of a partition that takes no writes at the moment: it has too few replicas in sync."""

MOST_AROUND_A_RECORD: Final = 23
"""Lengths, deltas, attributes and the count of headers, all at their longest."""
_FIXED: Final = 3
"""Attributes, the delta of the timestamp (all have the same), and no headers."""


def fits(records: Sequence[CoordinatorRecord], limit: int) -> bool:
    """Whether records go into one batch of at most this many bytes."""
    return not records or largest_size(records) <= limit or batch_size(records) <= limit


def largest_size(records: Iterable[CoordinatorRecord]) -> int:
    """What a batch of records takes at most; quicker than its exact size."""
    size = HEADER_SIZE
    for record in records:
        size += MOST_AROUND_A_RECORD + len(record.key) + len(record.value or b"")
    return size


def batch_size(records: Iterable[CoordinatorRecord]) -> int:
    """The size of a batch."""
    return HEADER_SIZE + sum(_record_size(record, at) for at, record in enumerate(records))


def batches(records: Sequence[CoordinatorRecord], limit: int) -> list[list[CoordinatorRecord]]:
    """Divide records into batches, in their order. One that is too large alone is alone."""
    found: list[list[CoordinatorRecord]] = []
    size = limit
    for record in records:
        more = _record_size(record, len(found[-1]) if found else 0)
        if size + more > limit:
            found.append([])
            size, more = HEADER_SIZE, _record_size(record, 0)
        found[-1].append(record)
        size += more
    return found


def _record_size(record: CoordinatorRecord, offset_delta: int) -> int:
    size = _FIXED + _varint_size(offset_delta) + _varint_size(len(record.key)) + len(record.key)
    if record.value is None:
        size += 1
    else:
        size += _varint_size(len(record.value)) + len(record.value)
    return _varint_size(size) + size


def _varint_size(number: int) -> int:
    """Of a number that is not negative: seven bits a byte, after one for the sign."""
    return (max(1, (number << 1).bit_length()) + 6) // 7
