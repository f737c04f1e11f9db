"""The records of `__consumer_offsets` that hold committed offsets, in Kafka's own formats.

Rules kept here:
1. A key is of type 1; type 0 is its oldest form, with the same fields, and is still read.
2. Values are written as version 4; as version 1 where the client asked for a retention of its own
   (OffsetCommit up to version 4), since no other version can say when an offset expires.
3. All versions are read. What a version does not carry keeps its default.
4. The usual record is written by hand: a broker writes one for each commit of an offset.
"""

from functools import lru_cache
from struct import Struct
from typing import ClassVar
from uuid import UUID

from ottla.coordinator.record_keys import RecordKey
from ottla.wire.message import NO_UUID, Field, Message

OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
NO_TIMESTAMP = -1


class OffsetCommitKey(RecordKey, kw_only=True):
    """Names a group's offset in a partition."""

    RECORD_TYPE: ClassVar[int] = 1

    group: str = ""
    topic: str = ""
    partition: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group", "string", "0+"),
        Field("topic", "string", "0+"),
        Field("partition", "int32", "0+"),
    )


class LegacyOffsetCommitKey(OffsetCommitKey, kw_only=True):
    """Its oldest form, with the same fields. It is only read."""

    RECORD_TYPE: ClassVar[int] = 0


class OffsetCommitValue(Message, kw_only=True):
    """Versions 0 to 4."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int] = 4

    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = NO_TIMESTAMP
    topic_id: UUID = NO_UUID

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("offset", "int64", "0+"),
        Field("leader_epoch", "int32", "3+"),
        Field("metadata", "string", "0+"),
        Field("commit_timestamp", "int64", "0+"),
        Field("expire_timestamp", "int64", "1"),
        Field("topic_id", "uuid", "4+", tag=0),
    )


_OLDEST_KIND, _KIND = b"\x00\x00", b"\x00\x01"
_LENGTH = Struct(">h")
_PARTITION = Struct(">i")
_VERSION_TO_METADATA = Struct(">hqiB")
_TIMESTAMP = Struct(">q")
_NO_TAGS = b"\x00"
_TOPIC_ID_TAG = b"\x01\x00\x10"
"""One tagged field, its tag, and its size."""
LONGEST_METADATA_BY_HAND = 126
"""Beyond, a compact length takes more than a byte."""
KEYS_REMEMBERED = 10_000
"""A consumer commits for the same partitions again and again."""
LONGEST_GROUP_REMEMBERED = 255
"""The name of a group can have 32 KB: that many of those would be a lot of memory."""


def is_offset_key(key: bytes) -> bool:
    """Whether a record with this key holds a committed offset."""
    return key.startswith((_OLDEST_KIND, _KIND))


def offset_key(group: str, topic: str, partition: int) -> bytes:
    """The bytes of a record's key."""
    if len(group) > LONGEST_GROUP_REMEMBERED:
        return _offset_key(group, topic, partition)
    return _remembered_key(group, topic, partition)


def _offset_key(group: str, topic: str, partition: int) -> bytes:
    name, topic_name = group.encode(), topic.encode()
    return b"".join(
        (
            _KIND,
            _LENGTH.pack(len(name)),
            name,
            _LENGTH.pack(len(topic_name)),
            topic_name,
            _PARTITION.pack(partition),
        )
    )


_remembered_key = lru_cache(maxsize=KEYS_REMEMBERED)(_offset_key)


def offset_value(value: OffsetCommitValue) -> bytes | None:
    """The bytes of a record's value in version 4, None where its metadata is long."""
    metadata = value.metadata.encode()
    topic_id = value.topic_id.int  # a UUID compares itself, and makes bytes, in Python
    if len(metadata) > LONGEST_METADATA_BY_HAND:
        return None
    return b"".join(
        (
            _VERSION_TO_METADATA.pack(
                OFFSET_VALUE_VERSION, value.offset, value.leader_epoch, len(metadata) + 1
            ),
            metadata,
            _TIMESTAMP.pack(value.commit_timestamp),
            _TOPIC_ID_TAG + topic_id.to_bytes(16) if topic_id else _NO_TAGS,
        )
    )
