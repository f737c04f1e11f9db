"""Records and rows of Arrow columns to the inside of a batch.

Rules kept here, and in the native twin:
1. What does not fit in a batch raises ValueError, and nothing is written.
2. A column's offsets are checked before its data is read.
3. Equal rows have equal bytes and equal hashes, wherever they are computed.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.records.hashing import partition_of, row_hash
from ottla.records.layout import Binary, Headers
from ottla.records.record import INT32_MAX, Record, varint

if TYPE_CHECKING:
    from typing_extensions import Buffer

LARGEST_INSIDE = INT32_MAX - 49
"""A batch's length is a number of 32 bits, and counts 49 bytes of its header."""
NULL = b"\x01"
"""The length of what is null: minus one."""


def encode_records(records: Iterable[Record], base_offset: int, base_timestamp: int) -> bytes:
    """Return the body of a batch. Offsets must grow from record to record."""
    out: list[bytes] = []
    last = -1
    for record in records:
        offset, timestamp, key, value, headers = record
        delta = offset - base_offset
        if not last < delta <= INT32_MAX:
            raise ValueError(f"offset {offset} does not fit in a batch from {base_offset}")
        last = delta
        inside = b"\0" + varint(timestamp - base_timestamp)
        inside += varint(delta) + _part(key) + _part(value) + varint(len(headers))
        for header_key, header_value in headers:
            inside += _part(header_key.encode("utf-8", "surrogateescape")) + _part(header_value)
        out += (varint(len(inside)), inside)
    return b"".join(out)


def _part(data: bytes | None) -> bytes:
    """A key or value with its length before it."""
    return NULL if data is None else varint(len(data)) + data


class RowEncoder:
    """Rows of columns, to be written."""

    def __init__(
        self, rows: int, key: Binary | None, value: Binary | None, headers: Headers | None
    ) -> None:
        self._rows = rows
        self._keys = _items(key, rows)
        self._values = _items(value, rows)
        self._headers = _header_lists(headers, rows)

    def partitions(self, count: int) -> "array[int]":
        """The partition of each keyed row; -1 for those without a key."""
        return array("i", [-1 if key is None else partition_of(key, count) for key in self._keys])

    def encode(
        self, positions: "memoryview[int] | None", start: int, max_bytes: int
    ) -> tuple[bytes, int]:
        """Records of the rows at the positions from `start` on, up to this many bytes; and the next
        start.
        """
        limit = min(max_bytes, LARGEST_INSIDE)
        out: list[bytes] = []
        whole = 0
        chosen = range(self._rows) if positions is None else positions
        at = start
        while at < len(chosen):
            row = self._checked(chosen[at])
            headers = self._headers_of(row)
            inside = (
                b"\0\0" + varint(at - start) + _part(self._keys[row]) + _part(self._values[row])
            )
            inside += varint(len(headers))
            for key, value in headers:
                inside += _part(key) + _part(value)
            size = varint(len(inside))
            whole += len(size) + len(inside)
            if whole > limit:
                if out:
                    break
                if whole > LARGEST_INSIDE:
                    raise ValueError(f"a row of {len(inside)} bytes does not fit in a batch")
            out += (size, inside)
            at += 1
        return b"".join(out), at

    def digest(self, positions: "memoryview[int] | None") -> int:
        """The sum of the hashes of the rows at the positions, or of all, in 64 bits."""
        chosen = range(self._rows) if positions is None else positions
        total = 0
        for position in chosen:
            row = self._checked(position)
            total += row_hash(self._keys[row], self._values[row], self._headers_of(row))
        return total & 0xFFFFFFFFFFFFFFFF

    def _checked(self, row: int) -> int:
        if not 0 <= row < self._rows:
            raise IndexError(f"row {row} of {self._rows}")
        return row

    def _headers_of(self, row: int) -> list[tuple[bytes, bytes | None]]:
        headers = []
        for key, value in self._headers[row]:
            if key is None:
                raise ValueError("a header without a key")
            headers.append((key, value))
        return headers


def group(numbers: "memoryview[int]") -> "dict[int, array[int]]":
    """The positions at which each number stands, in order."""
    groups: dict[int, array[int]] = {}
    for position, number in enumerate(numbers):
        found = groups.get(number)
        if found is None:
            found = groups[number] = array("i")
        found.append(position)
    return groups


def _items(column: Binary | None, rows: int) -> list[bytes | None]:
    if column is None or not rows:
        return [None] * rows
    data = memoryview(column.data)
    offsets = _offsets(column, rows, len(data))
    valid = _bits(column.validity, column.first, rows)
    return [
        bytes(data[offsets[row] : offsets[row + 1]]) if valid[row] else None for row in range(rows)
    ]


def _header_lists(
    column: Headers | None, rows: int
) -> Sequence[Sequence[tuple[bytes | None, bytes | None]]]:
    if column is None or not rows:
        return [()] * rows
    offsets = _offsets(column, rows, column.entries)
    valid = _bits(column.validity, column.first, rows)
    headers = list(
        zip(_items(column.keys, column.entries), _items(column.values, column.entries), strict=True)
    )
    return [headers[offsets[row] : offsets[row + 1]] if valid[row] else () for row in range(rows)]


def _offsets(column: Binary | Headers, rows: int, end: int) -> "memoryview[int]":
    """The offsets of a column's rows, once it is sure that they only grow, up to the end."""
    width = 8 if column.large else 4
    whole = memoryview(column.offsets)
    if column.first < 0 or (column.first + rows + 1) * width > whole.nbytes:
        raise ValueError(f"a column with offsets for less than {rows} rows")
    wanted = whole.cast("B")[column.first * width : (column.first + rows + 1) * width]
    offsets = wanted.cast("q" if column.large else "i")
    last = 0
    for offset in offsets:
        if not last <= offset <= end:
            raise ValueError(f"a column's offsets pass its end at {end}")
        last = offset
    return offsets


def _bits(validity: "Buffer | None", first: int, rows: int) -> list[bool]:
    if validity is None:
        return [True] * rows
    bits = memoryview(validity).cast("B")
    if (first + rows + 7) // 8 > len(bits):
        raise ValueError(f"a column with validity for less than {rows} rows")
    return [bool(bits[at >> 3] >> (at & 7) & 1) for at in range(first, first + rows)]
