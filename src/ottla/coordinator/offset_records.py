"""The records of `__consumer_offsets` that hold committed offsets, in Kafka's own formats.

Rules kept here:
1. A key is of type 1; type 0 is its oldest form, with the same fields, and is still read.
2. Values are written as version 4; as version 1 where the client asked for a retention of its own
   (OffsetCommit up to version 4), since no other version can say when an offset expires.
3. All versions are read. What a version does not carry keeps its default.
"""

from typing import ClassVar
from uuid import UUID

from ottla.wire.message import NO_UUID, Field, Message

OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
NO_TIMESTAMP = -1


class OffsetCommitKey(Message, kw_only=True):
    """Names a group's offset in a partition."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)

    group: str = ""
    topic: str = ""
    partition: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group", "string", "0+"),
        Field("topic", "string", "0+"),
        Field("partition", "int32", "0+"),
    )


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
