"""The records inside a batch to Python values.

Rules kept here, and in the native twin:
1. Bytes that are not records raise CORRUPT_MESSAGE, and nothing else. A length is compared with
   what is left before it is used, and a record must fill exactly the size that it states.
2. Header keys are text. Kafka's clients may send any bytes there; those that are not UTF-8 pass
   through as Python passes file names (surrogateescape), so that reading and writing again
   changes nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.records.record import INT64_MAX, INT64_MIN, SMALLEST_RECORD, Record, corrupt

if TYPE_CHECKING:
    from typing_extensions import Buffer


def decode_records(
    data: "Buffer", count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> list[Record]:
    """Read the records of a batch's (decompressed) body.

    With an append time, that is the timestamp of all.
    """
    body = bytes(data)
    if count < 0 or count * SMALLEST_RECORD > len(body):
        corrupt(f"{count} records in {len(body)} bytes")
    records = []
    at = 0
    try:
        for _ in range(count):
            record, at = read_record(body, at, base_offset, base_timestamp, append_time)
            records.append(record)
    except IndexError:
        corrupt("a record passes the end of its batch")
    if at != len(body):
        corrupt(f"{len(body) - at} bytes after the last record of a batch")
    return records


def read_record(
    data: bytes, at: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> tuple[Record, int]:
    """Read the record at a position; return it and the position after it."""
    size, at = read_varint(data, at)
    stop = at + size
    if size < SMALLEST_RECORD - 1 or stop > len(data):
        corrupt(f"a record of {size} bytes with {len(data) - at} left")
    timestamp_delta, at = read_varint(data, at + 1, 63)
    offset_delta, at = read_varint(data, at)
    key, at = _read_bytes(data, at, stop)
    value, at = _read_bytes(data, at, stop)
    header_count, at = read_varint(data, at)
    headers: Sequence[tuple[str, bytes | None]] = ()
    if header_count:
        headers, at = _read_headers(data, at, stop, header_count)
    if at != stop:
        corrupt(f"a record of {size} bytes ends {at - stop} bytes after that")
    timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
    offset = base_offset + offset_delta
    if offset_delta < 0 or offset > INT64_MAX or not INT64_MIN <= timestamp <= INT64_MAX:
        corrupt(f"offset delta {offset_delta}, timestamp delta {timestamp_delta}")
    return Record(offset, timestamp, key, value, headers), at


def _read_headers(
    data: bytes, at: int, stop: int, count: int
) -> tuple[list[tuple[str, bytes | None]], int]:
    # A header takes two bytes at least: the lengths of its key and value.
    if count < 0 or count * 2 > stop - at:
        corrupt(f"{count} headers in {stop - at} bytes")
    headers = []
    for _ in range(count):
        key, at = _read_bytes(data, at, stop)
        value, at = _read_bytes(data, at, stop)
        if key is None:
            corrupt("a header without a key")
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return headers, at


def _read_bytes(data: bytes, at: int, stop: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at)
    if size < 0:
        if size < -1:
            corrupt(f"a key, value or header of {size} bytes")
        return None, at
    end = at + size
    if end > stop:
        corrupt(f"a key, value or header of {size} bytes with {stop - at} left")
    return data[at:end], end


def read_varint(data: bytes, at: int, last_shift: int = 28) -> tuple[int, int]:
    """Read a zigzag varint: of 32 bits (five bytes), or of 64 (ten) with a last shift of 63."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > last_shift:
            corrupt("a varint without an end")
    if value >> (64 if last_shift == 63 else 32):
        corrupt("a varint of too many bits")
    return (value >> 1) ^ -(value & 1), at
