"""The 61-byte header of a RecordBatch (magic 2): the only part of a batch the broker reads.

Rules kept here:
1. A batch is opaque. Nothing here looks past its header, except the CRC, which runs over bytes.
2. Base offset and partition leader epoch lie outside the CRC, so a leader stamps both in place.
3. Sizes are checked against the buffer before anything is read.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from ottla.wire.errors import ErrorCode, KafkaError

# offset length epoch magic crc | attributes lastDelta baseTs maxTs pid pepoch seq count
HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
LOG_OVERHEAD = 12
"""Bytes of base offset and length, which the length itself does not count."""
CRC_COVERS_FROM = 21
"""Everything from the attributes on is covered by the CRC."""
SMALLEST_LENGTH = HEADER_SIZE - LOG_OVERHEAD

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_LENGTH = Struct(">i")
_OFFSET_LENGTH_EPOCH = Struct(">qii")
_CRC_ATTRIBUTES = Struct(">Ih")
_MAX_TIMESTAMP = Struct(">q")


class BatchHeader(NamedTuple):
    """A batch's header as it is in the bytes."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, its first twelve included."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the batch's last record (or of the last one it once had)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset that follows this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap to 0 after 2^31 - 1."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        """True for records of a transaction and for its markers."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True for a batch that holds a transaction marker instead of records."""
        return bool(self.attributes & CONTROL)

    @property
    def is_log_append_time(self) -> bool:
        """True where the broker's clock, not the producer's, set the timestamps."""
        return bool(self.attributes & LOG_APPEND_TIME)


def read_header(view: memoryview, at: int = 0) -> BatchHeader:
    """Read the header at a position. The caller knows that 61 bytes are there."""
    return BatchHeader._make(HEADER.unpack_from(view, at))


def headers(view: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch in a buffer; what is cut off at its end is left out.

    Raises CORRUPT_MESSAGE where the bytes cannot be batches.
    """
    at = 0
    end = len(view)
    while at + HEADER_SIZE <= end:
        header = read_header(view, at)
        if header.length < SMALLEST_LENGTH:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"a batch of {header.size} bytes is too small"
            )
        if header.magic != 2:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"magic {header.magic} is not 2")
        if at + header.size > end:
            return
        yield at, header
        at += header.size


def crc_is_right(batch: memoryview, header: BatchHeader) -> bool:
    """Check a whole batch against its CRC."""
    return crc32c(batch[CRC_COVERS_FROM : header.size]) == header.crc


def stamp(batch: memoryview, base_offset: int, length: int, leader_epoch: int) -> None:
    """Give a batch its place in the log: base offset and leader epoch, in place."""
    _OFFSET_LENGTH_EPOCH.pack_into(batch, 0, base_offset, length, leader_epoch)
