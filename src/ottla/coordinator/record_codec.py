"""Records of `__consumer_offsets` to bytes and back.

A key starts with two bytes that say what kind of record it is; a value with two that say its
version.

Rules kept here:
1. A kind or value version that is not known is passed over (None), as Kafka does: a newer broker,
   or another one with share groups, may have written it.
2. Bytes that are not what their kind and version say raise DecodeError.
3. Kafka writes "no classic member" as a tagged null; here it is left out, which says the same.
"""

from struct import Struct

import msgspec

from ottla.coordinator.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
)
from ottla.coordinator.offsets.records import (
    OFFSET_VALUE_VERSION,
    OffsetCommitKey,
    OffsetCommitValue,
    offset_key,
    offset_value,
)
from ottla.coordinator.shard import CoordinatorRecord
from ottla.wire.codec import DecodeError, decode, encode
from ottla.wire.message import Message

_SHORT = Struct(">h")

_KINDS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (OffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
_KEY_PREFIXES = {key: _SHORT.pack(kind) for kind, (key, _) in _KINDS.items()}
_VALUE_PREFIXES = [_SHORT.pack(version) for version in range(5)]
_TAGGED_NULL = b"\x01\x00\x01\x00"
"""The end of a value whose only tagged field is a structure that is null: one field, tag 0, one
byte, null. No other value can end so: a structure that is there ends with two counts of 0."""


class ParsedRecord(msgspec.Struct, frozen=True, gc=False):
    """What a record says."""

    key: Message
    value: Message | None


def write_record(key: Message, value: Message, version: int = 0) -> CoordinatorRecord:
    """The record that keeps a value."""
    return CoordinatorRecord(
        _KEY_PREFIXES[type(key)] + encode(key, 0),
        _VALUE_PREFIXES[version] + encode(value, version),
        ParsedRecord(key, value),
    )


def write_offset(key: OffsetCommitKey, value: OffsetCommitValue) -> CoordinatorRecord:
    """The record that keeps a committed offset."""
    data = offset_value(value)
    if data is None:
        return write_record(key, value, OFFSET_VALUE_VERSION)
    name = offset_key(key.group, key.topic, key.partition)
    return CoordinatorRecord(name, data, ParsedRecord(key, value))


def write_tombstone(key: Message) -> CoordinatorRecord:
    """The record that deletes what a key names."""
    return CoordinatorRecord(
        _KEY_PREFIXES[type(key)] + encode(key, 0), None, ParsedRecord(key, None)
    )


def read_record(record: CoordinatorRecord) -> ParsedRecord | None:
    """What a record says, None where its kind or version is not known."""
    if isinstance(record.parsed, ParsedRecord):
        return record.parsed
    classes = _KINDS.get(_short(record.key))
    if classes is None:
        return None
    key_class, value_class = classes
    key = decode(key_class, 0, record.key, _SHORT.size)
    if record.value is None:
        return ParsedRecord(key, None)
    version = _short(record.value)
    if not value_class.VERSIONS[0] <= version <= value_class.VERSIONS[1]:
        return None
    value = record.value
    if value_class is ConsumerGroupMemberMetadataValue and value.endswith(_TAGGED_NULL):
        value = value[: -len(_TAGGED_NULL)] + b"\x00"
    return ParsedRecord(key, decode(value_class, version, value, _SHORT.size))


def _short(data: bytes) -> int:
    if len(data) < _SHORT.size:
        raise DecodeError(f"a record of __consumer_offsets that ends before its kind: {data!r}")
    number: int = _SHORT.unpack_from(data)[0]
    return number
