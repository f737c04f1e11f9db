"""RecordBatches by hand, right or wrong in any field, so that tests do not lean on Ottla's own.

Rules kept here:
1. A batch is right unless the caller asks for something else; the CRC is right unless given.
2. Only uncompressed records are built; a compressed batch takes its payload ready-made.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

from ottla.wire.batch import CRC_COVERS_FROM, HEADER, HEADER_SIZE

NO_HEADERS: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class Plain:
    """One record to be written."""

    value: bytes | None = b"value"
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = NO_HEADERS
    timestamp_delta: int = 0


@dataclass
class Batch:
    """The fields of a batch; `None` means: what is right."""

    records: Sequence[Plain] = (Plain(),)
    base_offset: int = 0
    length: int | None = None
    leader_epoch: int = -1
    magic: int = 2
    crc: int | None = None
    attributes: int = 0
    last_offset_delta: int | None = None
    base_timestamp: int = field(default_factory=lambda: now_ms())
    max_timestamp: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int | None = None
    payload: bytes | None = None

    def build(self) -> bytes:
        """The bytes of the batch."""
        payload = self.payload
        if payload is None:
            payload = b"".join(_record(delta, record) for delta, record in enumerate(self.records))
        count = len(self.records) if self.count is None else self.count
        deltas = [record.timestamp_delta for record in self.records] or [0]
        fields = [
            self.base_offset,
            HEADER_SIZE - 12 + len(payload) if self.length is None else self.length,
            self.leader_epoch,
            self.magic,
            0,
            self.attributes,
            count - 1 if self.last_offset_delta is None else self.last_offset_delta,
            self.base_timestamp,
            self.base_timestamp + max(deltas) if self.max_timestamp is None else self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            count,
        ]
        without_crc = HEADER.pack(*fields) + payload
        fields[4] = crc32c(without_crc[CRC_COVERS_FROM:]) if self.crc is None else self.crc
        return HEADER.pack(*fields) + payload


def now_ms() -> int:
    """The wall clock in Kafka's unit."""
    return time.time_ns() // 1_000_000


def values(*contents: bytes | None) -> bytes:
    """A right batch of keyless records with these values."""
    return Batch([Plain(content) for content in contents]).build()


def _varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _bytes(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _record(offset_delta: int, record: Plain) -> bytes:
    body = b"\0" + _varint(record.timestamp_delta) + _varint(offset_delta)
    body += _bytes(record.key) + _bytes(record.value) + _varint(len(record.headers))
    for name, value in record.headers:
        body += _bytes(name.encode()) + _bytes(value)
    return _varint(len(body)) + body
