"""The records of a batch as compaction sees them: where they lie, which key, which offset, a value.

Rules kept here:
1. A record that stays keeps its bytes; only where the base timestamp of its batch changes is the
   one field that counts from it rewritten. What is not needed to decide is not decoded.
2. A batch keeps its offsets, its sequences and its producer, however few of its records stay: so
   producers, readers and followers see the same log with gaps. Without any record it is a header.
3. The delete horizon (KIP-534), from which on tombstones and markers may go, is in the base
   timestamp of a batch that has attribute bit 6.
4. Bytes that are not records raise CORRUPT_MESSAGE, and so does a batch with more of them than
   memory is meant for.
"""

from typing import Final

from crc32c import crc32c

from ottla.records.compression import Codec, compress, decompress
from ottla.records.kernel import KERNEL
from ottla.records.layout import RawRecord
from ottla.records.record import varint
from ottla.wire.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_COVERS_FROM,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
)
from ottla.wire.errors import ErrorCode, KafkaError

MOST_RECORDS: Final = 1_000_000
"""Of one batch: each takes about 200 bytes while the batch is looked at."""


def read_records(header: BatchHeader, batch: memoryview) -> tuple[bytes, list[RawRecord]]:
    """The (decompressed) body of a batch and the records in it."""
    if header.record_count > MOST_RECORDS:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"a batch of {header.record_count} records; compaction reads {MOST_RECORDS}",
        )
    body = decompress(header.codec, batch[HEADER_SIZE:])
    return body, KERNEL.locate_records(body, header.record_count)


def delete_horizon(header: BatchHeader) -> int | None:
    """When the batch's tombstones, or its marker, may go; None if it was not yet decided."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None


def batch_of(
    header: BatchHeader, body: bytes, kept: list[RawRecord], horizon: int | None
) -> tuple[bytes, int]:
    """The batch with only these of its records, and its largest timestamp.

    With a horizon, that is set for the first time.
    """
    base = header.base_timestamp
    if header.is_log_append_time:
        largest = header.max_timestamp
    else:
        largest = base + max(record[3] for record in kept)
    attributes = header.attributes
    if horizon is None:
        data = b"".join([body[record[0] : record[2]] for record in kept])
    else:
        attributes |= DELETE_HORIZON
        data = b"".join([_moved(body, record, base - horizon) for record in kept])
        base = horizon
    data = compress(Codec(attributes & CODEC_MASK), data)
    return _batch(header, attributes, base, largest, len(kept), data), largest


def _moved(body: bytes, record: RawRecord, by: int) -> bytes:
    """A record's bytes with a timestamp delta increased by this."""
    rest = body[record[1] : record[2]]
    delta = varint(record[3] + by)
    # Kafka gives the attributes of a record no meaning, so they are one zero byte.
    return b"".join((varint(1 + len(delta) + len(rest)), b"\0", delta, rest))


def emptied(header: BatchHeader) -> bytes:
    """What stays of a batch without records: whose it was, and which offsets and sequences."""
    attributes = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return _batch(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, b"")


def _batch(
    header: BatchHeader,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
    body: bytes,
) -> bytes:
    batch = bytearray(HEADER_SIZE)
    batch += body
    changed = header._replace(
        length=len(batch) - LOG_OVERHEAD,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=count,
    )
    HEADER.pack_into(batch, 0, *changed)
    crc = crc32c(memoryview(batch)[CRC_COVERS_FROM:])
    HEADER.pack_into(batch, 0, *changed._replace(crc=crc))
    return bytes(batch)
