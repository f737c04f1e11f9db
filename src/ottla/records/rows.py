"""Arrow to record batches: rows of columns, written without a Python object for each.

Rules kept here:
1. Columns may be slices, of bytes or of text, with 32-bit or 64-bit offsets; a column that is not
   there, or has Arrow's null type, is null in every row.
2. A row's partition, where its key decides, is the Java client's choice.
3. Positions say which rows are meant and in which order: numbers of 32 bits.
"""

from array import array
from typing import TYPE_CHECKING

from ottla.records.batches import sealed
from ottla.records.compression import Codec, compress
from ottla.records.kernel import KERNEL, Kernel
from ottla.records.layout import Binary, Headers
from ottla.wire.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
    from typing_extensions import Buffer


class Rows:
    """The rows of Arrow columns, to be written as record batches."""

    def __init__(
        self,
        key: "pa.Array | None",
        value: "pa.Array | None",
        headers: "pa.Array | None" = None,
        *,
        kernel: Kernel = KERNEL,
    ) -> None:
        """`headers` are lists of structs of a key (text or bytes) and a value (bytes)."""
        lengths = {len(column) for column in (key, value, headers) if column is not None}
        if len(lengths) != 1:
            raise ValueError("columns of one length are needed, and one at least")
        self._length = lengths.pop()
        self._encoder = kernel.row_encoder(
            self._length,
            None if key is None else _binary("key", key),
            None if value is None else _binary("value", value),
            None if headers is None else _headers(headers),
        )

    def __len__(self) -> int:
        return self._length

    def partitions(self, count: int) -> "array[int]":
        """For each row the partition, of this many, that its key chooses; -1 without a key."""
        if count < 1:
            raise ValueError(f"a topic of {count} partitions")
        return self._encoder.partitions(count)

    def encode(self, positions: "Buffer | None", start: int, max_bytes: int) -> tuple[bytes, int]:
        """The inside of a batch: records of the rows at positions[start:], one at least, as long
        as they take no more than `max_bytes`; and the start of the next batch.

        The records have their batch's timestamp.
        """
        chosen = None if positions is None else _numbers(positions)
        count = self._length if chosen is None else len(chosen)
        if not 0 <= start < count:
            raise ValueError(f"row {start} of {count} is not a valid start of a batch")
        return self._encoder.encode(chosen, start, max_bytes)

    def digest(self, positions: "Buffer | None" = None) -> int:
        """A number of 64 bits for the rows (of those positions), whatever their order.

        It is the sum of the rows' hashes, modulo 2^64: sums of parts can be added up.
        """
        return self._encoder.digest(None if positions is None else _numbers(positions))


def group(numbers: "Buffer", *, kernel: Kernel = KERNEL) -> "dict[int, array[int]]":
    """The positions at which each number (of 32 bits) stands, in order: rows by partition."""
    return kernel.group(_numbers(numbers))


def batch(
    records: bytes,
    count: int,
    *,
    timestamp_ms: int,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytes:
    """A whole batch around the records that `Rows.encode` gave, as a producer sends it."""
    return sealed(
        compress(codec, records),
        count,
        codec=codec,
        last_offset_delta=count - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def _numbers(positions: "Buffer") -> "memoryview[int]":
    view = memoryview(positions)
    if view.itemsize == 1:  # The buffers of Arrow have no type.
        view = view.cast("B").cast("i")
    if view.format not in ("i", "=i", "<i") or not view.c_contiguous or view.ndim != 1:
        raise TypeError(f"positions are numbers of 32 bits, not {view.format!r}")
    return view


def _binary(name: str, column: "pa.Array") -> Binary:
    import pyarrow as pa

    if pa.types.is_null(column.type):
        column = column.cast(pa.binary())
    large = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    if not (large or pa.types.is_binary(column.type) or pa.types.is_string(column.type)):
        raise TypeError(f"{name} must be bytes or text, not {column.type}")
    validity, offsets, data = column.buffers()
    return Binary(
        validity if column.null_count else None,
        offsets or b"",
        data or b"",
        column.null_count,
        column.offset,
        large,
    )


def _headers(column: "pa.Array") -> Headers | None:
    import pyarrow as pa

    if pa.types.is_null(column.type):
        return None
    large = pa.types.is_large_list(column.type)
    if not (large or pa.types.is_list(column.type)):
        raise TypeError(f"headers must be a list of key and value, not {column.type}")
    entries = column.values
    names = [field.name for field in entries.type] if pa.types.is_struct(entries.type) else []
    if sorted(names) != ["key", "value"]:
        raise TypeError(f"headers must be a list of key and value, not {column.type}")
    # Flattened, an entry that is null has a null key, which no header may have.
    parts = dict(zip(names, entries.flatten(), strict=True))
    keys = _binary("the key of headers", parts["key"])
    values = _binary("the value of headers", parts["value"])
    validity, offsets = column.buffers()[:2]
    return Headers(
        validity if column.null_count else None,
        offsets or b"",
        len(entries),
        keys,
        values,
        column.null_count,
        column.offset,
        large,
    )
