"""The records inside a batch: their bytes to Python values and back, in pure Python.

Rules kept here:
1. Bytes that are not records raise CORRUPT_MESSAGE, and nothing else. A length is compared with
   what is left before it is used, and a record must fill exactly the size that it states.
2. Header keys are text. Kafka's clients may send any bytes there; those that are not UTF-8 pass
   through as Python passes file names (surrogateescape), so that reading and writing again
   changes nothing.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn

from ottla.wire.errors import ErrorCode, KafkaError

SMALLEST_RECORD = 7
"""Bytes of a record without key, value and headers, its size included."""

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1


class Record(NamedTuple):
    """One record with its absolute offset, and its timestamp in milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def decode_records(
    data: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> list[Record]:
    """Read the records of a batch's (decompressed) body.

    With an append time, that is the timestamp of all.
    """
    if count < 0 or count * SMALLEST_RECORD > len(data):
        _corrupt(f"{count} records in {len(data)} bytes")
    records = []
    at = 0
    try:
        for _ in range(count):
            record, at = _read_record(data, at, base_offset, base_timestamp, append_time)
            records.append(record)
    except IndexError:
        _corrupt("a record passes the end of its batch")
    if at != len(data):
        _corrupt(f"{len(data) - at} bytes after the last record of a batch")
    return records


def encode_records(records: Iterable[Record], base_offset: int, base_timestamp: int) -> bytes:
    """Return the body of a batch. Offsets must grow from record to record."""
    out = bytearray()
    last = -1
    for record in records:
        delta = record.offset - base_offset
        if not last < delta <= INT32_MAX:
            raise ValueError(f"offset {record.offset} does not fit in a batch from {base_offset}")
        last = delta
        body = bytearray(1)
        body += varint(record.timestamp - base_timestamp)
        body += varint(delta)
        _write_bytes(body, record.key)
        _write_bytes(body, record.value)
        body += varint(len(record.headers))
        for key, value in record.headers:
            _write_bytes(body, key.encode("utf-8", "surrogateescape"))
            _write_bytes(body, value)
        out += varint(len(body))
        out += body
    return bytes(out)


def varint(value: int) -> bytes:
    """Return a signed number in zigzag form, seven bits a byte."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    if rest < 0x80:
        return _ONE_BYTE[rest]
    if rest >> 64:
        raise ValueError(f"{value} takes more than 64 bits")
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_ONE_BYTE = [bytes((value,)) for value in range(0x80)]


def _write_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out += b"\x01"
        return
    out += varint(len(data))
    out += data


def _read_record(
    data: bytes, at: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> tuple[Record, int]:
    size, at = _read_varint(data, at)
    stop = at + size
    if size < SMALLEST_RECORD - 1 or stop > len(data):
        _corrupt(f"a record of {size} bytes with {len(data) - at} left")
    timestamp_delta, at = _read_varint(data, at + 1, 63)
    offset_delta, at = _read_varint(data, at)
    key, at = _read_bytes(data, at, stop)
    value, at = _read_bytes(data, at, stop)
    header_count, at = _read_varint(data, at)
    headers: Sequence[tuple[str, bytes | None]] = ()
    if header_count:
        headers, at = _read_headers(data, at, stop, header_count)
    if at != stop:
        _corrupt(f"a record of {size} bytes ends {at - stop} bytes after that")
    timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
    offset = base_offset + offset_delta
    if offset_delta < 0 or offset > INT64_MAX or not INT64_MIN <= timestamp <= INT64_MAX:
        _corrupt(f"offset delta {offset_delta}, timestamp delta {timestamp_delta}")
    return Record(offset, timestamp, key, value, headers), at


def _read_headers(
    data: bytes, at: int, stop: int, count: int
) -> tuple[list[tuple[str, bytes | None]], int]:
    # A header takes two bytes at least: the lengths of its key and value.
    if count < 0 or count * 2 > stop - at:
        _corrupt(f"{count} headers in {stop - at} bytes")
    headers = []
    for _ in range(count):
        key, at = _read_bytes(data, at, stop)
        value, at = _read_bytes(data, at, stop)
        if key is None:
            _corrupt("a header without a key")
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return headers, at


def _read_bytes(data: bytes, at: int, stop: int) -> tuple[bytes | None, int]:
    size, at = _read_varint(data, at)
    if size < 0:
        if size < -1:
            _corrupt(f"a key, value or header of {size} bytes")
        return None, at
    end = at + size
    if end > stop:
        _corrupt(f"a key, value or header of {size} bytes with {stop - at} left")
    return data[at:end], end


def _read_varint(data: bytes, at: int, last_shift: int = 28) -> tuple[int, int]:
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
            _corrupt("a varint without an end")
    if value >> (64 if last_shift == 63 else 32):
        _corrupt("a varint of too many bits")
    return (value >> 1) ^ -(value & 1), at


def _corrupt(what: str) -> NoReturn:
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, what)
