"""Transaction markers: the control batches that end a transaction in each of its partitions.

A marker is a batch of one record. The record's key says commit or abort; its value holds the
epoch of the transaction coordinator, by which leaders refuse markers of an older one.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ottla.records.batches import NO_LEADER_EPOCH, decode_batch, encode_batch
from ottla.records.record import Record
from ottla.wire.batch import read_header
from ottla.wire.errors import ErrorCode, KafkaError

SCHEMA_VERSION = 0
_KEY = Struct(">hh")
_VALUE = Struct(">hi")


class MarkerType(IntEnum):
    """How a transaction ended. Other control records belong to Kafka's own metadata quorum."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """The end of a producer's transaction."""

    type: MarkerType
    coordinator_epoch: int
    producer_id: int
    producer_epoch: int


def encode_marker(
    marker: Marker, timestamp: int, *, base_offset: int = 0, leader_epoch: int = NO_LEADER_EPOCH
) -> bytes:
    """Return the batch that a marker is written as."""
    record = Record(
        offset=base_offset,
        timestamp=timestamp,
        key=_KEY.pack(SCHEMA_VERSION, marker.type),
        value=_VALUE.pack(SCHEMA_VERSION, marker.coordinator_epoch),
    )
    return encode_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transactional=True,
        control=True,
    )


def decode_marker(batch: bytes | bytearray | memoryview) -> Marker:
    """Read a marker's batch; raises CORRUPT_MESSAGE where it is none.

    As in Kafka, a later schema version is read as this one: it may only add fields.
    """
    records = decode_batch(batch)
    header = read_header(memoryview(batch))
    if not header.is_control or len(records) != 1:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch that is not a transaction marker")
    key, value = records[0].key or b"", records[0].value or b""
    if len(key) < _KEY.size or len(value) < _VALUE.size:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a transaction marker is too short")
    key_version, kind = _KEY.unpack_from(key)
    value_version, coordinator_epoch = _VALUE.unpack_from(value)
    if key_version < 0 or value_version < 0 or kind not in iter(MarkerType):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a control record of type {kind}")
    return Marker(MarkerType(kind), coordinator_epoch, header.producer_id, header.producer_epoch)
