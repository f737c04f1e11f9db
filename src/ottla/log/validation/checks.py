"""Why a producer's batch is refused: Kafka's checks in Kafka's order, with Kafka's codes.

Log.append() checks in one expression whether a batch is plain and valid. Only where it is not are
these called: to find the one error to return, or to accept what is unusual and allowed.
"""

from struct import Struct
from typing import NoReturn

from crc32c import crc32c

from ottla.log.config import LogConfig
from ottla.records.kernel import KERNEL
from ottla.records.layout import Examined
from ottla.records.record import INT64_MAX, INT64_MIN
from ottla.wire.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_COVERS_FROM,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    read_header,
)
from ottla.wire.errors import ErrorCode, KafkaError

PLAIN_ATTRIBUTES = frozenset(
    codec | transactional for codec in range(5) for transactional in (0, TRANSACTIONAL)
)
"""Attributes that need no second look: a known codec, in a transaction or not."""

ZSTD = 4
FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_THAT_ADDS_PARTITIONS = 12
_LARGEST_CODEC = 4
_SMALLEST_MESSAGE = 14
"""What the oldest message format needs after its length; Kafka checks newer ones against it too."""
_UP_TO_MAGIC = 17

SMALLEST_RECORD = 7
"""A record without key, value and headers: seven fields of a byte each."""

_LENGTH = Struct(">i")
_ATTRIBUTES = Struct(">h")
_CRC = Struct(">I")
_TIMESTAMP = Struct(">q")
MAX_TIMESTAMP_AT = 35
"""Its place in a batch's header."""


def check_batch(batch: memoryview, config: LogConfig, api_version: int) -> int:
    """Raise what is wrong with a client's batch; return its size where nothing is.

    What follows it and is no batch is ignored, as in Kafka.
    """
    size = _whole_batch_size(batch)
    if size is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a produce request without a record batch")
    magic = batch[16]
    if magic != 2:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"records of magic {magic} instead of 2")
    codec = (
        _ATTRIBUTES.unpack_from(batch, CRC_COVERS_FROM)[0] & CODEC_MASK
        if size >= HEADER_SIZE
        else 0
    )
    if codec > _LARGEST_CODEC:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression {codec}")
    if codec == ZSTD and api_version < FIRST_VERSION_WITH_ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7 of Produce or later"
        )
    if _whole_batch_size(batch[size:]) is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "more than one record batch for a partition")
    if size < HEADER_SIZE:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes is too small")
    header = read_header(batch)
    if header.base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"the base offset of a batch is {header.base_offset}, not 0"
        )
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes exceeds max.message.bytes {config.max_message_bytes}",
        )
    if crc32c(batch[CRC_COVERS_FROM:size]) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch has an invalid CRC")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a batch of {header.record_count} records ends at offset {header.last_offset_delta}",
        )
    if header.attributes & CONTROL:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a client may not write control batches")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"producer {header.producer_id} sent sequence {header.base_sequence}",
        )
    if header.attributes & LOG_APPEND_TIME and config.message_timestamp_type == "LogAppendTime":
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            "a producer may not set the timestamp type to LogAppendTime",
        )
    if size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {size} bytes exceeds segment.bytes {config.segment_bytes}",
        )
    return size


def check_frame(batch: memoryview, codec: int, count: int) -> None:
    """Refuse a body that is not in its codec, or too small for its records (decision 18)."""
    room = KERNEL.largest_body(codec, batch, HEADER_SIZE)
    if room < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"batch cannot be decompressed with codec {codec}"
        )
    if count * SMALLEST_RECORD > room:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"{len(batch)} bytes cannot hold the {count} records that its header declares",
        )


def are_timely(base: int, largest: int, now: int, config: LogConfig) -> bool:
    """True if no timestamp of a batch is too far from the broker's clock."""
    return (largest == NO_TIMESTAMP or largest - now <= config.message_timestamp_after_max_ms) and (
        base == NO_TIMESTAMP or now - base <= config.message_timestamp_before_max_ms
    )


def timestamp_range(now: int, config: LogConfig) -> tuple[int, int]:
    """The earliest and the latest timestamp that records may have."""
    return (
        max(INT64_MIN, now - config.message_timestamp_before_max_ms),
        min(INT64_MAX, now + config.message_timestamp_after_max_ms),
    )


def refuse_timestamps(found: Examined, earliest: int, latest: int) -> NoReturn:
    """Refuse timestamps too far from the broker's clock, and name the records that have them."""
    problem = KafkaError(
        ErrorCode.INVALID_TIMESTAMP,
        "One or more records have been rejected due to invalid timestamp",
    )
    problem.record_errors = [
        (
            at,
            f"Timestamp {timestamp} of message with offset {at} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]",
        )
        for at, timestamp in found.untimely
    ]
    raise problem


def check_first_sequence(is_known: bool, api_version: int) -> None:
    """Refuse a later batch of a transaction whose first one the partition never got (KIP-890)."""
    if not is_known and api_version >= FIRST_VERSION_THAT_ADDS_PARTITIONS:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            "Expected sequence 0 for transactions v2 idempotent producer with no existing state",
        )


def check_keys(found: Examined) -> None:
    """Refuse a record without a key: compaction could never replace it."""
    if found.keyless:
        problem = KafkaError(
            ErrorCode.INVALID_RECORD, "a compacted topic does not accept records without a key"
        )
        problem.record_errors = [(at, problem.message) for at in found.keyless]
        raise problem


def restamp_max_timestamp(batch: memoryview, largest: int) -> None:
    """Write the largest timestamp of the records into the header, as Kafka does."""
    _TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_AT, largest)
    _CRC.pack_into(batch, CRC_COVERS_FROM - 4, crc32c(batch[CRC_COVERS_FROM:]))


def restamp_attributes(batch: memoryview, attributes: int) -> None:
    """Change a batch's attributes in place, and its CRC."""
    _ATTRIBUTES.pack_into(batch, CRC_COVERS_FROM, attributes)
    _CRC.pack_into(batch, CRC_COVERS_FROM - 4, crc32c(batch[CRC_COVERS_FROM:]))


def _whole_batch_size(view: memoryview) -> int | None:
    """Bytes of the batch that begins a buffer; None if Kafka would not see a whole one."""
    if len(view) < LOG_OVERHEAD:
        return None
    length: int = _LENGTH.unpack_from(view, 8)[0]
    if length < _SMALLEST_MESSAGE:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch length of {length} is too small")
    if len(view) < _UP_TO_MAGIC:
        return None
    if view[16] > 2:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"records of magic {view[16]}")
    return length + LOG_OVERHEAD if length + LOG_OVERHEAD <= len(view) else None
