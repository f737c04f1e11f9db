"""Record batches to Arrow: the records of one partition as columns.

Rules kept here:
1. The columns are those of Spark's Kafka source, but for topic and partition, which are the same
   in every row. As there, a record without headers has null headers, and no empty list.
2. A batch that is corrupt, or does not fit, raises and leaves no row behind; those before it stay.
3. Control batches have no rows. Batches that hold none of the wanted offsets are not read at all.
4. Timestamps are microseconds; those past what 64 bits can say become the furthest of them.
"""

from typing import TYPE_CHECKING

from ottla.records.compression import body_of
from ottla.records.kernel import KERNEL, Kernel
from ottla.records.layout import Binary, Headers
from ottla.records.record import INT32_MAX, corrupt
from ottla.wire.batch import HEADER_SIZE, crc_is_right, headers

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
    from typing_extensions import Buffer


class RecordColumns:
    """Records of one partition as columns, gathered from record batches until taken."""

    def __init__(self, *, headers: bool = False, kernel: Kernel = KERNEL) -> None:
        self._gathering = kernel.gathering(headers, INT32_MAX)

    def __len__(self) -> int:
        """Rows gathered."""
        return self._gathering.rows

    @property
    def nbytes(self) -> int:
        """Bytes of keys, values and headers gathered. No column can have more than 2 GB."""
        return self._gathering.nbytes

    def add(self, batches: "Buffer", first: int, end: int) -> int:
        """Read batches that lie one behind another and keep the records with first <= offset < end.

        A batch cut off at the end of the bytes is left out. Returns the offset after the last
        batch that was whole (`first` where there is none).
        """
        view = memoryview(batches).cast("B")
        after = first
        for at, header in headers(view):
            wanted = header.last_offset >= first and header.base_offset < end
            if wanted and not header.is_control:
                batch = view[at : at + header.size]
                if not crc_is_right(batch, header):
                    corrupt(f"the batch at offset {header.base_offset} has an invalid CRC")
                self._gathering.add(
                    body_of(header.codec, batch[HEADER_SIZE:]),
                    header.record_count,
                    header.base_offset,
                    header.base_timestamp,
                    header.max_timestamp if header.is_log_append_time else None,
                    first,
                    end,
                )
            after = max(after, header.next_offset)
        return after

    def take(self) -> "pa.RecordBatch":
        """The rows gathered; the next ones go into new columns."""
        import pyarrow as pa

        gathered = self._gathering.take()
        rows = gathered.rows
        columns = {
            "key": _binary(pa.binary(), rows, gathered.key),
            "value": _binary(pa.binary(), rows, gathered.value),
            "offset": _fixed(pa.int64(), rows, gathered.offset),
            "timestamp": _fixed(pa.timestamp("us", tz="UTC"), rows, gathered.timestamp),
            "timestampType": _fixed(pa.int32(), rows, gathered.timestamp_type),
        }
        if gathered.headers is not None:
            columns["headers"] = _lists(rows, gathered.headers)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _fixed(kind: "pa.DataType", rows: int, data: "Buffer") -> "pa.Array":
    import pyarrow as pa

    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)], 0)


def _binary(kind: "pa.DataType", rows: int, column: Binary) -> "pa.Array":
    import pyarrow as pa

    buffers = [_optional(column.validity), pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def _lists(rows: int, column: Headers) -> "pa.Array":
    import pyarrow as pa

    keys = _binary(pa.string(), column.entries, column.keys)
    values = _binary(pa.binary(), column.entries, column.values)
    entries = pa.StructArray.from_arrays([keys, values], names=["key", "value"])
    return pa.Array.from_buffers(
        pa.list_(entries.type),
        rows,
        [_optional(column.validity), pa.py_buffer(column.offsets)],
        column.null_count,
        children=[entries],
    )


def _optional(buffer: "Buffer | None") -> "pa.Buffer | None":
    import pyarrow as pa

    return None if buffer is None else pa.py_buffer(buffer)
