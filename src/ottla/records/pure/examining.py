"""What a broker asks of a batch's records, answered without keeping them.

Rules kept here, and in the native twin:
1. Bytes that are not records raise CORRUPT_MESSAGE, by the rules of decoding.
2. Memory does not grow with the number of records: of those to be named there are MOST_NAMED.
3. seek_timestamp() reads no further than to the record that it looks for.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.records.layout import MOST_NAMED, NO_TIMESTAMP, Examined
from ottla.records.pure.decoding import read_record
from ottla.records.record import INT64_MAX, INT64_MIN, SMALLEST_RECORD, Record, corrupt

if TYPE_CHECKING:
    from typing_extensions import Buffer


def examine_records(
    data: "Buffer",
    count: int,
    base_timestamp: int,
    earliest: int = INT64_MIN,
    latest: int = INT64_MAX,
) -> Examined:
    """Check the records of a body; return their largest timestamp and which are not allowed."""
    largest = NO_TIMESTAMP
    keyless: list[int] = []
    untimely: list[tuple[int, int]] = []
    for index, record in enumerate(_records(data, count, base_timestamp)):
        timestamp = record.timestamp
        largest = max(largest, timestamp)
        if record.key is None and len(keyless) < MOST_NAMED:
            keyless.append(index)
        if (
            not earliest <= timestamp <= latest
            and timestamp != NO_TIMESTAMP
            and len(untimely) < MOST_NAMED
        ):
            untimely.append((index, timestamp))
    return Examined(largest, keyless, untimely)


def seek_timestamp(
    data: "Buffer", count: int, base_timestamp: int, timestamp: int, least_delta: int
) -> tuple[int, int] | None:
    """Timestamp and offset delta of the first record at or after a timestamp and delta, or None."""
    for record in _records(data, count, base_timestamp):
        if record.timestamp >= timestamp and record.offset >= least_delta:
            return record.timestamp, record.offset
    return None


def validate_records(data: "Buffer", at: int, count: int, base_timestamp: int) -> int:
    """Check the framing of the records behind a position; return their largest timestamp."""
    records = _records(memoryview(data)[at:], count, base_timestamp)
    largest = NO_TIMESTAMP
    for record in records:
        largest = max(largest, record.timestamp)
    return largest


def _records(data: "Buffer", count: int, base_timestamp: int) -> Iterator[Record]:
    """One record after the other; their offsets are their deltas."""
    body = bytes(data)
    if count < 0 or count * SMALLEST_RECORD > len(body):
        corrupt(f"{count} records in {len(body)} bytes")
    at = 0
    try:
        for _ in range(count):
            record, at = read_record(body, at, 0, base_timestamp, None)
            yield record
    except IndexError:
        corrupt("a record passes the end of its batch")
    if at != len(body):
        corrupt(f"{len(body) - at} bytes after the last record of a batch")
