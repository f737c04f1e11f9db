"""Where the records of a batch lie, for compaction, which keeps their bytes as they are.

Rules kept here, and in the native twin:
1. Only what compaction decides by is read: keys and whether there is a value. Headers, the value's
   size and the sign of an offset delta are not its business: the log has taken them, too.
2. Bytes in which no records can be found raise CORRUPT_MESSAGE, and nothing else.
"""

from ottla.records.layout import RawRecord
from ottla.records.pure.decoding import read_varint
from ottla.records.record import corrupt


def locate_records(body: bytes, count: int) -> list[RawRecord]:
    """The records in a batch's (decompressed) body."""
    end = len(body)
    start = 0
    found: list[RawRecord] = []
    try:
        for _ in range(count):
            size, at = read_varint(body, start, 63)
            stop = at + size
            if size <= 0 or stop > end:
                corrupt(f"a record of {size} bytes with {end - at} left")
            at += 1  # the attributes, which mean nothing yet
            timestamp_delta, rest = read_varint(body, at, 63)
            offset_delta, at = read_varint(body, rest, 63)
            key_size, at = read_varint(body, at, 63)
            if max(key_size, 0) >= stop - at:
                corrupt(f"a record of {size} bytes has a key of {key_size}")
            key: bytes | None = None
            if key_size >= 0:
                key = body[at : at + key_size]
                at += key_size
            value_size, _ = read_varint(body, at, 63)
            found.append((start, rest, stop, timestamp_delta, offset_delta, key, value_size >= 0))
            start = stop
    except IndexError:
        corrupt("a record passes the end of its batch")
    if start != end:
        corrupt(f"{end - start} bytes after the last record of a batch")
    return found
