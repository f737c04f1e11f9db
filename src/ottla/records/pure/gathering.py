"""The records inside batches to Arrow's columns.

Rules kept here, and in the native twin:
1. A body is read as `decoding` reads it; one that raises leaves no row behind.
2. Header keys that are not UTF-8 are replaced as Java does: a column of text can hold text only.
3. No column grows past what 32-bit offsets can say: OverflowError, and again no row.
4. A record without headers has none, not an empty list.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from ottla.records.layout import Binary, Gathered, Headers
from ottla.records.pure.decoding import decode_records
from ottla.records.record import INT32_MAX, INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from typing_extensions import Buffer

CREATE_TIME = 0
LOG_APPEND_TIME = 1
MICROSECONDS = 1000
"""Of a millisecond."""


class Gathering:
    """Records as columns, gathered from the bodies of batches until taken."""

    def __init__(self, headers: bool, largest: int = INT32_MAX) -> None:
        """No column may have more than `largest` bytes."""
        self._with_headers = headers
        self._largest = largest
        self._start_anew()

    def _start_anew(self) -> None:
        self._keys = _Bytes()
        self._values = _Bytes()
        self._offsets = array("q")
        self._timestamps = array("q")
        self._types = array("i")
        self._header_ends = array("i", (0,))
        self._header_keys = _Bytes()
        self._header_values = _Bytes()

    @property
    def rows(self) -> int:
        """Rows gathered."""
        return len(self._offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of keys, values and headers gathered."""
        return sum(
            column.size
            for column in (self._keys, self._values, self._header_keys, self._header_values)
        )

    def add(
        self,
        data: "Buffer",
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
        first: int,
        end: int,
    ) -> None:
        """Read a body as decode_records does, and keep the records with first <= offset < end."""
        records = [
            record
            for record in decode_records(data, count, base_offset, base_timestamp, append_time)
            if first <= record.offset < end
        ]
        columns: list[tuple[_Bytes, list[bytes | None]]] = [
            (self._keys, [record.key for record in records]),
            (self._values, [record.value for record in records]),
        ]
        if self._with_headers:
            headers = [header for record in records for header in record.headers]
            columns += (
                (self._header_keys, [_text(key) for key, _ in headers]),
                (self._header_values, [value for _, value in headers]),
            )
        for column, items in columns:
            column.check_room(items, self._largest)
        for column, items in columns:
            column.extend(items)
        if self._with_headers:
            for record in records:
                self._header_ends.append(self._header_ends[-1] + len(record.headers))
        self._offsets.extend(record.offset for record in records)
        self._timestamps.extend(_microseconds(record.timestamp) for record in records)
        kind = CREATE_TIME if append_time is None else LOG_APPEND_TIME
        self._types.extend([kind] * len(records))

    def take(self) -> Gathered:
        """Hand out the columns, and start over."""
        headers = None
        if self._with_headers:
            ends = self._header_ends
            filled = [begin < end for begin, end in pairwise(ends)]
            headers = Headers(
                None if all(filled) else _bitmap(filled),
                ends,
                ends[-1],
                self._header_keys.column(),
                self._header_values.column(),
                null_count=filled.count(False),
            )
        gathered = Gathered(
            self.rows,
            self._keys.column(),
            self._values.column(),
            self._offsets,
            self._timestamps,
            self._types,
            headers,
        )
        self._start_anew()
        return gathered


class _Bytes:
    """A growing column of bytes."""

    def __init__(self) -> None:
        self._items: list[bytes | None] = []
        self.size = 0

    def check_room(self, items: Iterable[bytes | None], largest: int) -> None:
        """Raise OverflowError where these would be too many bytes."""
        if self.size + _total(items) > largest:
            raise OverflowError(f"a column of more than {largest} bytes")

    def extend(self, items: Sequence[bytes | None]) -> None:
        """Append these."""
        self._items += items
        self.size += _total(items)

    def column(self) -> Binary:
        """As Arrow has it."""
        sizes = (0 if item is None else len(item) for item in self._items)
        valid = [item is not None for item in self._items]
        return Binary(
            None if all(valid) else _bitmap(valid),
            array("i", accumulate(sizes, initial=0)),
            b"".join([item for item in self._items if item is not None]),
            null_count=valid.count(False),
        )


def _total(items: Iterable[bytes | None]) -> int:
    return sum(len(item) for item in items if item is not None)


def _bitmap(bits: Sequence[bool]) -> bytes:
    out = bytearray((len(bits) + 7) // 8)
    for at, bit in enumerate(bits):
        if bit:
            out[at >> 3] |= 1 << (at & 7)
    return bytes(out)


def _text(header_key: str) -> bytes:
    raw = header_key.encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "replace").encode()


def _microseconds(milliseconds: int) -> int:
    """The nearest that 64 bits can say: a producer may send any timestamp."""
    return max(INT64_MIN, min(INT64_MAX, milliseconds * MICROSECONDS))
