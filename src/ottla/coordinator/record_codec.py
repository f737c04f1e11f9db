"""Records of `__consumer_offsets` as they are written. `record_kinds.py` reads them.

A key starts with two bytes that say the type of the record, a value with two that say its version.
"""

from struct import Struct

import msgspec

from ottla.coordinator.offsets.records import (
    OFFSET_VALUE_VERSION,
    OffsetCommitKey,
    OffsetCommitValue,
    offset_key,
    offset_value,
)
from ottla.coordinator.record_keys import RecordKey
from ottla.coordinator.shard import CoordinatorRecord
from ottla.wire.codec import encode
from ottla.wire.message import Message

_PREFIXES = [Struct(">h").pack(number) for number in range(32)]


class ParsedRecord(msgspec.Struct, frozen=True, gc=False):
    """What a record says."""

    key: RecordKey
    value: Message | None


def write_record(key: RecordKey, value: Message, version: int = 0) -> CoordinatorRecord:
    """The record that keeps a value."""
    return CoordinatorRecord(
        _PREFIXES[key.RECORD_TYPE] + encode(key, 0),
        _PREFIXES[version] + encode(value, version),
        ParsedRecord(key, value),
    )


def write_offset(key: OffsetCommitKey, value: OffsetCommitValue) -> CoordinatorRecord:
    """The record that keeps a committed offset."""
    data = offset_value(value)
    if data is None:
        return write_record(key, value, OFFSET_VALUE_VERSION)
    name = offset_key(key.group, key.topic, key.partition)
    return CoordinatorRecord(name, data, ParsedRecord(key, value))


def write_tombstone(key: RecordKey) -> CoordinatorRecord:
    """The record that deletes what a key names."""
    return CoordinatorRecord(
        _PREFIXES[key.RECORD_TYPE] + encode(key, 0), None, ParsedRecord(key, None)
    )
