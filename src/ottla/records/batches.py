"""A whole RecordBatch (magic 2) to records and back.

Rules kept here:
1. Bytes that are not one whole batch with the right CRC raise CORRUPT_MESSAGE, and nothing else.
2. Offsets and timestamps of records are absolute; where the batch has the broker's append time,
   that is the timestamp of all its records.
3. A batch is made for a log (base offset, leader epoch) or for a producer, which leaves those
   two at 0 and -1.
"""

from collections.abc import Sequence
from struct import Struct

from crc32c import crc32c

from ottla.records.compression import LARGEST_BODY, Codec, body_of, compress
from ottla.records.kernel import KERNEL
from ottla.records.record import Record
from ottla.wire.batch import (
    CONTROL,
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
MOST_SHORT_RECORDS = 50_000
SHORT_BODY = 4 << 20

# The header in two parts: that before what the CRC covers ends with the CRC.
_BEFORE = Struct(">qiibI")  # offset length epoch magic crc
_COVERED = Struct(">hiqqqhii")  # attributes lastDelta baseTs maxTs pid pepoch seq count
_LENGTH_OF_HEADER = HEADER_SIZE - LOG_OVERHEAD


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
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch has an invalid CRC")
    return KERNEL.decode_records(
        body_of(header.codec, view[HEADER_SIZE:], largest_body),
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if header.is_log_append_time else None,
    )


def decode_short_batch(batch: memoryview) -> list[Record]:
    """Return the records of a batch such as a broker writes for itself.

    One that is compressed and long counts as corrupt: it was not written by Ottla.
    """
    if len(batch) >= HEADER_SIZE:
        header = read_header(batch)
        if header.codec and header.record_count > MOST_SHORT_RECORDS:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {header.record_count} records")
    return decode_batch(batch, largest_body=SHORT_BODY)


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
    if append_time is not None:
        max_timestamp = append_time
    elif len(records) == 1:  # as nearly all batches of coordinators
        max_timestamp = base_timestamp
    else:
        max_timestamp = max(record.timestamp for record in records)
    return sealed(
        compress(codec, KERNEL.encode_records(records, base_offset, base_timestamp)),
        len(records),
        base_offset=base_offset,
        codec=codec,
        leader_epoch=leader_epoch,
        last_offset_delta=records[-1].offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        append_time=append_time is not None,
    )


def sealed(
    body: bytes,
    count: int,
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    leader_epoch: int = NO_LEADER_EPOCH,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    append_time: bool = False,
) -> bytes:
    """Return the batch around a body that is already compressed by the codec."""
    covered = _COVERED.pack(
        codec
        | (LOG_APPEND_TIME if append_time else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0),
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    crc = crc32c(body, crc32c(covered))
    before = _BEFORE.pack(base_offset, _LENGTH_OF_HEADER + len(body), leader_epoch, MAGIC, crc)
    return b"".join((before, covered, body))
