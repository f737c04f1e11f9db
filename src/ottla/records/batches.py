"""A whole RecordBatch (magic 2) to records and back.

Rules kept here:
1. Bytes that are not one whole batch with the right CRC raise CORRUPT_MESSAGE, and nothing else.
2. Offsets and timestamps of records are absolute; where the batch has the broker's append time,
   that is the timestamp of all its records.
3. A batch is made for a log (base offset, leader epoch) or for a producer, which leaves those
   two at 0 and -1.
"""

from collections.abc import Sequence

from crc32c import crc32c

from ottla.records.compression import LARGEST_BODY, Codec, compress, decompress
from ottla.records.record import Record, decode_records, encode_records
from ottla.wire.batch import (
    CONTROL,
    CRC_COVERS_FROM,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    crc_is_right,
    read_header,
)
from ottla.wire.errors import ErrorCode, KafkaError

MAGIC = 2
NO_LEADER_EPOCH = -1


def decode_batch(
    batch: bytes | bytearray | memoryview, *, largest_body: int = LARGEST_BODY
) -> list[Record]:
    """Return the records of a batch; `largest_body` bounds what decompression may make of it."""
    view = memoryview(batch)
    if len(view) < HEADER_SIZE:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {len(view)} bytes")
    header = read_header(view)
    if header.magic != MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"magic {header.magic} is not {MAGIC}")
    if header.size != len(view):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"a batch of {header.size} bytes in {len(view)}"
        )
    if not crc_is_right(view, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch's CRC does not fit its bytes")
    return decode_records(
        decompress(header.codec, view[HEADER_SIZE:], largest_body),
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if header.is_log_append_time else None,
    )


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    append_time: int | None = None,
) -> bytes:
    """Return the batch of some records, whose offsets count from the base offset."""
    if not records:
        raise ValueError("a batch has at least one record")
    base_timestamp = records[0].timestamp
    body = compress(codec, encode_records(records, base_offset, base_timestamp))
    attributes = int(codec)
    attributes |= LOG_APPEND_TIME if append_time is not None else 0
    attributes |= TRANSACTIONAL if transactional else 0
    attributes |= CONTROL if control else 0
    max_timestamp = max(record.timestamp for record in records)
    batch = bytearray(HEADER_SIZE + len(body))
    batch[HEADER_SIZE:] = body
    fields = (
        attributes,
        records[-1].offset - base_offset,
        base_timestamp,
        max_timestamp if append_time is None else append_time,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    length = len(batch) - LOG_OVERHEAD
    HEADER.pack_into(batch, 0, base_offset, length, leader_epoch, MAGIC, 0, *fields)
    crc = crc32c(memoryview(batch)[CRC_COVERS_FROM:])
    HEADER.pack_into(batch, 0, base_offset, length, leader_epoch, MAGIC, crc, *fields)
    return bytes(batch)
