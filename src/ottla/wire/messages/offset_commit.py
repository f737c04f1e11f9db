"""OffsetCommit (API key 8).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class OffsetCommitRequestPartition(Part, kw_only=True):
    """Part of OffsetCommitRequest."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "2+"),
        Field("committed_offset", "int64", "2+"),
        Field("committed_leader_epoch", "int32", "6+"),
        Field("committed_metadata", "string", "2+", nullable="2+"),
    )


class OffsetCommitRequestTopic(Part, kw_only=True):
    """Part of OffsetCommitRequest."""

    name: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "2-9"),
        Field("topic_id", "uuid", "10+"),
        Field("partitions", OffsetCommitRequestPartition, "2+", array=True),
    )


class OffsetCommitRequest(Message, kw_only=True):
    """Versions 2 to 10."""

    API_KEY: ClassVar[int] = 8
    VERSIONS: ClassVar[tuple[int, int]] = (2, 10)
    FLEXIBLE_FROM: ClassVar[int] = 8

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    retention_time_ms: int = -1
    group_instance_id: str | None = None
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "2+"),
        Field("generation_id_or_member_epoch", "int32", "2+"),
        Field("member_id", "string", "2+"),
        Field("retention_time_ms", "int64", "2-4"),
        Field("group_instance_id", "string", "7+", nullable="7+"),
        Field("topics", OffsetCommitRequestTopic, "2+", array=True),
    )


class OffsetCommitResponsePartition(Part, kw_only=True):
    """Part of OffsetCommitResponse."""

    partition_index: int = 0
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "2+"),
        Field("error_code", "int16", "2+"),
    )


class OffsetCommitResponseTopic(Part, kw_only=True):
    """Part of OffsetCommitResponse."""

    name: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "2-9"),
        Field("topic_id", "uuid", "10+"),
        Field("partitions", OffsetCommitResponsePartition, "2+", array=True),
    )


class OffsetCommitResponse(Message, kw_only=True):
    """Versions 2 to 10."""

    API_KEY: ClassVar[int] = 8
    VERSIONS: ClassVar[tuple[int, int]] = (2, 10)
    FLEXIBLE_FROM: ClassVar[int] = 8

    throttle_time_ms: int = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "3+"),
        Field("topics", OffsetCommitResponseTopic, "2+", array=True),
    )
