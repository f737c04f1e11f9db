"""What the kernels exchange with others: Arrow columns as plain buffers, and where records lie.

Numbers are little-endian, as Arrow has them on every machine that it runs on.
"""

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Buffer


RawRecord: TypeAlias = tuple[int, int, int, int, int, bytes | None, bool]
"""Where a record begins, where its offset delta does, where it ends; its timestamp delta, offset
delta and key; whether it has a value. A plain tuple: one is made for each record of a log."""


NO_TIMESTAMP = -1
MOST_NAMED = 100
"""How many records of a kind are named one by one: a batch may have millions."""


class Examined(NamedTuple):
    """What was found in the records of a batch."""

    max_timestamp: int
    """NO_TIMESTAMP where no record has a later one."""
    keyless: list[int]
    """Indexes of the first records without a key, at most MOST_NAMED."""
    untimely: list[tuple[int, int]]
    """Index and timestamp of the first records out of the range allowed, at most MOST_NAMED."""


class Binary(NamedTuple):
    """A column of bytes or text."""

    validity: "Buffer | None"
    """A bit for each row, the lowest first: 0 for null. None where there are no nulls."""
    offsets: "Buffer"
    """Where each row begins in the data, and at last where the last one ends."""
    data: "Buffer"
    null_count: int = 0
    first: int = 0
    """Rows that come before the column's first: a slice shares its buffers with the whole."""
    large: bool = False
    """Offsets have 64 bits instead of 32."""


class Headers(NamedTuple):
    """A column of lists of headers."""

    validity: "Buffer | None"
    offsets: "Buffer"
    """Where each row's headers begin in the keys and values."""
    entries: int
    """How many keys and values there are."""
    keys: Binary
    values: Binary
    null_count: int = 0
    first: int = 0
    large: bool = False


class Gathered(NamedTuple):
    """Records as columns."""

    rows: int
    key: Binary
    value: Binary
    offset: "Buffer"
    """64 bits each."""
    timestamp: "Buffer"
    """Microseconds, 64 bits each."""
    timestamp_type: "Buffer"
    """32 bits each."""
    headers: Headers | None
